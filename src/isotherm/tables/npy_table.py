"""Tables in `.npy` files that are read a piece at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from isotherm.data.sources.base import row_bytes
from isotherm.data.sources.npy import npy
from isotherm.tables.table import BOOLEANS, NUMBERS, Table

_PIECE_BYTES = 2**25


class NpyTable(Table):
    """The fields of an `.npy` file as columns; the array of a file without field names is called `x`."""

    def __init__(self, path: Path) -> None:
        self._path, self._source = path, npy(path)
        row, names = self._source.row, np.lib.format.open_memmap(path, mode="r").dtype.names
        self._is_array = names is None
        self._row = (
            {"x": row} if names is None else {name: row[name] for name in names}
        )  # in the file's order
        self.kinds = {name: BOOLEANS if x.dtype == bool else NUMBERS for name, x in self._row.items()}
        self.shapes = {name: x.shape for name, x in self._row.items()}

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._source.num_rows

    def pieces(
        self, names: Sequence[str], begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the rows, read from the file in order."""
        length = max(1, _PIECE_BYTES // row_bytes(self._row))
        for block in self._source.blocks(length, begin, end):
            columns = self._columns(block, names)
            yield begin, columns
            begin += length

    def take(self, names: Sequence[str], index: Int64[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return the rows at `index`."""
        return self._columns(self._source.take(index), names)

    def state(self) -> str:
        """Return name, size and time of the file."""
        return self._source.state()

    def describe(self) -> dict[str, Any]:
        """Return name, size and time of the file, which is not read."""
        status = self._path.stat()
        return {
            "file": self._path.name,
            "bytes": status.st_size,
            "modified in ns": status.st_mtime_ns,
            "rows": self.num_rows,
            "columns": len(self._row),
        }

    def file_bytes(self, names: Sequence[str]) -> int:
        """Return the size of the rows: all of their columns are read."""
        del names
        return self.num_rows * row_bytes(self._row)

    def _columns(self, block: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
        block = {"x": block} if self._is_array else block
        return {name: np.asarray(block[name]) for name in names}
