"""What section 4.3 says, and whether the numbers bear it out: for the mean, as there, and for the prediction."""

from typing import Any

import numpy as np

from isotherm.studies.experiments.verdicts import claim, grade

Cells = list[dict[str, Any]]

METHODS = ("SGHMC", "SGNHT", "CCAdL")
PAPER = ("connect-4", "letter", "acoustic")
CLEAR = 0.01  # a difference of errors that one chain shows


def judge(cells: Cells, tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The claims in the paper's order, each with verdict, number and evidence."""
    return [
        *(_need_large_friction(cells, tables, kind) for kind in ("mean_error", "predictive_error")),
        *(_spread(cells, tables, kind) for kind in ("mean_error", "predictive_error")),
        *(_small_friction(cells, tables, kind) for kind in ("mean_error", "predictive_error")),
        _sghmc_relies(cells, tables),
    ]


def final(cells: Cells, data: str, method: str, h: float, A: float, kind: str, variant: str = "") -> float:
    """The error at the end; 1 where the chain died."""
    for cell in cells:
        key = (cell["data"], cell["method"], cell["step_size"], cell["friction"], cell["variant"])
        if key == (data, method, h, A, variant):
            return 1.0 if cell[kind][-1] is None else cell[kind][-1]
    raise KeyError((data, method, h, A, variant))


def frictions(cells: Cells) -> list[float]:
    """Of the paper's panels."""
    return sorted({c["friction"] for c in cells if c["method"] == "SGHMC"})


def errors(cells: Cells, table: dict[str, Any], method: str, kind: str) -> list[float]:
    """At the data set's largest step, by friction."""
    return [final(cells, table["data"], method, table["steps"][-1], A, kind) for A in frictions(cells)]


def _of(kind: str) -> str:
    return "mean of the parameters" if kind == "mean_error" else "averaged prediction"


def _need_large_friction(cells: Cells, tables: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    holds, lines = [], []
    for t in tables:
        e = {m: errors(cells, t, m, kind) for m in METHODS[:2]}
        holds.append(all(x[0] - min(x) > CLEAR and x[-1] == min(x) for x in e.values()))
        lines.append(
            f"{t['data']} "
            + " and ".join(f"{x[0]:.3f} to {x[-1]:.3f} (best {min(x):.3f})" for x in e.values())
        )
    held, of = _in_the_paper(holds, tables)
    return claim(
        f"SGHMC and SGNHT only work well with a large value of A ({_of(kind)}).",
        grade(full=held == of, part=held > 0),
        held,
        "Error from the smallest A to the largest, at the largest step, SGHMC and SGNHT: "
        + "; ".join(lines)
        + f". The largest A is best, the smallest clearly worse, for both in {held} of {of} data sets.",
    )


def _spread(cells: Cells, tables: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    holds, lines = [], []
    for t in tables:
        e = {m: errors(cells, t, m, kind) for m in METHODS}
        others = [e[m] for m in METHODS[:2]]
        narrower = np.ptp(e["CCAdL"]) < min(map(np.ptp, others)) - CLEAR
        holds.append(narrower and max(e["CCAdL"]) < min(map(max, others)) + CLEAR)
        lines.append(f"{t['data']} " + ", ".join(f"{np.ptp(e[m]):.3f} ({max(e[m]):.3f})" for m in METHODS))
    held, of = _in_the_paper(holds, tables)
    return claim(
        f"CCAdL works reliably in a wide range of A at the largest step ({_of(kind)}).",
        grade(full=held == of, part=held > 0),
        held,
        "Range of the error over A, and in brackets the largest, for SGHMC, SGNHT, CCAdL: "
        + "; ".join(lines)
        + f". The range of CCAdL is smaller by more than {CLEAR}, and its largest error no worse by more than that, "
        f"in {held} of {of} data sets of the paper.",
    )


def _small_friction(cells: Cells, tables: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    gains, lines = [], []
    for t in tables:
        e = {m: errors(cells, t, m, kind)[0] for m in METHODS}
        gains.append(min(e["SGHMC"], e["SGNHT"]) - e["CCAdL"])
        lines.append(f"{t['data']} " + ", ".join(f"{e[m]:.3f}" for m in METHODS))
    held, of = _in_the_paper([gain > CLEAR for gain in gains], tables)
    return claim(
        f"At a small A and a large step CCAdL is much better than the other two ({_of(kind)}).",
        grade(full=held == of, part=held > 0),
        float(np.median(gains)),
        f"Error at A = {frictions(cells)[0]:g} and the largest step for SGHMC, SGNHT, CCAdL: "
        + "; ".join(lines)
        + f". CCAdL is better by more than {CLEAR} in {held} of {of} data sets of the paper.",
    )


def _sghmc_relies(cells: Cells, tables: list[dict[str, Any]]) -> dict[str, Any]:
    holds, lines, A = [], [], frictions(cells)
    for t in tables:
        own = {
            c["step_size"]
            for c in cells
            if (c["method"], c["data"], c["variant"]) == ("SGHMC", t["data"], "")
        }
        error = {(h, a): final(cells, t["data"], "SGHMC", h, a, "mean_error") for h in own for a in A}
        good, bad = error[min(own), A[-1]], error[max(own), A[0]]
        best = min(error, key=lambda cell: error[cell])
        holds.append(len(own) > 1 and bad > 1.5 * good and good < error[best] + CLEAR)
        lines.append(
            f"{t['data']} {bad:.3f} against {good:.3f} (best of all {error[best]:.3f}, at h = {best[0]:g}, "
            f"A = {best[1]:g})"
        )
    held, of = _in_the_paper(holds, tables)
    return claim(
        "The performance of SGHMC relies heavily on a small h and a large A.",
        grade(full=held == of, part=held > 0),
        held,
        "Error at the largest h and smallest A against that at the smallest h and largest A: "
        + "; ".join(lines)
        + f". The one is half as large again, or more, and the other the best of all, in {held} of {of} data sets of "
        "the paper.",
    )


def _in_the_paper(holds: list[Any], tables: list[dict[str, Any]]) -> tuple[int, int]:
    """In how many of the paper's data sets it holds, and of how many: a stand-in is not judged."""
    own = [bool(h) for h, t in zip(holds, tables, strict=True) if t["data"] in PAPER]
    return sum(own), len(own)
