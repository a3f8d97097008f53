"""The row groups of Parquet files: which rows they hold, and how they are read."""

import hashlib
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int64

from isotherm.data.sources.parquet_files import located, opened

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE_BYTES = 2**28  # of a row group that is decoded at once; larger ones are decoded in parts
_PART_BYTES = 2**26


class RowGroups:
    """The row groups of all files, in order. Only the footers of the files are read at first.

    - `paths`, `schemas`: one for each file.
    - `offsets`: the number of the first row of each group, and the number of all rows.
    """

    def __init__(self, path: Any, filesystem: Any) -> None:
        self._filesystem, self.paths = located(path, filesystem)
        self.schemas: list[pa.Schema] = []
        self._footers: list[pa.parquet.FileMetaData] = []
        self._groups: list[tuple[int, int]] = []  # (number of the file, number of the row group in it)
        rows = []
        for i, name in enumerate(self.paths):
            with opened(self._filesystem, name) as file:
                self.schemas.append(file.schema_arrow)
                self._footers.append(file.metadata)
            groups = [self._footers[i].row_group(g).num_rows for g in range(self._footers[i].num_row_groups)]
            self._groups += [(i, g) for g in range(len(groups))]
            rows += groups
        self.offsets: Int64[np.ndarray, " g"] = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
        if self.num_rows == 0:
            raise ValueError(f"{self.paths[0]} has no rows; a source must have at least one.")

    @property
    def num_rows(self) -> int:
        """The number of rows in all files."""
        return int(self.offsets[-1])

    def holding(self, index: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " g"]:
        """Return the numbers of the groups that hold the rows at `index`."""
        return np.unique(np.searchsorted(self.offsets, index, side="right") - 1)

    def between(self, begin: int, end: int) -> Int64[np.ndarray, " g"]:
        """Return the numbers of the groups that hold the rows from `begin` to `end`; there must be such rows."""
        first, last = np.searchsorted(self.offsets, [begin, end - 1], side="right") - 1
        return np.arange(first, last + 1)

    def tables(
        self, groups: Int64[np.ndarray, " g"], names: Sequence[str], row_bytes: int
    ) -> Generator[tuple[int, "pa.Table"]]:
        """Yield the number of the first row, and rows as a table, for all rows of these groups.

        Only the columns `names` are read. `row_bytes` is the size of a row of them.
        """
        import pyarrow as pa

        files = np.array([self._groups[g][0] for g in groups])
        for i in np.unique(files):
            with opened(self._filesystem, self.paths[i]) as file:
                for g in groups[files == i]:
                    start, rows = int(self.offsets[g]), int(self.offsets[g + 1] - self.offsets[g])
                    number = self._groups[g][1]
                    if rows * row_bytes <= _WHOLE_BYTES:
                        yield start, file.read_row_group(number, columns=list(names))
                        continue
                    for batch in file.iter_batches(max(1, _PART_BYTES // row_bytes), [number], list(names)):
                        yield start, pa.Table.from_batches([batch])
                        start += len(batch)

    def state(self) -> str:
        """Return names, sizes and times of the files, as far as the file system reports them."""
        infos = self._filesystem.get_file_info(self.paths)
        return "\n".join(f"{info.path}\t{info.size}\t{info.mtime_ns}" for info in infos)

    def compressed_bytes(self, names: Sequence[str]) -> int:
        """Return how many bytes of the files the columns `names` take."""
        return sum(column.total_compressed_size for column in self._columns(names))

    def decoded_bytes(self, names: Sequence[str]) -> int:
        """Return about how many bytes the columns `names` take in memory."""
        return sum(column.total_uncompressed_size for column in self._columns(names))

    def describe(self) -> dict[str, Any]:
        """Return what identifies the files, from sizes, times and footers: their rows are not read.

        A footer holds the schema, and the place, size and range of the values of every column in every row group.
        """
        infos = self._filesystem.get_file_info(self.paths)
        digest = hashlib.sha256()
        for info in infos:
            with self._filesystem.open_input_file(info.path) as file:
                file.seek(info.size - 8)
                length = int.from_bytes(file.read(4), "little")
                file.seek(info.size - 8 - length)
                digest.update(file.read(length))
        newest = max((info.mtime for info in infos if info.mtime is not None), default=None)
        modified = {} if newest is None else {"modified": newest.isoformat(timespec="seconds")}
        size = sum(info.size for info in infos)
        return {"files": len(infos), "bytes": size, **modified, "sha256 of the footers": digest.hexdigest()}

    def _columns(self, names: Sequence[str]) -> Generator["pa.parquet.ColumnChunkMetaData"]:
        for footer in self._footers:
            for g in range(footer.num_row_groups):
                group = footer.row_group(g)
                chunks = [group.column(c) for c in range(group.num_columns)]
                yield from (chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in names)
