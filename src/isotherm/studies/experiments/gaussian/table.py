"""Table 1: its columns, the paper's numbers, and our medians over data sets."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of Table 1 and of Figure 1."""

    step_size: float
    friction: float

    def __str__(self) -> str:
        """Return the heading of the column."""
        return f"h = {self.step_size:g}, A = {self.friction:g}"


COLUMNS = (Column(0.001, 1.0), Column(0.001, 10.0), Column(0.01, 1.0), Column(0.01, 10.0))

# (RMSE, autocorrelation time) by column, from one data set. The variant of SGHMC is inferred.
PAPER = {
    ("SGHMC", "noise estimate off"): ((0.0148, 236.12), (0.0029, 333.04), (0.0531, 29.78), (0.0132, 39.33)),
    ("SGNHT", ""): ((0.0037, 238.32), (0.0035, 406.71), (0.0044, 26.71), (0.0043, 55.00)),
    ("CCAdL", "dense covariance"): ((0.0034, 238.06), (0.0031, 402.45), (0.0021, 26.71), (0.0035, 54.43)),
}

_NAMES = ("method", "variant", "label", "step_size", "friction")
_MEASURED = (
    "rmse", "rmse_by_chance", "autocorrelation_time", "kinetic_temperature", "xi", "clipped_share",
)  # fmt: skip


def table_rows(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per method, variant and column: the median over data sets, the range, and every value.

    A failed chain counts as an infinite error. Values that are not finite are `None`.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell[name] for name in _NAMES), []).append(cell)
    return [_row(members) for members in groups.values()]


def _row(members: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        **{name: members[0][name] for name in _NAMES},
        "data_sets": len(members),
        "dead_chains": sum("failure" in m for m in members),
        "failures": [m["failure"] for m in members if "failure" in m],
    }
    for name in _MEASURED:
        row[name] = _median([m.get(name, np.inf) for m in members])
    for name in ("rmse", "autocorrelation_time"):
        values = [m.get(name) for m in members]
        alive = [v for v in values if v is not None]
        row[f"{name}_range"] = [min(alive), max(alive)] if alive else None
        row[f"{name}_by_data_set"] = values
    published = PAPER.get((row["method"], row["variant"]))
    column = COLUMNS.index(Column(row["step_size"], row["friction"]))
    number = None if published is None else published[column]
    row["paper_rmse"], row["paper_autocorrelation_time"] = (None, None) if number is None else number
    return row


def _median(values: list[float | None]) -> float | None:
    present = [v for v in values if v is not None]
    if len(present) < len(values):  # the method does not have this measure
        return None
    middle = float(np.median(present))
    return middle if np.isfinite(middle) else None


def find(
    rows: Sequence[dict[str, Any]], method: str, column: Column, variant: str | None = None
) -> dict[str, Any]:
    """Return the row of a method in a column, of the first variant unless `variant` names one."""
    return next(
        r
        for r in rows
        if r["method"] == method
        and (r["step_size"], r["friction"]) == (column.step_size, column.friction)
        and variant in (None, r["variant"])
    )
