"""Part `chains`, for a GPU: a thousand chains in parallel, and a network of ten million parameters."""

from typing import Any

import jax
import numpy as np

from isotherm.studies.bench.methods import BASE, Method
from isotherm.studies.bench.part import Part, Say, speed, wanted
from isotherm.studies.bench.problems import Problem, logistic, network
from isotherm.studies.bench.programs import Chains, kernel_of, num_bytes
from isotherm.studies.bench.sizes import Sizes
from isotherm.studies.bench.turns import Program, take_turns, to_json

METHODS = (BASE, Method("CCAdL", "Diagonal"), Method("CCAdL", "Dense"), Method("CCAdL", "Dense", "symmetric"))
WIDE = Method("CCAdL", "DiagonalLowRank")
HEADER = ("", "cost of a step", "steps/s", "chain-steps/s", "MB per step\nat least", "GB/s", "peak GB")
_CALL = 16  # steps per call


def names(sizes: Sizes, only: str) -> list[str]:
    """Return the names of the rows that contain `only`."""
    chosen = [m.name for m in METHODS if wanted("chains", m.name, only)]
    wide = f"{WIDE.name}, {_shape(sizes)}"
    return [*([wide] if wanted("chains", wide, only) else []), *chosen]


def chains_part(sizes: Sizes, only: str, say: Say) -> Part:
    """Return the part. The network runs first, so that the peak of the device's memory is due to it alone."""
    chosen, rows = names(sizes, only), []
    if any(_shape(sizes) in name for name in chosen):
        rows.append(_wide(sizes, say))
    many = [m for m in METHODS if m.name in chosen]
    if many:
        rows += _many(sizes, [BASE, *(m for m in many if m != BASE)], say)
    title = f"{sizes.many_chains:,} chains of logistic regression, N = {sizes.many_rows:,}; a network of ten million"
    caption = (
        f"Cost: time of a step of all chains relative to {BASE.name}, median of paired rounds (quartiles). MB per "
        "step: the least that a step must move, which is the rows of the batches once and the state in and out. "
        "Peak: memory of the device since the program started."
    )
    return Part("chains", title, caption, HEADER, [_cells(row) for row in rows], rows)


def _wide(sizes: Sizes, say: Say) -> dict[str, Any]:
    problem = network(sizes.wide_layers, sizes.network_rows, sizes.network_batch)
    say(f"chains: network of {problem.dimension:,} parameters")
    before = _peak()
    running = Chains(kernel_of(WIDE, problem), problem, steps=_CALL)
    program = Program(WIDE.name, _CALL, running, cycle=WIDE.cycle // _CALL)
    times = take_turns([program], rounds=sizes.rounds, seconds=sizes.seconds)[WIDE.name]
    memory = {"parameters": problem.dimension, "peak_bytes": _peak(), "peak_bytes_before": before}
    return _row(f"{WIDE.name}, {_shape(sizes)}", 1, times, times, running, problem) | memory


def _many(sizes: Sizes, methods: list[Method], say: Say) -> list[dict[str, Any]]:
    problem = logistic(sizes.many_rows, sizes.dimension, sizes.logistic_batch)
    running = {}
    for m in methods:
        say(f"chains: starting {m.name}")
        running[m.name] = Chains(kernel_of(m, problem), problem, steps=_CALL, chains=sizes.many_chains)
    programs = [Program(name, _CALL, chains) for name, chains in running.items()]
    times = take_turns(
        programs, rounds=sizes.rounds, seconds=sizes.seconds, say=lambda what: say(f"chains: {what}")
    )
    base = times[BASE.name]
    return [_row(n, sizes.many_chains, times[n], base, c, problem) for n, c in running.items()]


def _row(
    name: str, chains: int, times: list[float], base: list[float], running: Chains, problem: Problem
) -> dict[str, Any]:
    moved = bytes_of_step(problem, chains, num_bytes(running.state))
    second = float(np.median(times))
    return {
        "name": name,
        "chains": chains,
        "finite": running.finite(),
        **to_json(times, base),
        "chain_steps_per_second": chains / second,
        "bytes_per_step": moved,
        "bytes_per_second": moved / second,
    }


def bytes_of_step(problem: Problem, chains: int, state: int) -> int:
    """Return the bytes that a step must move: the rows of all batches read once, the state read and written."""
    return chains * problem.batch_size * num_bytes(problem.data) // problem.num_data + 2 * state


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    peak = row.get("peak_bytes")
    return (
        row["name"],
        *speed(row),
        f"{row['chain_steps_per_second']:,.0f}",
        f"{row['bytes_per_step'] / 1e6:,.1f}",
        f"{row['bytes_per_second'] / 1e9:,.0f}",
        "" if peak is None else f"{peak / 1e9:.2f}",
    )


def _shape(sizes: Sizes) -> str:
    return "-".join(str(width) for width in sizes.wide_layers)


def _peak() -> int | None:
    stats = jax.devices()[0].memory_stats()
    return None if stats is None else stats.get("peak_bytes_in_use")
