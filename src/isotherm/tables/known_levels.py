"""Levels of categories in new rows, found among those that a model knows."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from isotherm.errors import must
from isotherm.tables.checks import Gaps, Rows, is_missing
from isotherm.tables.statistics import level_text

_SHOWN = 10  # names or levels listed in a message


class LevelCheck:
    """Checks that a column holds levels that are known."""

    def __init__(self, name: str, levels: Sequence[str], repair: str) -> None:
        self._name, self._levels, self._repair = name, levels, repair
        self._unknown, self._example = Gaps(name), None

    def see(self, values: np.ndarray, rows: Rows) -> None:
        """Take note of levels that are not known."""
        unknown = (codes_of(values, self._levels) < 0) & ~is_missing(values)
        if unknown.any() and self._example is None:
            self._example = values[int(np.argmax(unknown))]
        self._unknown.see(unknown, rows)

    def check(self) -> None:
        """Raise if a level was not known."""
        if count := self._unknown.count:
            first, rows = self._unknown.first, self._unknown.rows
            where = f"It is in row {first + 1} ({count} of {rows} rows have unknown levels)."
            rule = f"one of the levels that the model knows, {some(self._levels)}"
            raise must(self._name, rule, self._example, f"{where} {self._repair}")


def codes_of(values: np.ndarray, levels: Sequence[str]) -> Int[np.ndarray, " N"]:
    """Return the index of the level in each row, -1 where the value is missing or unknown."""
    import pandas as pd

    codes, distinct = pd.factorize(values)
    indices = [_index(level_text(value), levels) for value in distinct]
    return np.array([*indices, -1])[codes]  # the last for missing values


def _index(text: str, levels: Sequence[str]) -> int:
    """Return the index of a level, -1 if it is unknown. A number such as 1 may also be written as 1.0 or 01."""
    if text in levels:
        return levels.index(text)
    same = [i for i, level in enumerate(levels) if _number(level) == _number(text)]
    return same[0] if len(same) == 1 else -1


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def some(names: Sequence[str]) -> str:
    """Return the first of these names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
