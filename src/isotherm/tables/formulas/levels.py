"""Levels of categories and groups, of which there may be millions: counted in a pass, and found in new rows."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from isotherm.errors import must
from isotherm.tables.checks import Gaps, Rows, is_missing
from isotherm.tables.statistics import level_text
from isotherm.tables.table import TEXT


class LevelCounter:
    """The different values of a column that names groups, any number of them.

    `see` returns the number of the value in each row, in the order of first appearance.
    """

    def __init__(self, name: str, kind: str) -> None:
        self.name, self._is_text, self._is_float = name, kind == TEXT, False
        self._gaps, self._places = Gaps(name), {}

    def see(self, values: Shaped[np.ndarray, " n"], rows: Rows) -> Int[np.ndarray, " n"]:
        """Add rows, and return their places among the values; -1 where the value is missing."""
        import pandas as pd

        codes, distinct = pd.factorize(values)
        self._gaps.see(codes < 0, rows)
        self._is_float |= values.dtype.kind == "f"
        places: dict[Any, int] = self._places
        found = [places.setdefault(value, len(places)) for value in distinct]
        return np.array([*found, -1], np.int64)[codes]

    def finish(self) -> tuple[list[str], Int[np.ndarray, " L"]]:
        """Return the levels in order, and for each place the index of its level."""
        self._gaps.check()
        values = [np.float64(v) if self._is_float and isinstance(v, np.integer) else v for v in self._places]
        texts = [level_text(value) for value in values]
        if len(set(texts)) < len(texts):
            repair = "Some are numbers and texts that look the same."
            raise must(self.name, "a column of numbers or of text", "a mixture", repair)
        key = texts if self._is_text else values
        order = sorted(range(len(values)), key=lambda i: key[i])
        index = np.empty(len(order), np.int64)
        index[order] = np.arange(len(order))
        return [texts[i] for i in order], index


class KnownLevels:
    """Levels by their texts, and which of them each value of a column is."""

    def __init__(self, levels: Sequence[str]) -> None:
        import pandas as pd

        self.levels = list(levels)
        self._by_text = {text: i for i, text in enumerate(self.levels)}
        self._texts = pd.Index(self.levels, dtype=object)
        numbers = [_number(text) for text in self.levels]
        self._by_number: dict[float, int] = {}
        for i, number in enumerate(numbers):
            if not math.isnan(number):
                self._by_number[number] = -1 if number in self._by_number else i
        distinct = len(self._by_number) == len(numbers)
        self._floats = pd.Index(np.array(numbers, np.float64)) if distinct else None
        self._integers = self._as_integers()

    def codes(self, values: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return the index of the level in each row, -1 where the value is missing or unknown.

        A number such as 1 may also be written as 1.0 or 01.
        """
        import pandas as pd

        if values.dtype.kind in "iu" and self._integers is not None:
            return self._integers.get_indexer(pd.Index(values))
        if values.dtype.kind == "f" and self._floats is not None:
            return self._floats.get_indexer(pd.Index(values.astype(np.float64)))
        as_text = values.dtype.kind in "OU"
        codes = (
            self._texts.get_indexer(pd.Index(values, dtype=object)) if as_text else np.full(len(values), -1)
        )
        rest = np.flatnonzero((codes < 0) & ~is_missing(values))
        if len(rest):
            places, distinct = pd.factorize(values[rest])
            codes[rest] = np.array([self._find(level_text(value)) for value in distinct], np.int64)[places]
        return codes

    def _find(self, text: str) -> int:
        exact = self._by_text.get(text)
        return self._by_number.get(_number(text), -1) if exact is None else exact

    def _as_integers(self) -> Any:
        import pandas as pd

        try:
            whole = np.array([int(text) for text in self.levels], np.int64)
        except (ValueError, OverflowError):
            return None
        return pd.Index(whole) if len(np.unique(whole)) == len(whole) else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
