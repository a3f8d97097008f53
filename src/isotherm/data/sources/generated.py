"""Rows that are computed from their number."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int64, PyTree

from isotherm.data.sources.base import Source, check_index, check_range, no_rows, row_of
from isotherm.errors import check_count

_CHUNK, _CHUNK_ELSEWHERE = 2**10, 2**17  # rows that are computed together: on a CPU, and on a GPU
_FIRST_WIDE = 2**31  # number of rows above which a row number takes two words


def generated(f: Callable[[Array], PyTree[Array]], num_rows: int) -> Source:
    """Return a source whose row i is `f(i)`, computed on the device each time that it is needed.

    `f` is a function that JAX can trace, of the number of the row as an int32 scalar. A row may be random if its key
    depends on its number alone:

    ```python
    def f(number):
        return jax.random.normal(jax.random.fold_in(jax.random.key(0), number), (3,))
    ```

    For more than 2^31 rows, `f` is called with two words, a uint32 array (high, low) with number = 2^32 high + low:

    ```python
    def f(words):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), words[0]), words[1])
        return jax.random.normal(key, (3,))
    ```

    A row has the same bits in every block that it is part of. Blocks are JAX arrays.
    """
    return Generated(f, num_rows)


class Generated(Source):
    """Rows `f(0)`, `f(1)`, and so on.

    Bits of a vectorised function may depend on how many rows it is applied to (matrix products do). `f` is therefore
    always applied to a chunk of rows of a fixed length, which begins at a multiple of it, and blocks are cut from
    these.
    """

    random_access = True
    on_device = True

    def __init__(self, f: Callable[[Array], PyTree[Array]], num_rows: int) -> None:
        self._num_rows = check_count("num_rows", num_rows, minimum=1)
        self._chunk = _CHUNK if jax.default_backend() == "cpu" else _CHUNK_ELSEWHERE
        self._x64 = bool(jax.config.read("jax_enable_x64"))

        def rows(numbers: Array) -> PyTree[Array]:
            # The barriers keep everything else out of the loop, whose code then is the same in all programs.
            numbers = jax.lax.optimization_barrier(numbers)
            chunks = jax.lax.optimization_barrier(jax.lax.map(jax.vmap(f), numbers))
            return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), chunks)

        def block(first: Array, last: Array, start: Array, length: int) -> PyTree[Array]:
            # The last bits of the first number in a chunk are zero, so that the sum below has no carry.
            offset = jnp.minimum(jnp.arange(self._chunk, dtype=np.int32)[None, :], last[:, None])
            offset = offset.astype(first.dtype)
            if first.ndim == 1:
                numbers = first[:, None] + offset
            else:
                high = jnp.broadcast_to(first[:, :1], offset.shape)
                numbers = jnp.stack([high, first[:, 1:] + offset], axis=-1)
            cut = lambda x: jax.lax.dynamic_slice_in_dim(x, start, length)
            return jax.tree.map(cut, rows(numbers))

        self._rows, self._cut_rows = jax.jit(rows), jax.jit(block, static_argnames="length")
        number = self._words(np.zeros(1, np.int64))
        self._row = row_of(jax.eval_shape(jax.vmap(f), jax.ShapeDtypeStruct(number.shape, number.dtype)))

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._num_rows

    @property
    def row(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Shapes and dtypes of one row."""
        return self._row

    def blocks(self, length: int, begin: int = 0, end: int | None = None) -> Iterator[PyTree[Array]]:
        """Yield computed rows; one compiled program serves all blocks of a length."""
        begin, end = check_range(self, length, begin, end)
        return (self._block(i, length, min(length, end - i)) for i in range(begin, end, length))

    def take(self, index: Int64[np.ndarray, " n"]) -> PyTree[Array | np.ndarray]:
        """Return the rows at `index`."""
        index = check_index(self, index)
        if len(index) == 0:
            return no_rows(self.row)
        # Powers of two, so that few programs are compiled; all but the last chunk hold what is asked for.
        chunks = 1 << (-(-len(index) // self._chunk) - 1).bit_length()
        padded = np.pad(index, (0, chunks * self._chunk - len(index)), mode="edge")
        words = self._words(padded)
        with jax.enable_x64(self._x64):  # as it was when `row` was found out
            return _cut(self._rows(words.reshape(-1, self._chunk, *words.shape[1:])), len(index))

    def _block(self, begin: int, length: int, count: int) -> PyTree[Array]:
        aligned = begin % self._chunk == 0 and length % self._chunk == 0
        chunks = -(-length // self._chunk) + (not aligned)  # a block may begin anywhere in the first
        # Chunks after the last row repeat the last one, and so do numbers after the last row.
        numbers = begin // self._chunk + np.arange(chunks, dtype=np.int64)
        first = np.minimum(numbers, (self._num_rows - 1) // self._chunk) * self._chunk
        last = np.minimum(self._num_rows - 1 - first, self._chunk - 1).astype(np.int32)
        start = np.int32(begin % self._chunk)
        with jax.enable_x64(self._x64):
            return _cut(self._cut_rows(self._words(first), last, start, length=length), count)

    def _words(self, numbers: Int64[np.ndarray, " n"]) -> np.ndarray:
        """Return row numbers in the form that `f` takes."""
        if self._num_rows <= _FIRST_WIDE:
            return numbers.astype(np.int32)
        return np.stack([numbers >> 32, numbers & 0xFFFFFFFF], axis=-1).astype(np.uint32)


def _cut(rows: PyTree[Array], count: int) -> PyTree[Array]:
    return jax.tree.map(lambda x: x if len(x) == count else x[:count], rows)
