"""Parts `network` and `logistic`: the cost of a step relative to SGNHT, beside its accuracy."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from isotherm.studies.bench.methods import BASE, EXACT, LOGISTIC, NETWORK, RANK, Method
from isotherm.studies.bench.part import ABSOLUTE, Part, Say, speed, wanted
from isotherm.studies.bench.problems import Problem, logistic, network
from isotherm.studies.bench.programs import program
from isotherm.studies.bench.quality import RANK as QUALITY_RANK
from isotherm.studies.bench.quality import STEPS, TARGET, Quality
from isotherm.studies.bench.sizes import Sizes
from isotherm.studies.bench.turns import take_turns, to_json

HEADER = (
    "",
    "cost of a step",
    "steps/s",
    *(f"{what},\ns = {s:g}" for s in STEPS["symmetric"] for what in ("xi / A - 1", "variance", "worst axis")),
)
_CALL = {"network": 16, "exact": 2, "logistic": 256}  # steps per call
_QUALITY = (
    f"Accuracy is measured with the same sampler on a known posterior with anisotropic minibatch noise ({TARGET} of "
    f"`isotherm validate`, six parameters, low rank {QUALITY_RANK}) at stability number s: relative errors of xi and "
    "of posterior variances, mean and worst, with standard errors."
)


def methods(part: str, sizes: Sizes, only: str) -> list[Method]:
    """Return the rows of a part that match `only`, with the baseline first; none if none match."""
    table = {"network": NETWORK, "exact": EXACT if sizes.exact_batch else (), "logistic": LOGISTIC}[part]
    chosen = [m for m in table if wanted(part, m.name, only) and (sizes.slow or not m.slow)]
    return [BASE, *(m for m in chosen if m != BASE)] if chosen else []


def network_part(sizes: Sizes, quality: Mapping[str, list[Quality]], only: str, say: Say) -> Part:
    """Return the part: the network and, with a smaller batch, methods with one gradient per row."""
    rows, problem = [], network(sizes.layers, sizes.network_rows, sizes.network_batch)
    chosen = methods("network", sizes, only)
    if chosen:
        rows += _rows("network", chosen, problem, sizes, quality, say)
    chosen = methods("exact", sizes, only)
    if chosen:
        small = dataclasses.replace(problem, batch_size=sizes.exact_batch)
        rows += _rows("exact", chosen, small, sizes, quality, say)
    name = "-".join(str(width) for width in sizes.layers)
    title = f"network {name}, {problem.dimension:,} parameters, batch {sizes.network_batch}"
    caption = (
        f"Cost: time of a step relative to {BASE.name} with the same batch size, median of paired rounds "
        f"(quartiles); low rank {RANK}. {ABSOLUTE} {_QUALITY}"
    )
    return Part("network", title, caption, HEADER, [_cells(row) for row in rows], rows)


def logistic_part(sizes: Sizes, quality: Mapping[str, list[Quality]], only: str, say: Say) -> Part:
    """Return the part: logistic regression, where dense matrices are affordable."""
    problem = logistic(sizes.logistic_rows, sizes.dimension, sizes.logistic_batch)
    rows = _rows("logistic", methods("logistic", sizes, only), problem, sizes, quality, say)
    title = (
        f"logistic regression, d = {problem.dimension}, n = {problem.batch_size}, N = {problem.num_data:,}"
    )
    caption = (
        f"Cost: time of a step relative to {BASE.name}, median of paired rounds (quartiles); low rank {RANK}. "
        f"{ABSOLUTE} {_QUALITY}"
    )
    return Part("logistic", title, caption, HEADER, [_cells(row) for row in rows], rows)


def _rows(
    part: str,
    chosen: Sequence[Method],
    problem: Problem,
    sizes: Sizes,
    quality: Mapping[str, list[Quality]],
    say: Say,
) -> list[dict[str, Any]]:
    programs = []
    for m in chosen:
        say(f"{part}: starting {m.name}")
        programs.append(program(m.name, m, problem, steps=_CALL[part]))
    times = take_turns(
        programs, rounds=sizes.rounds, seconds=sizes.seconds, say=lambda x: say(f"{part}: {x}")
    )
    suffix = f", n = {problem.batch_size}" if part == "exact" else ""
    return [
        {
            "name": p.name + suffix,
            "method": p.name,
            "batch_size": problem.batch_size,
            "finite": p.finite(),
            **to_json(times[p.name], times[BASE.name]),
            "quality": [q.to_json() for q in quality.get(p.name, [])],
        }
        for p in programs
    ]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    by_s = {q["s"]: q for q in row["quality"]}
    cells = [x for s in STEPS["symmetric"] for x in quality_cells(by_s.get(s))]
    name = row["name"] if row["finite"] else f"{row['name']} (not finite)"
    return (name, *speed(row), *cells)


def quality_cells(quality: dict[str, Any] | None) -> tuple[str, str, str]:
    """Return the errors of xi and of the variances, mean and worst, as text; empty if not measured."""
    if quality is None:
        return ("", "", "")
    if not quality["finite"]:
        return ("not finite",) * 3
    xi, mean, worst = (_percent(quality[k]) for k in ("xi", "variance", "worst"))
    return xi, mean, worst


def _percent(figure: dict[str, float] | None) -> str:
    if figure is None:
        return "no xi"
    return f"{100 * figure['value']:+.1f}±{100 * figure['error']:.1f} %"
