"""`Stream`: rows of a source, checked once, and read block by block in each pass over them."""

import dataclasses
import math
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.data.checks import evenly
from isotherm.data.sources.base import Source, check_unchanged, exact_blocks

_BLOCK = 2**22  # numbers in a block
_BLOCK_ON_DEVICE, _FEWEST_BLOCKS = 2**26, 512  # most numbers, and how many blocks call for more than `_BLOCK`
_SAMPLE = 2**23  # numbers in the sample, at most
_HELD = 2**26  # numbers in all rows, up to which they are read into memory
_AHEAD = 2  # blocks that are read before they are needed


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """Rows that a pass reads from their source, with a random sample of them in memory.

    It takes the place of arrays on the device in sums over rows. What needs some rows only uses the sample.

    - `source`, `state`: where rows come from, and what `Source.state` returned when they were checked.
    - `dtypes`: one for each leaf, in which rows are put on the device.
    - `block_length`: the number of rows in a block. It does not depend on the device.
    - `sample`, `sample_index`: random rows on the device, in random order, and their numbers.
    - `fingerprint`: a hash of some of the rows, when they were checked.
    """

    source: Source
    state: str
    dtypes: tuple[np.dtype, ...]
    block_length: int
    sample: PyTree[Array]
    sample_index: np.ndarray
    fingerprint: str

    @property
    def num_rows(self) -> int:
        """N."""
        return self.source.num_rows

    @property
    def num_blocks(self) -> int:
        """The number of blocks."""
        return -(-self.num_rows // self.block_length)

    @property
    def width(self) -> int:
        """The numbers in a row."""
        return row_width(self.source)

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[PyTree[Array | np.ndarray]]:
        """Yield blocks `first` up to but not including `last` in order; the last of all may be shorter.

        A thread reads the next blocks in the meantime. Raises if the source changed since it was checked.
        """
        check_unchanged(self.source, self.state)
        begin = first * self.block_length
        end = self.num_rows if last is None else min(last * self.block_length, self.num_rows)
        if begin < end:
            yield from read_ahead(
                map(self.narrowed, exact_blocks(self.source, self.block_length, begin, end))
            )
        check_unchanged(self.source, self.state)

    def block(self, number: int) -> PyTree[Array | np.ndarray]:
        """Return one block."""
        begin = number * self.block_length
        end = min(begin + self.block_length, self.num_rows)
        rows = self.narrowed(next(exact_blocks(self.source, self.block_length, begin, end)))
        check_unchanged(self.source, self.state)
        return rows

    def take(self, index: np.ndarray) -> PyTree[Array | np.ndarray]:
        """Return the rows at any `index`, in the order of `index`."""
        unique, inverse = np.unique(index, return_inverse=True)
        check_unchanged(self.source, self.state)
        rows = self.narrowed(self.source.take(unique))
        check_unchanged(self.source, self.state)
        return rows if np.array_equal(unique, index) else jax.tree.map(lambda x: x[inverse], rows)

    def narrowed(self, rows: PyTree[Any]) -> PyTree[Array | np.ndarray]:
        """Return rows in the dtypes that they have on the device."""
        return narrowed(rows, self.dtypes)


class Drawn(eqx.Module):
    """Rows drawn by a plan, in the order of their draws, and their weights if these differ."""

    rows: PyTree[Any]
    weights: Any = None

    @property
    def count(self) -> int:
        """The number of rows."""
        return jax.tree.leaves(self.rows)[0].shape[0]

    def first(self, count: int) -> "Drawn":
        """Return the first `count` of them."""
        return jax.tree.map(lambda x: x[:count], self)


def rows_in_memory(data: PyTree | Stream) -> PyTree[Array]:
    """Return arrays on the device with the shapes and dtypes of the rows: all rows, or the sample of a stream."""
    return data.sample if isinstance(data, Stream) else data


def num_rows(data: PyTree | Stream) -> int:
    """Return N."""
    return data.num_rows if isinstance(data, Stream) else jax.tree.leaves(data)[0].shape[0]


def some_rows(data: PyTree | Stream, count: int) -> tuple[PyTree[Array], np.ndarray]:
    """Return about `count` rows and their numbers: evenly spaced ones, or the first of a stream's sample."""
    if not isinstance(data, Stream):
        index = evenly(num_rows(data), count)
        return picked(data, index), index
    rows = jax.tree.map(lambda x: x[:count], data.sample)
    return rows, data.sample_index[:count]


def taken(data: PyTree | Stream, index: np.ndarray) -> PyTree[Array]:
    """Return the rows at `index`, on the device."""
    if isinstance(data, Stream):
        return jax.tree.map(put, data.take(index))
    return picked(data, index)


def picked(data: PyTree[Array], index: np.ndarray) -> PyTree[Array]:
    """Return the rows of arrays at `index`."""
    return _picked(data, tree.put(index, np.int32))


def host_rows(block: PyTree[Array | np.ndarray], index: np.ndarray) -> PyTree[np.ndarray]:
    """Return the rows of a block at `index` on the host. Of a block on the device, only these are copied."""
    if len(index) and all(isinstance(x, jax.Array) for x in jax.tree.leaves(block)):
        # A power of two, so that few programs are compiled.
        longer = np.pad(index, (0, (1 << (len(index) - 1).bit_length()) - len(index)), mode="edge")
        return jax.tree.map(lambda x: np.asarray(x)[: len(index)], picked(block, longer))
    return jax.tree.map(lambda x: np.asarray(x)[index], block)


@jax.jit
def _picked(data: PyTree[Array], index: Array) -> PyTree[Array]:
    return jax.tree.map(lambda x: x.at[index].get(mode="promise_in_bounds"), data)


def put(x: Array | np.ndarray) -> Array:
    """Return `x` on the device. JAX may keep the memory of an array of NumPy: it must not be written to again."""
    return x if isinstance(x, jax.Array) else jax.device_put(x)


def padded(block: PyTree[Array | np.ndarray], length: int) -> PyTree[Array | np.ndarray]:
    """Return a block with its last row repeated, so that all blocks have one shape."""
    missing = length - jax.tree.leaves(block)[0].shape[0]
    if missing == 0:
        return block
    more = lambda x: np.concatenate([np.asarray(x), np.repeat(np.asarray(x[-1:]), missing, axis=0)])
    return jax.tree.map(more, block)


def narrowed(rows: PyTree[Any], dtypes: Sequence[np.dtype]) -> PyTree[Array | np.ndarray]:
    """Return rows with their leaves in these dtypes."""
    leaves, structure = jax.tree.flatten(rows)
    with np.errstate(over="ignore"):  # numbers too large for 32 bits are among the infinite ones
        narrow = [x if x.dtype == t else x.astype(t) for x, t in zip(leaves, dtypes, strict=True)]
    return structure.unflatten(narrow)


def row_width(source: Source) -> int:
    """Return the numbers in a row of a source."""
    return max(1, sum(math.prod(x.shape) for x in jax.tree.leaves(source.row)))


def block_length_of(source: Source) -> int:
    """Return the number of rows in a block: a multiple of a large power of two if there are as many.

    Starting a program takes time, so that blocks that are computed on the device are larger if there are many.
    """
    width, numbers = row_width(source), _BLOCK
    if source.on_device:
        numbers = min(max(_BLOCK, source.num_rows * width // _FEWEST_BLOCKS), max(_BLOCK, _BLOCK_ON_DEVICE))
    length = min(source.num_rows, max(256, numbers // width))
    multiple = 2**17 if source.on_device and length >= 2**19 else 256
    return length if length < 256 else length // multiple * multiple


def sample_size(source: Source) -> int:
    """Return the number of rows in the sample: all of them, if they fit into memory."""
    if source.num_rows * row_width(source) <= _HELD:
        return source.num_rows
    return min(source.num_rows, max(4096, _SAMPLE // row_width(source)))


def read_ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of an iterator that runs ahead on a thread."""
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(_AHEAD)
    closed = threading.Event()

    def deliver(kind: str, item: Any) -> bool:
        while not closed.is_set():
            try:
                ready.put((kind, item), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not deliver("item", item):
                    return
            deliver("end", None)
        except BaseException as error:  # raised again where the items are used
            deliver("error", error)

    thread = threading.Thread(target=work, name="isotherm-read", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = ready.get()
            if kind == "error":
                raise item
            if kind == "end":
                return
            yield item
    finally:
        closed.set()
        thread.join()
