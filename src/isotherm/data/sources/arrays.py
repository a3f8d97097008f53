"""Arrays in memory, or memory maps, as a source."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Int64, PyTree

from isotherm.data.checks import unmasked
from isotherm.data.sources.base import (
    Source,
    check_index,
    check_lengths,
    check_numeric,
    check_range,
    named,
    row_of,
)
from isotherm.data.sources.paths import file_state
from isotherm.data.sparse import is_sparse
from isotherm.errors import must


def arrays(pytree: PyTree) -> Source:
    """Return a source whose rows are those of a pytree of arrays that share their leading axis.

    Arrays of NumPy, memory maps and arrays of JAX are used without a copy, and blocks of them are what slicing gives.
    """
    return Arrays(pytree)


class Arrays(Source):
    """Rows of a pytree of arrays."""

    random_access = True

    def __init__(self, pytree: PyTree) -> None:
        leaves, structure = jax.tree.flatten(pytree, is_leaf=is_sparse)
        labels = [name for name, _ in named(jax.tree.unflatten(structure, range(len(leaves))), "pytree")]
        checked = [_as_array(label, leaf) for label, leaf in zip(labels, leaves, strict=True)]
        self._num_rows = check_lengths(list(zip(labels, checked, strict=True)))
        self._arrays = jax.tree.unflatten(structure, checked)
        self._row = row_of(self._arrays)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._num_rows

    @property
    def row(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Shapes and dtypes of one row."""
        return self._row

    def blocks(
        self, length: int, begin: int = 0, end: int | None = None
    ) -> Iterator[PyTree[np.ndarray | Array]]:
        """Yield slices of the arrays."""
        begin, end = check_range(self, length, begin, end)
        return (self._slice(i, min(i + length, end)) for i in range(begin, end, length))

    def take(self, index: Int64[np.ndarray, " n"]) -> PyTree[np.ndarray | Array]:
        """Return the rows at `index`."""
        index = check_index(self, index)
        return jax.tree.map(lambda x: _native(x[index]), self._arrays)

    def state(self) -> str:
        """Return names, sizes and times of the files that are mapped into memory."""
        mapped = [x.filename for x in jax.tree.leaves(self._arrays) if isinstance(x, np.memmap)]
        return file_state(Path(name) for name in mapped if name is not None)

    def _slice(self, begin: int, end: int) -> PyTree[np.ndarray | Array]:
        def cut(x: Array | np.ndarray) -> Array | np.ndarray:
            if isinstance(x, jax.Array):
                # The beginning is an argument of the compiled program: all blocks share one.
                return jax.lax.dynamic_slice_in_dim(x, begin, end - begin)
            return _native(x[begin:end])

        return jax.tree.map(cut, self._arrays)


def _as_array(label: str, leaf: Any) -> Array | np.ndarray:
    if is_sparse(leaf):
        raise must(
            label.strip("`"), "an array", leaf, "Pass `iso.data.sparse_rows(matrix)`.", error=TypeError
        )
    x = leaf if isinstance(leaf, jax.Array) else _plain(unmasked(label.strip("`"), leaf))
    check_numeric(label, x.dtype)
    if x.ndim == 0:
        raise must(label.strip("`"), "an array with a leading axis of rows", x)
    return x


def _plain(x: Any) -> np.ndarray:
    """Return an array of NumPy, which stays a memory map if it is one."""
    return x if isinstance(x, np.memmap) else np.asarray(x)


def _native(x: Array | np.ndarray) -> Array | np.ndarray:
    return x if x.dtype.isnative else np.asarray(x).astype(x.dtype.newbyteorder("="))
