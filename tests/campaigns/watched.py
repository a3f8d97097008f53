"""Cases of a campaign in child processes, which are watched for crashes and hangs, and the table of their endings."""

import argparse
import collections
import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_AT_ONCE = 2500  # cases that a child runs, since its programs fill its memory
_PATIENCE_S = 120.0  # for one case; the first run of a program takes seconds


class Campaign(NamedTuple):
    """A command that judges cases.

    - `command`: starts it, such as `[sys.executable, script]`.
    - `good`, `bad`: the names of endings; none of the bad ones may occur.
    - `case`: returns the case with a number, which has `kind` and `label`, from a seed.
    - `judged`: runs it, and returns an ending, which has `outcome` and `text`.
    """

    command: list[str]
    good: tuple[str, ...]
    bad: tuple[str, ...]
    case: Callable[[int, int], Any]
    judged: Callable[[Any], Any]


def main(
    campaign: Campaign, description: str, prepare: Callable[[argparse.Namespace], Campaign] | None = None
) -> int:
    """Run a campaign and print its table; return 1 if a bad ending occurred.

    `prepare` is called in each child before its first case, and returns the campaign to run.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--kind", help="only cases of this kind")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        return _child(campaign if prepare is None else prepare(chosen), chosen)
    began, outcomes, faults = time.monotonic(), collections.Counter(), 0
    for kind, ending, text, number in _endings(campaign, chosen):
        outcomes[kind, ending] += 1
        if ending in campaign.bad:
            faults += 1
            print(f"{number} {kind}: {ending}: {text}", flush=True)
    print(table(outcomes, (*campaign.good, *campaign.bad)))
    print(f"{sum(outcomes.values())} cases of seed {chosen.seed} in {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


def table(outcomes: collections.Counter, endings: tuple[str, ...]) -> str:
    """Return outcomes, counted by kind and ending, as text."""
    kinds = sorted({kind for kind, _ in outcomes})
    lines = ["".join([f"{'':<14}", *(f"{name:>12}" for name in endings)])]
    for kind in (*kinds, "all"):
        of_kind = lambda name, kind=kind: sum(
            n for (k, e), n in outcomes.items() if e == name and kind in (k, "all")
        )
        lines.append("".join([f"{kind:<14}", *(f"{of_kind(name):>12}" for name in endings)]))
    return "\n".join(lines)


def _child(campaign: Campaign, chosen: argparse.Namespace) -> int:
    """Run cases, and write a line before and after each."""
    last = min(chosen.first + _AT_ONCE, chosen.cases)
    for number in range(chosen.first, last):
        made = campaign.case(chosen.seed, number)
        if chosen.kind and made.kind != chosen.kind:
            continue
        print(json.dumps({"number": number, "kind": made.kind, "label": made.label}), flush=True)
        ending = campaign.judged(made)
        print(
            json.dumps({"number": number, "ending": ending.outcome, "text": ending.text[:1000]}), flush=True
        )
    print(json.dumps({"ended": last}), flush=True)
    return 0


def _endings(campaign: Campaign, chosen: argparse.Namespace) -> Iterator[tuple[str, str, str, int]]:
    """Yield kind, ending, text and number of each case. A child that dies or hangs is replaced."""
    first = chosen.first
    while first < chosen.cases:
        started, line = None, None
        for line in _lines(campaign, chosen, first):
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


def _lines(campaign: Campaign, chosen: argparse.Namespace, first: int) -> Iterator[dict[str, Any]]:
    """Yield what a child writes, line by line, and a fault if it dies or writes nothing for long."""
    options = {"--cases": chosen.cases, "--seed": chosen.seed, "--first": first, "--kind": chosen.kind or ""}
    command = [*campaign.command, "--child", *(str(x) for pair in options.items() for x in pair)]
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
