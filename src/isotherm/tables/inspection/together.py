"""What shows in several columns together: rows that lack a value somewhere, and columns that say the same."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int64

from isotherm.tables.checks import as_floats, is_missing
from isotherm.tables.inspection.findings import Places
from isotherm.tables.table import Columns, MemoryTable, Table, joined

_PATTERNS = 10_000  # of missing values that are kept separate
_SAMPLE_ROWS, _FEWEST, _SAMPLE_NUMBERS = 2**13, 2**10, 2**22
_MOST_COLUMNS, _MOST_CATEGORIES = 1000, 200
_CLOSE = 0.9999  # correlation from which a column is a copy of another
_FEW_ROWS = 8
_ROWS_OF_A_LEVEL = 4  # on average, if a match of levels is to be no chance


class Patterns:
    """Which columns lack a value together, and in how many rows."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._found = list(names), dict[bytes, Places]()
        self._other = Places()  # rows with patterns that were not told apart

    def see(self, columns: Columns, rows: Int64[np.ndarray, " n"]) -> None:
        """Read some rows."""
        gaps = np.stack([is_missing(columns[name]) for name in self._names], axis=1)
        some = gaps.any(axis=1)
        if not some.any():
            return
        rows, packed = rows[some], np.packbits(gaps[some], axis=1)
        patterns, which, counts = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
        which = which.reshape(-1)
        for i, pattern in enumerate(patterns):
            key = pattern.tobytes()
            if key in self._found or len(self._found) < _PATTERNS:
                places = self._found.setdefault(key, Places())
            else:
                places = self._other
            places.add(rows[which == i][:5], int(counts[i]))

    def lacking(self, names: Iterable[str]) -> Places:
        """Return the rows that lack a value in one of these columns."""
        index = [self._names.index(name) for name in names]
        found = Places()
        parts = [self._other]
        for key, places in self._found.items():
            bits = np.unpackbits(np.frombuffer(key, np.uint8))
            if bits[index].any():
                parts.append(places)
        first = sorted(row for places in parts for row in places.first)
        found.add(first, sum(places.count for places in parts))
        return found


class SpacedRows:
    """Evenly spaced rows of a table whose length is not known: all of them if they are few."""

    def __init__(self, width: int) -> None:
        self._most = max(_FEWEST, min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // max(width, 1)))
        self._stride, self._parts, self._rows = 1, list[dict[str, np.ndarray]](), list[np.ndarray]()

    @property
    def is_all(self) -> bool:
        """Whether no row is left out."""
        return self._stride == 1

    def see(self, columns: Columns, rows: Int64[np.ndarray, " n"]) -> None:
        """Read some rows."""
        chosen = rows % self._stride == 0
        self._parts.append({name: x[chosen] for name, x in columns.items()})
        self._rows.append(rows[chosen])
        while sum(map(len, self._rows)) > 2 * self._most:
            self._stride *= 2
            kept = [rows % self._stride == 0 for rows in self._rows]
            self._parts = [
                {name: x[mask] for name, x in part.items()}
                for part, mask in zip(self._parts, kept, strict=True)
            ]
            self._rows = [rows[mask] for rows, mask in zip(self._rows, kept, strict=True)]

    def table(self) -> Table:
        """Return the rows."""
        parts = [part for part, rows in zip(self._parts, self._rows, strict=True) if len(rows)]
        kinds = {name: {part[name].dtype.kind for part in parts} for name in parts[0]}
        mixed = [name for name, found in kinds.items() if len(found) > 1 and "O" in found]
        return MemoryTable(
            joined([part | {name: part[name].astype(object) for name in mixed} for part in parts])
        )


@dataclasses.dataclass(frozen=True)
class Copy:
    """A column that another one determines; `formula` says how, if both are numbers."""

    name: str
    of: str
    formula: str | None


def copies(columns: Columns, numbers: Sequence[str], categories: Sequence[str]) -> Iterator[Copy]:
    """Yield the copies of earlier columns: the same numbers in other units, or categories under other names."""
    order = list(numbers)[:_MOST_COLUMNS]
    found: set[str] = set()
    if len(order) > 1:
        for j, i, formula in _of_numbers(np.stack([as_floats(columns[name]) for name in order], axis=1)):
            if order[i] not in found and order[j] not in found:
                found.add(order[j])
                yield Copy(order[j], order[i], formula.format(order[i]))
    yield from _of_categories(columns, list(categories)[:_MOST_CATEGORIES], set(numbers))


def _of_numbers(x: Float[np.ndarray, "n F"]) -> Iterator[tuple[int, int, str]]:
    """Yield pairs of columns j > i with a correlation near one, and x_j as a function of x_i."""
    known = np.isfinite(x)
    center = np.where(known, x, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    unit = np.sqrt(np.where(known, (x - center) ** 2, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))
    unit = np.where(unit > 0, unit, 1)
    z, seen = np.where(known, (x - center) / unit, 0), known.astype(np.float64)
    count = np.maximum(seen.T @ seen, 1)
    mean, square, product = z.T @ seen / count, (z * z).T @ seen / count, z.T @ z / count
    variance = np.maximum(square - mean**2, 0)  # [i, j]: of column i, in the rows that j has too
    covariance = product - mean * mean.T
    scale = np.sqrt(variance * variance.T)
    with np.errstate(all="ignore"):
        correlation = np.where((scale > 0) & (count >= _FEW_ROWS), covariance / scale, 0)
    for i, j in np.argwhere(np.triu(np.abs(correlation) > _CLOSE, 1)):
        slope = covariance[i, j] / variance[i, j] * unit[j] / unit[i]
        shift = center[j] + mean[j, i] * unit[j] - slope * (center[i] + mean[i, j] * unit[i])
        yield int(j), int(i), _line(float(slope), float(shift), float(unit[j]))


def _line(slope: float, shift: float, unit: float) -> str:
    """Return `slope * {} + shift` in words, without what is not there up to rounding."""
    factor = "" if abs(slope - 1) < 1e-3 else f"{slope:.4g} × "
    rest = "" if abs(shift) < 1e-3 * unit else f" {'+' if shift > 0 else '-'} {abs(shift):.4g}"
    return f"{factor}`{{}}`{rest}"


def _of_categories(columns: Columns, names: Sequence[str], numbers: set[str]) -> Iterator[Copy]:
    """Yield the columns whose levels match those of an earlier one, one to one, unless both are numbers."""
    import pandas as pd

    coded = {}
    for name in names:
        codes, distinct = pd.factorize(columns[name])
        if 1 < len(distinct) <= len(codes) / _ROWS_OF_A_LEVEL:
            coded[name] = (codes, len(distinct))
    found: set[str] = set()
    for j, (second, (b, n)) in enumerate(coded.items()):
        for first, (a, m) in list(coded.items())[:j]:
            if m == n and not {first, second} <= numbers and first not in found and _is_one_to_one(a, b, n):
                found.add(second)
                yield Copy(second, first, None)
                break


def _is_one_to_one(a: np.ndarray, b: np.ndarray, levels: int) -> bool:
    return (
        len(a) >= _FEW_ROWS
        and len(np.unique(a * (levels + 1) + b)) == len(np.unique(a))
        and bool(np.all((a < 0) == (b < 0)))
    )
