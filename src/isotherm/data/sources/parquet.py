"""Parquet files, read a row group at a time."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Int64, PyTree

from isotherm.data.sources.base import Source, check_index, check_range, joined, no_rows, row_bytes
from isotherm.data.sources.parquet_columns import Selection
from isotherm.data.sources.parquet_groups import RowGroups
from isotherm.data.sources.streams import ahead, regrouped
from isotherm.errors import missing_extra

if TYPE_CHECKING:
    import pyarrow as pa


def parquet(
    path: str | Path | Sequence[str | Path], *, columns: PyTree | None = None, filesystem: Any = None
) -> Source:
    """Return a source whose rows are those of Parquet files, in the order of the files. Needs the extra `parquet`.

    `path` is a file, a list of files, or a folder, whose files are read in the order of their names. It may be a URI
    such as `s3://bucket/folder`; or `filesystem`, a file system of pyarrow or fsspec or its URI, says where it is.

    `columns` says what a row is: `None` for a dict of all columns, a list of names for a dict of these, or a pytree
    of names. In a pytree a name stands for one number per row, and a list of names for a vector, in the dtype that
    holds all of them, as in `columns={"x": ["age", "dose"], "y": "pressure"}`.

    Columns must hold booleans, integers or floating-point numbers, without nulls.
    """
    try:
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise missing_extra("iso.data.parquet", "parquet") from error
    return Parquet(path, columns, filesystem)


class Parquet(Source):
    """Rows of Parquet files."""

    def __init__(self, path: Any, columns: PyTree | None, filesystem: Any) -> None:
        self._groups = RowGroups(path, filesystem)
        self._selection = Selection(columns, self._groups.schemas, self._groups.paths)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._groups.num_rows

    @property
    def row(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Shapes and dtypes of one row."""
        return self._selection.row

    def blocks(self, length: int, begin: int = 0, end: int | None = None) -> Iterator[PyTree[np.ndarray]]:
        """Yield rows. Row groups are decoded ahead on a thread, and those before `begin` are not read."""
        begin, end = check_range(self, length, begin, end)
        if begin == end:
            return iter(())
        return ahead(self._blocks(length, begin, end))

    def take(self, index: Int64[np.ndarray, " n"]) -> PyTree[np.ndarray]:
        """Return the rows at `index`, from the row groups that hold them."""
        index = check_index(self, index)
        parts = []
        for first, table in ahead(self._tables(self._groups.holding(index))) if len(index) else ():
            begin, end = np.searchsorted(index, [first, first + len(table)])
            if begin < end:
                picked = table.take(index[begin:end] - first)
                parts.append(self._selection.arrays(picked, index[begin:end]))
        return joined(parts) if parts else no_rows(self.row)

    def state(self) -> str:
        """Return names, sizes and times of the files, as far as the file system reports them."""
        return self._groups.state()

    def _blocks(self, length: int, begin: int, end: int) -> Generator[PyTree[np.ndarray]]:
        yield from regrouped(self._pieces(begin, end), length)

    def _pieces(self, begin: int, end: int) -> Generator[PyTree[np.ndarray]]:
        for start, table in ahead(self._tables(self._groups.between(begin, end))):
            low, high = max(begin - start, 0), min(end - start, len(table))
            if low < high:
                numbers = np.arange(start + low, start + high)
                yield self._selection.arrays(table.slice(low, high - low), numbers)

    def _tables(self, groups: Int64[np.ndarray, " g"]) -> Generator[tuple[int, "pa.Table"]]:
        return self._groups.tables(groups, self._selection.names, row_bytes(self.row))
