"""Rows that are computed from their number."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int64, PyTree

from isotherm.data.sources.base import Source, check_index, check_range, no_rows, row_of
from isotherm.errors import check_count

_CHUNK = 1024  # rows that are computed together
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
    always applied to 1,024 rows, those whose numbers differ only in the last ten bits, and blocks are cut from these.
    """

    random_access = True

    def __init__(self, f: Callable[[Array], PyTree[Array]], num_rows: int) -> None:
        self._num_rows = check_count("num_rows", num_rows, minimum=1)
        self._x64 = bool(jax.config.read("jax_enable_x64"))

        def program(numbers: Array, start: Array, length: int) -> PyTree[Array]:
            # The barrier keeps what follows out of the loop, whose code then is the same for every length.
            chunks = jax.lax.optimization_barrier(jax.lax.map(jax.vmap(f), numbers))
            rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), chunks)
            return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, length), rows)

        self._program = jax.jit(program, static_argnames="length")
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
        chunks = 1 << (-(-len(index) // _CHUNK) - 1).bit_length()
        padded = np.pad(index, (0, chunks * _CHUNK - len(index)), mode="edge")
        return _cut(self._rows(padded, 0, len(padded)), len(index))

    def _block(self, begin: int, length: int, count: int) -> PyTree[Array]:
        first = begin // _CHUNK * _CHUNK
        chunks = -(-length // _CHUNK) + 1  # a block may begin anywhere in the first
        numbers = np.minimum(np.arange(first, first + chunks * _CHUNK), self._num_rows - 1)
        return _cut(self._rows(numbers, begin - first, length), count)

    def _rows(self, numbers: Int64[np.ndarray, " n"], start: int, length: int) -> PyTree[Array]:
        words = self._words(numbers)
        words = words.reshape(-1, _CHUNK, *words.shape[1:])
        with jax.enable_x64(self._x64):  # as it was when `row` was found out
            return self._program(jnp.asarray(words), jnp.int32(start), length=length)

    def _words(self, numbers: Int64[np.ndarray, " n"]) -> np.ndarray:
        """Return row numbers in the form that `f` takes."""
        if self._num_rows <= _FIRST_WIDE:
            return numbers.astype(np.int32)
        return np.stack([numbers >> 32, numbers & 0xFFFFFFFF], axis=-1).astype(np.uint32)


def _cut(rows: PyTree[Array], count: int) -> PyTree[Array]:
    return jax.tree.map(lambda x: x if len(x) == count else x[:count], rows)
