"""Tables: columns by name, in memory or in a file whose rows are read a piece at a time."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64

from isotherm.errors import must

Columns = Mapping[str, np.ndarray]
NUMBERS, BOOLEANS, TEXT, DATES, OTHER = "numbers", "booleans", "text", "dates", "other"


class Table(abc.ABC):
    """Columns of equal length by name. Text is stored as objects; a missing value is `None` or NaN.

    - `kinds`: what each column holds, which does not depend on whether a value is missing.
    - `shapes`: of the value of a row; `()` except for arrays with further axes after the rows.
    """

    kinds: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """The number of rows."""

    @abc.abstractmethod
    def pieces(
        self, names: Sequence[str], begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the rows from `begin` to `end` in order: the number of the first row, and some of the rows."""

    @abc.abstractmethod
    def take(self, names: Sequence[str], index: Int64[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return the rows at `index`, which is sorted."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what identifies the data, as plain JSON values."""

    @abc.abstractmethod
    def file_bytes(self, names: Sequence[str]) -> int:
        """Return how many bytes a pass over these columns reads from a disk or network; 0 for rows in memory."""

    def state(self) -> str:
        """Return a text that changes if the stored rows change, as `Source.state` does."""
        return ""

    def chunks(
        self, names: Sequence[str], length: int
    ) -> Iterator[tuple[Int64[np.ndarray, " n"], dict[str, np.ndarray]]]:
        """Yield all rows in order, `length` at a time, with their numbers."""
        first, parts, missing = 0, [], length
        for _, piece in self.pieces(names):
            count, begin = _length(piece), 0
            while begin < count:
                step = min(missing, count - begin)
                parts.append({name: x[begin : begin + step] for name, x in piece.items()})
                begin, missing = begin + step, missing - step
                if missing == 0:
                    yield np.arange(first, first + length), joined(parts)
                    first, parts, missing = first + length, [], length
        if parts:
            yield np.arange(first, first + length - missing), joined(parts)


class MemoryTable(Table):
    """Columns that are in memory."""

    def __init__(self, columns: Columns, description: Mapping[str, Any] | None = None) -> None:
        self.columns = {name: np.asarray(x) for name, x in columns.items()}
        lengths = {len(x) if x.ndim else 0 for x in self.columns.values()}
        if len(lengths) != 1 or lengths == {0}:
            shapes = {name: x.shape for name, x in self.columns.items()}
            raise must("columns", "arrays of equal length, with at least one row", shapes)
        (self._num_rows,) = lengths
        self._description = dict(description or {})
        self.kinds = {name: kind_of(x) for name, x in self.columns.items()}
        self.shapes = {name: x.shape[1:] for name, x in self.columns.items()}

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._num_rows

    def pieces(
        self, names: Sequence[str], begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the rows in one piece, without a copy."""
        yield begin, {name: self.columns[name][begin:end] for name in names}

    def take(self, names: Sequence[str], index: Int64[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return the rows at `index`."""
        return {name: self.columns[name][index] for name in names}

    def describe(self) -> dict[str, Any]:
        """Return what identifies the data, as plain JSON values."""
        return {**self._description, "rows": self.num_rows, "columns": len(self.columns)}

    def file_bytes(self, names: Sequence[str]) -> int:
        """Return 0: nothing is read."""
        del names
        return 0


def kind_of(values: np.ndarray) -> str:
    """Return what a column holds, apart from missing values."""
    import pandas as pd

    if values.dtype == object:
        found = {"boolean": BOOLEANS, "empty": BOOLEANS, "date": DATES, "datetime": DATES}
        return found.get(pd.api.types.infer_dtype(values, skipna=True), TEXT)
    kinds = {"b": BOOLEANS, "U": TEXT, "S": TEXT, "M": DATES} | dict.fromkeys("iuf", NUMBERS)
    return kinds.get(values.dtype.kind, OTHER)


def joined(parts: Sequence[Columns]) -> dict[str, np.ndarray]:
    """Return consecutive rows as one piece, without a copy if there is only one."""
    if len(parts) == 1:
        return dict(parts[0])
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values())))
