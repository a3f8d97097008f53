"""Checks of a target beside another column of its row."""

from collections.abc import Mapping

import numpy as np

from isotherm.errors import must
from isotherm.tables.checks import Rows, as_floats
from isotherm.tables.families.base import Family, Together
from isotherm.tables.table import Columns


class TogetherCheck:
    """Looks for the first row that breaks a rule of the family for its target and another column.

    `special` has the names of the other columns by role.
    """

    def __init__(self, family: Family, target: str, special: Mapping[str, str]) -> None:
        self._target, self._special = target, special
        self._rules = [rule for rule in family.target.together if rule.role in special]
        self._broken: tuple[Together, int, float, float] | None = None

    def see(self, columns: Columns, rows: Rows) -> None:
        """Check some rows. Values that are missing or no numbers are refused elsewhere."""
        for rule in self._rules if self._broken is None else ():
            y, other = _floats(columns[self._target]), _floats(columns[self._special[rule.role]])
            with np.errstate(all="ignore"):
                bad = ~rule.holds(y, other) & np.isfinite(y) & np.isfinite(other)
            if bad.any():
                i = int(np.argmax(bad))
                self._broken = rule, int(rows[i]), float(y[i]), float(other[i])

    def check(self) -> None:
        """Raise if a row breaks a rule."""
        if self._broken is not None:
            rule, row, y, other = self._broken
            column = self._special[rule.role]
            where = (
                f"It is in row {row + 1}, where `{column}` is {other:g}. Correct the row, or leave it out."
            )
            raise must(self._target, f"{rule.text} in `{column}`", y, where)


def _floats(values: np.ndarray) -> np.ndarray:
    try:
        return as_floats(values)
    except (TypeError, ValueError):
        return np.full(len(values), np.nan)
