"""Runs cases in a child process, watches it for crashes and hangs, and prints the table of outcomes."""

import argparse
import collections
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import jax

from .case import BAD, GOOD, judged
from .drawn import case

_AT_ONCE = 2500  # cases that a child runs, since its programs fill its memory
_PATIENCE_S = 120.0  # for one case; the first run of a program takes seconds


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description="Call the library with hostile input, and count what it ends in."
    )
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--kind", help="only cases of this kind")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        return _child(chosen)
    began, outcomes, faults = time.monotonic(), collections.Counter(), 0
    for kind, ending, text, number in _endings(chosen):
        outcomes[kind, ending] += 1
        if ending in BAD:
            faults += 1
            print(f"{number} {kind}: {ending}: {text}", flush=True)
    print(table(outcomes))
    print(f"{sum(outcomes.values())} cases of seed {chosen.seed} in {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


def table(outcomes: collections.Counter) -> str:
    """Return outcomes, counted by kind and ending, as text."""
    kinds = sorted({kind for kind, _ in outcomes})
    lines = ["".join([f"{'':<14}", *(f"{name:>12}" for name in (*GOOD, *BAD))])]
    for kind in (*kinds, "all"):
        of_kind = lambda name, kind=kind: sum(
            n for (k, e), n in outcomes.items() if e == name and kind in (k, "all")
        )
        lines.append("".join([f"{kind:<14}", *(f"{of_kind(name):>12}" for name in (*GOOD, *BAD))]))
    return "\n".join(lines)


def _child(chosen: argparse.Namespace) -> int:
    """Run cases, and write a line before and after each."""
    jax.config.update("jax_disable_most_optimizations", True)  # programs are small and run once or twice
    last = min(chosen.first + _AT_ONCE, chosen.cases)
    for number in range(chosen.first, last):
        made = case(chosen.seed, number)
        if chosen.kind and made.kind != chosen.kind:
            continue
        print(json.dumps({"number": number, "kind": made.kind, "label": made.label}), flush=True)
        ending = judged(made)
        print(
            json.dumps({"number": number, "ending": ending.outcome, "text": ending.text[:1000]}), flush=True
        )
    print(json.dumps({"ended": last}), flush=True)
    return 0


def _endings(chosen: argparse.Namespace):
    """Yield kind, ending, text and number of each case. A child that dies or hangs is replaced."""
    first = chosen.first
    while first < chosen.cases:
        started, line = None, None
        for line in _lines(chosen, first):
            if "fault" in line:
                break
            if "ended" in line:
                break
            if "ending" in line:
                yield started["kind"], line["ending"], f"{started['label']}: {line['text']}", line["number"]
                first, started = line["number"] + 1, None
            else:
                started = line
        if started is None:
            if line is None or "ended" not in line:
                raise RuntimeError(f"the campaign itself failed at case {first}; see above")
            first = line["ended"]
            continue
        yield started["kind"], line["fault"], started["label"], started["number"]
        first = started["number"] + 1


def _lines(chosen: argparse.Namespace, first: int):
    """Yield what a child writes, line by line, and a fault if it dies or writes nothing for long."""
    command = [sys.executable, str(Path(__file__).parent.parent / "hostile_input.py"), "--child"]
    options = {"--cases": chosen.cases, "--seed": chosen.seed, "--first": first, "--kind": chosen.kind or ""}
    command += [str(x) for pair in options.items() for x in pair]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=os.environ | {"JAX_PLATFORMS": "cpu"}
    ) as child:
        text = b""
        while True:
            ready, _, _ = select.select([child.stdout], [], [], _PATIENCE_S)
            if not ready:
                child.kill()
                yield {"fault": "hang"}
                return
            piece = os.read(child.stdout.fileno(), 2**16)
            if not piece:
                yield {"fault": "crash"}
                return
            *lines, text = (text + piece).split(b"\n")
            yield from (json.loads(line) for line in lines if line.startswith(b"{"))
