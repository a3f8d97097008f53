"""Which rows of a table are used, if rows with missing values are left out."""

import numpy as np
from jaxtyping import Bool, Int64


class Kept:
    """The rows of a table that are kept, numbered anew from 0. It takes one bit for each row of the table.

    `chunk` is the number of rows whose bits are stored together, a multiple of 8.
    """

    def __init__(self, chunk: int) -> None:
        self._chunk, self.num_table_rows = chunk, 0
        self._bits: list[np.ndarray] = []
        self._offsets = [0]  # number of kept rows before each chunk

    @property
    def num_rows(self) -> int:
        """The number of rows that are kept."""
        return self._offsets[-1]

    @property
    def dropped(self) -> int:
        """The number of rows that are not."""
        return self.num_table_rows - self.num_rows

    def add(self, mask: Bool[np.ndarray, " n"]) -> None:
        """Append rows, of which those in `mask` are kept: `chunk` rows, or fewer the last time."""
        self._bits.append(np.packbits(mask))
        self._offsets.append(self._offsets[-1] + int(mask.sum()))
        self.num_table_rows += len(mask)

    def rows(self, index: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
        """Return the numbers that the kept rows at `index`, which is sorted, have in the table."""
        offsets = np.array(self._offsets)
        chunks = np.searchsorted(offsets, index, side="right") - 1
        parts = [np.empty(0, np.int64)]
        for c in np.unique(chunks):
            places = np.flatnonzero(np.unpackbits(self._bits[c]))  # padding is zero
            parts.append(c * self._chunk + places[index[chunks == c] - offsets[c]])
        return np.concatenate(parts)

    def mask(self, begin: int, end: int) -> Bool[np.ndarray, " n"]:
        """Return which of the rows of the table from `begin` to `end` are kept."""
        first, last = begin // self._chunk, -(-end // self._chunk)
        bits = np.unpackbits(np.concatenate(self._bits[first:last])).astype(bool)
        return bits[begin - first * self._chunk : end - first * self._chunk]
