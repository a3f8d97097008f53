"""Checks of columns, made while their rows are read, and reported when all of them have been."""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64, Shaped

from isotherm.errors import must
from isotherm.tables.table import BOOLEANS, NUMBERS
from isotherm.text import visible

Rows = Int64[np.ndarray, " n"]  # numbers of the rows in the table


class Rule(NamedTuple):
    """What the values of a column must be, in words and as a test."""

    text: str
    holds: Callable[[np.ndarray], np.ndarray]


POSITIVE = Rule("positive numbers", lambda x: x > 0)
COUNTS = Rule("counts: 0, 1, 2, ...", lambda x: (x >= 0) & (x == np.round(x)))


class Gaps:
    """The first row of a column without a usable value, and the number of such rows."""

    def __init__(self, name: str) -> None:
        self.name, self.first, self.count, self.rows, self.kind = name, -1, 0, 0, "missing"

    def see(self, bad: Bool[np.ndarray, " n"], rows: Rows, kind: Callable[[int], str] | None = None) -> None:
        """Take note of the rows that are `bad`; `kind` says what is wrong with the i-th of these rows."""
        self.rows += len(rows)
        if not bad.any():
            return
        if self.count == 0:
            i = int(np.argmax(bad))
            self.first, self.kind = int(rows[i]), "missing" if kind is None else kind(i)
        self.count += int(bad.sum())

    def sentence(self, repair: str) -> str:
        """Return what is wrong, and the repair."""
        return (
            f"column `{visible(self.name)}` must have a value in every row; the value in row {self.first + 1} is "
            f"{self.kind} ({self.count} of {self.rows} rows). {repair}"
        )

    def check(self) -> None:
        """Raise if a value is missing or infinite."""
        if self.count:
            drop = 'Use `missing = "drop"` to leave such rows out, or `exclude` to leave out the column.'
            raise ValueError(self.sentence(drop if self.kind == "missing" else "Correct the table."))


class NumberCheck:
    """Checks that a column, or each column of a matrix, holds finite numbers, and that they follow a rule."""

    def __init__(self, names: Sequence[str], kind: str, rule: Rule | None = None) -> None:
        self.names, self.rule, self.is_number = names, rule, kind in (NUMBERS, BOOLEANS)
        self.gaps = [Gaps(name) for name in names]
        self.example: tuple[int, object] | None = None  # of a value that is no number
        self.broken: tuple[int, float] | None = None  # row and value that do not follow the rule

    def see(
        self, values: Shaped[np.ndarray, "n ..."], rows: Rows, known: Bool[np.ndarray, " n"] | None = None
    ) -> Shaped[np.ndarray, "n ..."]:
        """Check some rows, and return them as an array of numbers or booleans.

        Rows that are not `known` need not follow the rule.
        """
        if not self.is_number:
            self.example = first_example(values, rows, self.example)
            return np.full(len(values), np.nan)
        values = as_numbers(values)
        with np.errstate(all="ignore"):
            # A sum is finite only if its terms are, and several times faster than a test of each.
            finite = values.dtype.kind in "biu" or np.isfinite(values.sum()) or np.isfinite(values).all()
        for j, gaps in enumerate(self.gaps):
            column = values if finite or values.ndim == 1 else values[:, j]
            bad = np.zeros(len(values), bool) if finite else ~np.isfinite(column)
            gaps.see(bad, rows, lambda i, x=column: "infinite" if np.isinf(x[i]) else "missing")
        if self.rule is not None and self.broken is None:
            invalid = ~self.rule.holds(values) & np.isfinite(values)
            invalid = invalid if known is None else invalid & known
            if invalid.any():
                i = int(np.argmax(invalid))
                self.broken = int(rows[i]), float(values[i])
        return values

    def check(self) -> None:
        """Raise if a value is not a finite number, or does not follow the rule."""
        if self.example is not None:
            row, value = self.example
            raise must(self.names[0], "a column of numbers", value, f"It is in row {row + 1}.")
        for gaps in self.gaps:
            gaps.check()
        if self.rule is not None and self.broken is not None:
            row, value = self.broken
            raise must(self.names[0], f"a column of {self.rule.text}", value, f"It is in row {row + 1}.")


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Return a column of numbers or booleans as such; booleans with missing values become floats with NaN."""
    if values.dtype != object:
        return values
    import pandas as pd

    return pd.array(values, dtype="boolean").to_numpy(np.float64, na_value=np.nan)


def as_matrix(values: np.ndarray) -> np.ndarray:
    """Return a column as a matrix with one column, and a matrix as it is."""
    return values[:, None] if values.ndim == 1 else values


def as_floats(values: np.ndarray) -> Float[np.ndarray, "n ..."]:
    """Return a column of numbers or booleans in 64 bits."""
    return as_numbers(values).astype(np.float64)


def is_missing(values: np.ndarray) -> Bool[np.ndarray, " N"]:
    """Return which rows of a column have no value."""
    import pandas as pd

    if values.dtype.kind in "biu":
        return np.zeros(len(values), bool)
    gaps = np.asarray(pd.isna(values))
    return np.asarray(gaps.reshape(len(gaps), math.prod(gaps.shape[1:])).any(axis=1))


def first_example(
    values: np.ndarray, rows: Rows, known: tuple[int, object] | None = None
) -> tuple[int, object]:
    """Return row and value of the first value that is no number, or else of the first one. `known` is from before."""
    if known is not None and not is_number(known[1]):
        return known
    i = next((i for i, value in enumerate(values) if not is_number(value)), None)
    if i is None:
        return (int(rows[0]), values[0]) if known is None else known
    return int(rows[i]), values[i]


def is_number(value: object) -> bool:
    """Return whether a value is a number, the text of one, or missing."""
    try:
        float(value)  # pyrefly: ignore
    except (TypeError, ValueError):
        return value is None
    return True


def check_column(role: str, name: str, columns: Iterable[str]) -> None:
    """Refuse a name that is not a column, suggesting the closest one that is."""
    names = list(columns)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"The columns are {', '.join(names[:30])}."
        raise must(role, "a column of the table", name, hint)


def check_one_value(role: str, name: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a column with several values in a row."""
    if shapes[name]:
        raise must(
            role, "a column with one value in each row", name, f"Its rows have the shape {shapes[name]}."
        )
