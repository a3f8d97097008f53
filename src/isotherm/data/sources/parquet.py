"""Parquet files, read a row group at a time."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Int64, PyTree

from isotherm.data.sources.base import Source, check_index, check_range, joined, no_rows, row_bytes
from isotherm.data.sources.parquet_columns import Selection
from isotherm.data.sources.parquet_files import located, opened
from isotherm.data.sources.streams import ahead, regrouped
from isotherm.errors import missing_extra

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE_BYTES = 2**28  # of a row group that is decoded at once; larger ones are decoded in parts
_PART_BYTES = 2**26


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
        self._filesystem, self._paths = located(path, filesystem)
        schemas, self._groups = [], []  # (number of the file, number of the row group in it)
        rows = []
        for i, name in enumerate(self._paths):
            with opened(self._filesystem, name) as file:
                schemas.append(file.schema_arrow)
                groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            self._groups += [(i, g) for g in range(len(groups))]
            rows += groups
        self._offsets = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
        if self.num_rows == 0:
            raise ValueError(f"{self._paths[0]} has no rows; a source must have at least one.")
        self._selection = Selection(columns, schemas, self._paths)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self._offsets[-1])

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
        touched = np.unique(np.searchsorted(self._offsets, index, side="right") - 1)
        parts = []
        for first, table in ahead(self._tables(touched)) if len(touched) else ():
            begin, end = np.searchsorted(index, [first, first + len(table)])
            if begin < end:
                picked = table.take(index[begin:end] - first)
                parts.append(self._selection.arrays(picked, index[begin:end]))
        return joined(parts) if parts else no_rows(self.row)

    def state(self) -> str:
        """Return names, sizes and times of the files, as far as the file system reports them."""
        infos = self._filesystem.get_file_info(self._paths)
        return "\n".join(f"{info.path}\t{info.size}\t{info.mtime_ns}" for info in infos)

    def _blocks(self, length: int, begin: int, end: int) -> Generator[PyTree[np.ndarray]]:
        yield from regrouped(self._pieces(begin, end), length)

    def _pieces(self, begin: int, end: int) -> Generator[PyTree[np.ndarray]]:
        first, last = np.searchsorted(self._offsets, [begin, end - 1], side="right") - 1
        for start, table in ahead(self._tables(np.arange(first, last + 1))):
            low, high = max(begin - start, 0), min(end - start, len(table))
            if low < high:
                numbers = np.arange(start + low, start + high)
                yield self._selection.arrays(table.slice(low, high - low), numbers)

    def _tables(self, groups: np.ndarray) -> Generator[tuple[int, "pa.Table"]]:
        """Yield the number of the first row, and rows as a table, for all rows of these row groups."""
        import pyarrow as pa

        files = np.array([self._groups[g][0] for g in groups])
        for i in np.unique(files):
            with opened(self._filesystem, self._paths[i]) as file:
                for g in groups[files == i]:
                    start, rows = int(self._offsets[g]), int(self._offsets[g + 1] - self._offsets[g])
                    number, names = self._groups[g][1], self._selection.names
                    width = row_bytes(self.row)
                    if rows * width <= _WHOLE_BYTES:
                        yield start, file.read_row_group(number, columns=names)
                        continue
                    for batch in file.iter_batches(max(1, _PART_BYTES // width), [number], names):
                        yield start, pa.Table.from_batches([batch])
                        start += len(batch)
