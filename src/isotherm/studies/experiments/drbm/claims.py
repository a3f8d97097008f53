"""The claims of section 4.3 and whether the numbers support them.

Claims are judged for the mean of the parameters, as in the paper, and for the averaged prediction.
"""

from typing import Any

import numpy as np

from isotherm.studies.experiments.verdicts import claim, grade

Cells = list[dict[str, Any]]

METHODS = ("SGHMC", "SGNHT", "CCAdL")
PAPER = ("connect-4", "letter", "acoustic")
CLEAR = 0.01  # smallest difference of errors that one chain can establish


def judge(cells: Cells, tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the claims in the paper's order, each with verdict, number and evidence."""
    return [
        *(_need_large_friction(cells, tables, kind) for kind in ("mean_error", "predictive_error")),
        *(_spread(cells, tables, kind) for kind in ("mean_error", "predictive_error")),
        *(_small_friction(cells, tables, kind) for kind in ("mean_error", "predictive_error")),
        _sghmc_relies(cells, tables),
    ]


def final(cells: Cells, data: str, method: str, h: float, A: float, kind: str, variant: str = "") -> float:
    """Return the error at the end of a chain, or 1 if the chain diverged."""
    for cell in cells:
        key = (cell["data"], cell["method"], cell["step_size"], cell["friction"], cell["variant"])
        if key == (data, method, h, A, variant):
            return 1.0 if cell[kind][-1] is None else cell[kind][-1]
    raise KeyError((data, method, h, A, variant))


def frictions(cells: Cells) -> list[float]:
    """Return the frictions of the paper's panels, in increasing order."""
    return sorted({c["friction"] for c in cells if c["method"] == "SGHMC"})


def errors(cells: Cells, table: dict[str, Any], method: str, kind: str) -> list[float]:
    """Return the errors at the largest step of a data set, by friction."""
    return [final(cells, table["data"], method, table["steps"][-1], A, kind) for A in frictions(cells)]


def _label(kind: str) -> str:
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
    held, total = _count_paper_data_sets(holds, tables)
    return claim(
        f"SGHMC and SGNHT only work well with a large value of A ({_label(kind)}).",
        grade(full=held == total, part=held > 0),
        held,
        "Error at the smallest and at the largest A, at the largest step, for SGHMC and SGNHT: "
        + "; ".join(lines)
        + f". For both methods the largest A is best and the smallest clearly worse in {held} of {total} data sets "
        "of the paper.",
    )


def _spread(cells: Cells, tables: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    holds, lines = [], []
    for t in tables:
        e = {m: errors(cells, t, m, kind) for m in METHODS}
        others = [e[m] for m in METHODS[:2]]
        narrower = np.ptp(e["CCAdL"]) < min(map(np.ptp, others)) - CLEAR
        holds.append(narrower and max(e["CCAdL"]) < min(map(max, others)) + CLEAR)
        lines.append(f"{t['data']} " + ", ".join(f"{np.ptp(e[m]):.3f} ({max(e[m]):.3f})" for m in METHODS))
    held, total = _count_paper_data_sets(holds, tables)
    return claim(
        f"CCAdL works reliably in a wide range of A at the largest step ({_label(kind)}).",
        grade(full=held == total, part=held > 0),
        held,
        "Range of the error over A, with the largest error in brackets, for SGHMC, SGNHT and CCAdL: "
        + "; ".join(lines)
        + f". The range of CCAdL is smaller by more than {CLEAR}, and its largest error exceeds that of the others "
        f"by less than {CLEAR}, in {held} of {total} data sets of the paper.",
    )


def _small_friction(cells: Cells, tables: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    gains, lines = [], []
    for t in tables:
        e = {m: errors(cells, t, m, kind)[0] for m in METHODS}
        gains.append(min(e["SGHMC"], e["SGNHT"]) - e["CCAdL"])
        lines.append(f"{t['data']} " + ", ".join(f"{e[m]:.3f}" for m in METHODS))
    held, total = _count_paper_data_sets([gain > CLEAR for gain in gains], tables)
    return claim(
        f"At a small A and a large step CCAdL is much better than the other two ({_label(kind)}).",
        grade(full=held == total, part=held > 0),
        float(np.median(gains)),
        f"Error at A = {frictions(cells)[0]:g} and the largest step for SGHMC, SGNHT and CCAdL: "
        + "; ".join(lines)
        + f". CCAdL is better by more than {CLEAR} in {held} of {total} data sets of the paper.",
    )


def _sghmc_relies(cells: Cells, tables: list[dict[str, Any]]) -> dict[str, Any]:
    holds, lines, A = [], [], frictions(cells)
    for t in tables:
        steps = {
            c["step_size"]
            for c in cells
            if (c["method"], c["data"], c["variant"]) == ("SGHMC", t["data"], "")
        }
        error = {(h, a): final(cells, t["data"], "SGHMC", h, a, "mean_error") for h in steps for a in A}
        good, bad = error[min(steps), A[-1]], error[max(steps), A[0]]
        best = min(error, key=lambda cell: error[cell])
        holds.append(len(steps) > 1 and bad > 1.5 * good and good < error[best] + CLEAR)
        lines.append(
            f"{t['data']} {bad:.3f} vs {good:.3f} (best of all {error[best]:.3f}, at h = {best[0]:g}, "
            f"A = {best[1]:g})"
        )
    held, total = _count_paper_data_sets(holds, tables)
    return claim(
        "The performance of SGHMC relies heavily on a small h and a large A.",
        grade(full=held == total, part=held > 0),
        held,
        "Error at the largest h and smallest A vs error at the smallest h and largest A: "
        + "; ".join(lines)
        + f". The first is more than 1.5 times the second, and the second is within {CLEAR} of the best of all, in "
        f"{held} of {total} data sets of the paper.",
    )


def _count_paper_data_sets(holds: list[Any], tables: list[dict[str, Any]]) -> tuple[int, int]:
    """Count the paper's data sets in which a claim holds. Returns (count, total); substitutes are left out."""
    judged = [bool(h) for h, t in zip(holds, tables, strict=True) if t["data"] in PAPER]
    return sum(judged), len(judged)
