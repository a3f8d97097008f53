"""Speed as a ratio within one run: programs take turns, so that other load on the machine affects all of them."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """Something to be timed: `call` advances by `steps` steps and returns arrays to wait for.

    `cycle` is the number of calls after which the work repeats; a round is a multiple of it. `finite` returns
    whether the chains are still finite: the timing of a chain of NaN means nothing.
    """

    name: str
    steps: int
    call: Callable[[], Any]
    cycle: int = 1
    finite: Callable[[], bool] = lambda: True


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Median and quartiles of paired ratios, one per round."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def take_turns(
    programs: Sequence[Program],
    *,
    rounds: int,
    seconds: float,
    say: Callable[[str], None] = lambda what: None,
) -> dict[str, list[float]]:
    """Return the seconds per step of each program in each round; a program runs for at least `seconds` per round.

    The order rotates from round to round, so that no program always follows the same other one.
    """
    repeats = {}
    for program in programs:
        say(f"compiling {program.name}")
        _time(program, 1)
        repeats[program.name] = calls(_time(program, 1), seconds, program.cycle)
    times: dict[str, list[float]] = {program.name: [] for program in programs}
    for i in range(rounds):
        say(f"round {i + 1} of {rounds}")
        first = i * max(1, len(programs) // rounds) % max(1, len(programs))
        for program in [*programs[first:], *programs[:first]]:
            count = repeats[program.name]
            times[program.name].append(_time(program, count) / (count * program.steps))
    return times


def calls(one: float, seconds: float, cycle: int) -> int:
    """Return how many calls of `one` seconds each fill `seconds`, as a multiple of `cycle`."""
    return cycle * max(1, math.ceil(seconds / max(one, 1e-9) / cycle))


def paired(times: Sequence[float], base: Sequence[float]) -> Ratio:
    """Return the ratio of `times` to those of another program in the same rounds."""
    low, median, high = np.quantile(np.asarray(times) / np.asarray(base), [0.25, 0.5, 0.75])
    return Ratio(float(median), float(low), float(high))


def fastest(times: Mapping[str, Sequence[float]]) -> str:
    """Return the program with the smallest median time."""
    return min(times, key=lambda name: float(np.median(times[name])))


def to_json(times: Sequence[float], base: Sequence[float]) -> dict[str, Any]:
    """Return the times of all rounds, and their summary."""
    ratio = paired(times, base)
    return {
        "cost": ratio.median,
        "cost_quartiles": [ratio.low, ratio.high],
        "steps_per_second": 1 / float(np.median(times)),
        "seconds_per_step": list(times),
    }


def _time(program: Program, count: int) -> float:
    began = time.perf_counter()
    out = None
    for _ in range(count):
        out = program.call()
    jax.block_until_ready(out)
    return time.perf_counter() - began
