"""Arrays of draws that stay on the disk: read in pieces, or all at once by `np.asarray`."""

import math
from typing import Any

import numpy as np

from isotherm.store.draws_writer import checked_chunk
from isotherm.store.zarr_layout import StoredLeaf, ZarrLayout


class StoredArray:
    """An array (chain, draw, ...) in a run's folder.

    Indexing reads the chunks that it needs and returns a NumPy array. `np.asarray` reads all of it. Each chunk is
    checked when it is read.
    """

    def __init__(self, layout: ZarrLayout, leaf: StoredLeaf, drawn: int, checksums: np.ndarray) -> None:
        self.layout, self.leaf, self.drawn, self.checksums = layout, leaf, drawn, checksums

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of chains and draws, and the shape of a draw."""
        return (self.layout.chains, self.drawn, *self.leaf.shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the elements."""
        return np.dtype(self.leaf.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that all of it takes in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.layout.chains

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("An array on the disk cannot be read without a copy.")
        x = self[...]
        return x if dtype is None else x.astype(dtype, copy=False)

    def __getitem__(self, index: Any) -> np.ndarray:
        index = index if isinstance(index, tuple) else (index,)
        if Ellipsis in [x for x in index if isinstance(x, type(...))]:
            place = next(i for i, x in enumerate(index) if x is Ellipsis)
            missing = self.ndim - len(index) + 1
            index = (*index[:place], *(slice(None) for _ in range(missing)), *index[place + 1 :])
        index = (*index, *(slice(None) for _ in range(self.ndim - len(index))))
        draws = index[1]
        if not isinstance(draws, slice) or draws.step not in (None, 1):
            return self._read(0, self.drawn, (index[0], slice(None), *index[2:]))[_after(index)]
        begin, end, _ = draws.indices(self.drawn)
        return self._read(begin, max(begin, end), (index[0], slice(None), *index[2:]))

    def _read(self, begin: int, end: int, index: tuple[Any, ...]) -> np.ndarray:
        """Return draws from `begin` to `end`, of the chains and elements that `index` selects."""
        length, parts = self.layout.chunk_draws, []
        for number in range(begin // length, -(-end // length)):
            (chunk,) = checked_chunk(self.layout, [self.leaf], number, self.drawn, self.checksums)
            first = number * length
            parts.append(chunk[:, max(0, begin - first) : end - first][index].copy())
        if not parts:
            return np.empty((self.layout.chains, 0, *self.leaf.shape), self.dtype)[index]
        axis = 0 if isinstance(index[0], int | np.integer) else 1
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)

    def __repr__(self) -> str:
        return f"StoredArray(shape={self.shape}, dtype={self.dtype}, path={str(self.layout.path)!r})"


def _after(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the index of the draws, to apply to an array that has been indexed by the rest."""
    return (index[1],) if isinstance(index[0], int | np.integer) else (slice(None), index[1])
