"""Arrays of draws that stay on the disk: read in pieces, or all at once by `np.asarray`."""

import math
from collections.abc import Callable, Iterable
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
        index = self._expanded(index if isinstance(index, tuple) else (index,))
        if index is None:
            raise TypeError(
                "An array on the disk takes an index for each axis; read it with `np.asarray` first."
            )
        chains, draws, *elements = index
        if isinstance(draws, slice) and draws.step in (None, 1) and _are_basic([chains, *elements]):
            begin, end, _ = draws.indices(self.drawn)
            select = lambda x: x[(chains, slice(None), *elements)]
            axis = 1 if isinstance(chains, slice) else 0
            return self._read(begin, max(begin, end), select, axis)
        # Read the draws that are asked for, in their order, and leave the rest to NumPy.
        numbers = np.arange(self.drawn)[draws]
        needed, places = np.unique(numbers, return_inverse=True)
        held = self._chosen(needed)
        if isinstance(draws, slice):
            draws = slice(None, None, 1 if (draws.step or 1) > 0 else -1)
        else:
            draws = int(places) if numbers.ndim == 0 else places.reshape(numbers.shape)
        return held[(chains, draws, *elements)]

    def elements(self, begin: int, end: int) -> np.ndarray:
        """Return (chain, draw, element) for some elements of a draw, in the order of a flattened draw."""
        size = math.prod(self.leaf.shape)
        return self._read(0, self.drawn, lambda x: x.reshape(*x.shape[:2], size)[:, :, begin:end], 1)

    def _expanded(self, index: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return an index with an entry for each axis; `None` for new axes and for masks of several axes."""
        index = tuple(np.asarray(x) if isinstance(x, list) else x for x in index)
        if any(x is None or isinstance(x, bool | np.bool_) for x in index):
            return None
        if any(isinstance(x, np.ndarray) and x.dtype.kind == "b" and x.ndim != 1 for x in index):
            return None
        gaps = [i for i, x in enumerate(index) if x is Ellipsis]
        place = gaps[0] if gaps else len(index)
        missing = self.ndim - (len(index) - len(gaps))
        if len(gaps) > 1 or missing < 0:
            raise IndexError(f"An array of {self.ndim} axes has no place for {len(index)} indices.")
        return (*index[:place], *[slice(None)] * missing, *index[place + len(gaps) :])

    def _read(
        self, begin: int, end: int, select: Callable[[np.ndarray], np.ndarray], axis: int
    ) -> np.ndarray:
        """Return what `select` takes from the draws from `begin` to `end`. Its draws are along `axis`."""
        length = self.layout.chunk_draws
        numbers = range(begin // length, -(-end // length)) if end > begin else range(0)
        self._check(numbers)
        shape = list(select(np.empty((self.layout.chains, 0, *self.leaf.shape), self.dtype)).shape)
        shape[axis] = end - begin
        found = np.empty(shape, self.dtype)
        for number in numbers:
            chunk, first = self._chunk(number), number * length
            low, high = max(begin, first), min(end, first + length)
            part = select(chunk[:, low - first : high - first])
            found[(slice(None),) * axis + (slice(low - begin, high - begin),)] = part
        return found

    def _chosen(self, needed: np.ndarray) -> np.ndarray:
        """Return draws by their numbers, which increase, of all chains."""
        chunks = needed // self.layout.chunk_draws
        numbers = np.unique(chunks).tolist()
        self._check(numbers)
        found = np.empty((self.layout.chains, len(needed), *self.leaf.shape), self.dtype)
        for number in numbers:
            members = chunks == number
            found[:, members] = self._chunk(number)[:, needed[members] - number * self.layout.chunk_draws]
        return found

    def _check(self, numbers: Iterable[int]) -> None:
        """Raise unless chunks are there with the right lengths: no more is allocated than lies on the disk."""
        for number in numbers:
            self.layout.check_chunk(self.leaf, number)

    def _chunk(self, number: int) -> np.ndarray:
        (chunk,) = checked_chunk(self.layout, [self.leaf], number, self.drawn, self.checksums)
        return chunk

    def __repr__(self) -> str:
        return f"StoredArray(shape={self.shape}, dtype={self.dtype}, path={str(self.layout.path)!r})"


def _are_basic(index: list[Any]) -> bool:
    return all(isinstance(x, int | np.integer | slice) for x in index)
