"""Part `peers`: steps of isotherm and of other libraries on one logistic regression."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from isotherm.data.random_blocks import RandomBlocks
from isotherm.studies.bench.methods import BASE, Method
from isotherm.studies.bench.others import (
    BLACKJAX_LOOP,
    BLACKJAX_SCAN,
    POSTERIORS,
    blackjax_loop,
    blackjax_scan,
    posteriors,
)
from isotherm.studies.bench.part import ABSOLUTE, Part, Say, speed, wanted
from isotherm.studies.bench.problems import Problem, logistic
from isotherm.studies.bench.programs import program
from isotherm.studies.bench.sizes import Sizes
from isotherm.studies.bench.turns import Program, fastest, paired, take_turns, to_json

_BLOCKS = RandomBlocks(rows_per_run=32)
_METHODS = (
    BASE,
    Method("SGNHT", plan=_BLOCKS),
    Method("CCAdL", "Dense"),
    Method("CCAdL", "Dense", plan=_BLOCKS),
    Method("CCAdL", "Dense", "symmetric"),
)
OWN = {f"isotherm {m.name}": m for m in _METHODS}
BASE_NAME = f"isotherm {BASE.name}"
ONE_CHAIN = {BLACKJAX_LOOP: blackjax_loop, POSTERIORS: posteriors}
_STEPS = 256  # per call with one chain


def names(sizes: Sizes, only: str) -> list[tuple[str, int]]:
    """Return the pairs of program and number of chains; isotherm's SGNHT comes first for each number."""
    pairs = []
    for chains in sizes.peer_chains:
        programs = [*OWN, BLACKJAX_SCAN, *(ONE_CHAIN if chains == 1 else ())]
        chosen = [p for p in programs if wanted("peers", label(p, chains), only)]
        if chosen:
            pairs += [(p, chains) for p in [BASE_NAME, *(p for p in chosen if p != BASE_NAME)]]
    return pairs


def label(name: str, chains: int) -> str:
    """Return the name of a row."""
    return f"{name}, {chains} chain{'s' if chains > 1 else ''}"


def peers_part(sizes: Sizes, only: str, say: Say) -> Part:
    """Return the part: all libraries on the same rows. The notes name those that are not installed."""
    problem = logistic(sizes.peer_rows, sizes.dimension, sizes.logistic_batch)
    pairs, rows, notes = names(sizes, only), [], []
    for chains in dict.fromkeys(chains for _, chains in pairs):
        group = [name for name, count in pairs if count == chains]
        programs, absent = available(group, problem, chains, say)
        notes += absent
        times = take_turns(
            programs, rounds=sizes.rounds, seconds=sizes.seconds, say=lambda x: say(f"peers: {x}")
        )
        rows += [
            {
                "name": label(p.name, chains),
                "program": p.name,
                "chains": chains,
                "finite": p.finite(),
                **to_json(times[p.name], times[BASE_NAME]),
            }
            for p in programs
        ]
        notes += comparison(times, chains)
    sizes_text = f"d = {problem.dimension}, n = {problem.batch_size}, N = {problem.num_data:,}"
    title = f"other libraries: logistic regression, {sizes_text}"
    caption = (
        f"Cost: time of a step of all chains relative to {BASE_NAME}, median of paired rounds (quartiles). All in "
        "single precision. Minibatches are drawn with replacement, or as random blocks: contiguous runs of 32 rows "
        "at independent random offsets into shuffled rows. A scan is a `lax.scan` that the user writes around the "
        f"step of the library; a loop is the Python loop of its documentation. {ABSOLUTE}"
    )
    lines = [(row["name"], *speed(row)) for row in rows]
    return Part(
        "peers", title, caption, ("", "cost of a step", "steps/s"), lines, rows, tuple(dict.fromkeys(notes))
    )


def available(
    group: Sequence[str], problem: Problem, chains: int, say: Say
) -> tuple[list[Program], list[str]]:
    """Return the programs that can run here, and a sentence for each that cannot."""
    programs, absent = [], []
    for name in group:
        say(f"peers: starting {label(name, chains)}")
        try:
            programs.append(_build(name, problem, chains))
        except ImportError as error:
            absent.append(f"{name} was not run. {error}")
    return programs, absent


def _build(name: str, problem: Problem, chains: int) -> Program:
    steps = max(4, _STEPS // chains)
    if name in OWN:
        return program(name, OWN[name], problem, steps=steps, chains=chains if chains > 1 else None)
    if name == BLACKJAX_SCAN:
        return blackjax_scan(problem, steps=steps, chains=chains)
    build: Callable[..., Program] = ONE_CHAIN[name]
    return build(problem, steps=steps)


def comparison(times: Mapping[str, Sequence[float]], chains: int) -> list[str]:
    """Return a sentence per sampler of isotherm that compares it with the fastest other library, if there is one."""
    others: dict[str, Any] = {name: t for name, t in times.items() if name not in OWN}
    if not others:
        return []
    name, timed = fastest(others), [p for p in OWN if p in times]
    slower = np.asarray(others[name]).tolist()
    with_chains = label("", chains)[2:]
    return [
        f"With {with_chains}: {p} takes {paired(slower, times[p])} times as many steps per second as {name}, the "
        "fastest of the others."
        for p in timed
    ]
