"""What section 4.3 says, and whether the numbers bear it out: for the mean, as there, and for the prediction."""

from typing import Any

import numpy as np

from isotherm.experiments.verdicts import claim, grade

Cells = list[dict[str, Any]]

METHODS = ("SGHMC", "SGNHT", "CCAdL")
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
    holds, lines = 0, []
    for t in tables:
        lost = {}
        for m in METHODS[:2]:
            e = errors(cells, t, m, kind)
            lost[m] = e[0] - min(e)
        holds += all(x > CLEAR for x in lost.values())
        lines.append(f"{t['data']} {lost['SGHMC']:.3f} and {lost['SGNHT']:.3f}")
    return claim(
        f"SGHMC and SGNHT only work well with a large value of A ({_of(kind)}).",
        grade(full=holds == len(tables), part=holds > 0),
        holds,
        "Error at the smallest A less that at the best A, largest step, SGHMC and SGNHT: "
        + "; ".join(lines)
        + f". Both lose by a small A in {holds} of {len(tables)} data sets.",
    )


def _spread(cells: Cells, tables: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    best, lines = 0, []
    for t in tables:
        spread = {m: float(np.ptp(errors(cells, t, m, kind))) for m in METHODS}
        best += spread["CCAdL"] < min(spread["SGHMC"], spread["SGNHT"])
        lines.append(f"{t['data']} " + ", ".join(f"{spread[m]:.3f}" for m in METHODS))
    return claim(
        f"CCAdL works reliably in a wide range of A at the largest step ({_of(kind)}).",
        grade(full=best == len(tables), part=best > 0),
        best,
        "Range of the error over A for SGHMC, SGNHT, CCAdL: "
        + "; ".join(lines)
        + f". That of CCAdL is smallest in {best} of {len(tables)} data sets.",
    )


def _small_friction(cells: Cells, tables: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    best, clear, lines, ahead = 0, 0, [], []
    for t in tables:
        e = {m: errors(cells, t, m, kind)[0] for m in METHODS}
        gain = min(e["SGHMC"], e["SGNHT"]) - e["CCAdL"]
        best, clear = best + (gain > 0), clear + (gain > CLEAR)
        ahead.append(gain)
        lines.append(f"{t['data']} " + ", ".join(f"{e[m]:.3f}" for m in METHODS))
    return claim(
        f"At a small A and a large step CCAdL is much better than the other two ({_of(kind)}).",
        grade(full=clear == len(tables), part=best > 0),
        float(np.median(ahead)),
        f"Error at A = {frictions(cells)[0]:g} and the largest step for SGHMC, SGNHT, CCAdL: "
        + "; ".join(lines)
        + f". CCAdL is better in {best} of {len(tables)} data sets, by more than {CLEAR} in {clear}.",
    )


def _sghmc_relies(cells: Cells, tables: list[dict[str, Any]]) -> dict[str, Any]:
    lines, worse, steps = [], 0, min(len({c["step_size"] for c in cells if c["method"] == "SGHMC"}), 3)
    A = frictions(cells)
    for t in tables:
        own = [c["step_size"] for c in cells if c["method"] == "SGHMC" and c["data"] == t["data"]]
        good = final(cells, t["data"], "SGHMC", min(own), A[-1], "mean_error")
        bad = final(cells, t["data"], "SGHMC", max(own), A[0], "mean_error")
        worse += bad > 1.5 * good
        lines.append(f"{t['data']} {bad:.3f} against {good:.3f}")
    return claim(
        "The performance of SGHMC relies heavily on a small h and a large A.",
        grade(full=worse == len(tables) and steps > 1, part=worse > 0),
        worse,
        "Error at the largest h and smallest A against that at the smallest h and largest A: "
        + "; ".join(lines)
        + f". It is half as large again, or more, in {worse} of {len(tables)} data sets.",
    )
