"""Statistics of columns, accumulated while their rows are read: moments of numbers, and levels of categories."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from isotherm.errors import must
from isotherm.tables.checks import Gaps, Rows, as_matrix, first_example
from isotherm.tables.table import TEXT
from isotherm.text import visible

_MAX_LEVELS = 100  # of a category: text with more is usually a mistake in a column of numbers
_TILE = 2**18  # numbers that are added up at once: they stay in the processor's cache


class Moments:
    """Mean, standard deviation and range of one or more columns of numbers, in 64 bits."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.mean, self._squares = np.zeros(width), np.zeros(width)
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)
        self._two = np.full((2, width), np.nan)  # the first two different values of a column
        self._binary = np.ones(width, bool)

    @property
    def sd(self) -> Float[np.ndarray, " F"]:
        """Standard deviations; exactly zero for a column that does not vary."""
        return np.where(self.low == self.high, 0.0, np.sqrt(self._squares / max(self.count, 1)))

    @property
    def binary(self) -> Bool[np.ndarray, " F"]:
        """Which columns hold two different values at most."""
        return self._binary

    def see(self, values: Shaped[np.ndarray, "n ..."]) -> None:
        """Add rows, which may be none."""
        x = as_matrix(values)
        step = max(256, _TILE // x.shape[1])
        with np.errstate(
            invalid="ignore", over="ignore"
        ):  # values that are not finite are reported elsewhere
            for begin in range(0, len(x), step):
                self._add(x[begin : begin + step])

    def _add(self, x: Shaped[np.ndarray, "n F"]) -> None:
        floats, n = x.astype(np.float64), len(x)
        mean = floats.mean(axis=0)
        if self._binary.any():
            self._look_for_two(floats)
        self.low, self.high = np.minimum(self.low, x.min(axis=0)), np.maximum(self.high, x.max(axis=0))
        floats -= mean
        total, change = self.count + n, mean - self.mean
        squares = np.einsum("ij,ij->j", floats, floats)
        # Sums of squares around two means, combined (Chan, Golub and LeVeque).
        self._squares += squares + change**2 * (self.count * n / total)
        self.mean += change * (n / total)
        self.count = total

    def _look_for_two(self, x: Float[np.ndarray, "n F"]) -> None:
        for j in np.flatnonzero(self._binary):
            for which in (0, 1):
                if np.isnan(self._two[which, j]):
                    others = x[:, j][x[:, j] != self._two[0, j]]
                    self._two[which, j] = others[0] if len(others) else np.nan
            self._binary[j] = bool(np.all((x[:, j] == self._two[0, j]) | (x[:, j] == self._two[1, j])))


class Levels:
    """The different values of a category, and how often each occurs."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self._is_text, self._is_float = name, kind == TEXT, False
        self._gaps = Gaps(name)
        self._counts: dict[Any, int] = {}
        self._too_many = False
        self._example: tuple[int, object] | None = None

    def see(self, values: Shaped[np.ndarray, " n"], rows: Rows) -> None:
        """Add rows, which may be none."""
        import pandas as pd

        codes, distinct = pd.factorize(values)
        self._gaps.see(codes < 0, rows)
        self._is_float |= values.dtype.kind == "f"  # as integers with a missing value are
        if len(distinct) == 0:
            return
        if self._example is None or self._is_text:
            firsts = np.unique(codes[codes >= 0], return_index=True)[1]
            self._example = first_example(distinct, rows[codes >= 0][firsts], self._example)
        if self._too_many:
            return
        numbers = np.bincount(codes[codes >= 0], minlength=len(distinct))
        for value, count in zip(distinct, numbers, strict=True):
            self._counts[value] = self._counts.get(value, 0) + int(count)
        self._too_many = len(self._counts) > _MAX_LEVELS

    def finish(self) -> tuple[list[str], dict[Any, int], Int[np.ndarray, " L"]]:
        """Return the levels in order, the index of each value among them, and how often each occurs."""
        self._gaps.check()
        if self._too_many:
            assert self._example is not None
            row, example = self._example
            rule = f"a column of numbers, or of text with at most {_MAX_LEVELS} different values"
            where = f"The column has more, such as this one in row {row + 1}."
            repair = (
                "If it holds numbers with a unit or a currency, list it in `numbers`; if names, in `exclude`."
            )
            own = "For effects of many groups, name a model of your own: `function` in place of `model` in a spec."
            raise must(self.name, rule, example, f"{where} {repair} {own}")
        values = [np.float64(v) if self._is_float and isinstance(v, np.integer) else v for v in self._counts]
        texts = [level_text(value) for value in values]
        if len(set(texts)) < len(texts):
            texts = [repr(v.item() if isinstance(v, np.generic) else v) for v in values]
        key = texts if self._is_text else values
        order = sorted(range(len(values)), key=lambda i: key[i])
        counts = list(self._counts.values())
        return (
            [texts[i] for i in order],
            {values[i]: place for place, i in enumerate(order)},
            np.array([counts[i] for i in order]),
        )


def level_codes(name: str, values: Shaped[np.ndarray, " n"], index: dict[Any, int]) -> Int[np.ndarray, " n"]:
    """Return the index of the level in each row, given that of each value."""
    import pandas as pd

    codes, distinct = pd.factorize(values)
    unknown = [value for value in distinct if value not in index]
    if unknown or (codes < 0).any():
        name = visible(name)
        raise ValueError(
            f"column `{name}` holds {unknown[0]!r} now, which it did not when it was first read. Start again, on "
            "files that nothing else writes to."
            if unknown
            else f"column `{name}` has lost a value since it was first read. Start again."
        )
    return np.array([index[value] for value in distinct], np.int32)[codes]


def level_text(level: object) -> str:
    """Return a level as a file shows it, and a number with all the digits that tell it from other numbers."""
    short = f"{level:g}" if isinstance(level, float) else str(level)
    return short if not isinstance(level, float) or float(short) == level else str(level)
