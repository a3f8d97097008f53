"""Data in memory: a pytree of arrays that share their leading axis, checked once."""

import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm.data.checks import InfiniteRows, infinite_rows
from isotherm.data.leaves import as_numbers, named_arguments
from isotherm.data.sources.base import Source
from isotherm.data.sparse import is_sparse
from isotherm.errors import must


class CheckedRows(NamedTuple):
    """Arrays with a leading axis of rows, left on the host or the device.

    `labelled` holds the same arrays with the names that errors use. `infinite` says which rows hold infinite values:
    whether they may depends on the log-likelihood.
    """

    arrays: PyTree[Array | np.ndarray]
    num_data: int
    labelled: list[tuple[str, Array | np.ndarray]]
    infinite: tuple[InfiniteRows, ...]


def as_rows(data: PyTree, *, known: bool = False) -> tuple[PyTree[Array], int]:
    """Return the data as arrays on the device, and N. Data that cannot be rows are refused before any computation.

    Data that are `known` were checked for NaN before, and are not checked again.
    """
    rows = checked_rows(data, known=known)
    return on_device(rows.arrays), rows.num_data


def on_device(arrays: PyTree[Array | np.ndarray]) -> PyTree[Array]:
    """Return the arrays on the device, in the dtypes that JAX gives them."""
    with np.errstate(over="ignore"):  # numbers too large for 32 bits are among the infinite ones
        return jax.tree.map(_put, arrays)


def _put(x: Array | np.ndarray) -> Array:
    if isinstance(x, jax.Array):
        return jnp.asarray(x)
    # `jnp.asarray` would make two copies. Without a copy, an array that the user changes would change under a run.
    return jax.device_put(x, may_alias=False)


def checked_rows(data: PyTree, *, known: bool = False, argument: str = "data") -> CheckedRows:
    """Return the data as arrays of equally many rows. Errors refer to them as `argument`."""
    # A sparse matrix of JAX is a pytree whose leaves have no axis of rows.
    labelled = named_arguments(argument, data, is_leaf=is_sparse)
    if not labelled:
        raise ValueError(f"`{argument}` must hold at least one array; got an empty pytree.")
    arrays = [(label, _as_array(label, leaf)) for label, leaf in labelled]
    num_data = arrays[0][1].shape[0]
    if any(x.shape[0] != num_data for _, x in arrays):
        listing = ", ".join(f"`{label}` has {x.shape[0]}" for label, x in arrays)
        raise ValueError(f"All leaves of `{argument}` must have the same number of rows; {listing}.")
    if num_data == 0:
        raise ValueError(
            f"`{argument}` must have at least one row; got leaves with a leading axis of length 0."
        )
    if num_data >= 2**31:
        repair = "Pass a source, such as `iso.data.npy(path)`, or a part of the rows."
        raise must(argument, "fewer than 2^31 rows if they are in memory", num_data, repair)
    for label, x in arrays:
        if x.size == 0:
            raise must(label, "an array with at least one number in each row", x, "Leave it out.")
        _check_range(label, x)
    found = [] if known else [infinite_rows(label, x) for label, x in arrays]
    structured = jax.tree.unflatten(jax.tree.structure(data), [x for _, x in arrays])
    return CheckedRows(structured, num_data, arrays, tuple(x for x in found if x is not None))


def _as_array(label: str, leaf: Any) -> Array | np.ndarray:
    if is_sparse(leaf):
        raise TypeError(
            f"`{label}` must be an array or rows of equal length; got a sparse `{type(leaf).__name__}` of shape "
            f"{tuple(leaf.shape)}. Pass `iso.data.sparse_rows(matrix)` instead, and replace `row @ w` in the "
            "log-likelihood by `iso.data.sparse_dot(row, w)`."
        )
    if isinstance(leaf, Source):
        repair = "Pass one source whose rows are a pytree, such as `iso.data.parquet(path, columns=...)`."
        raise must(label, "an array, since a source is `data` as a whole", leaf, repair, error=TypeError)
    if isinstance(leaf, str | os.PathLike):
        repair = "Pass `iso.data.npy(path)`, `iso.data.parquet(path)` or `iso.data.zarr(path)`."
        raise must(label, "an array or a source of rows", leaf, repair, error=TypeError)
    x = as_numbers(label, leaf)
    if x.ndim == 0:
        repair = (
            "Put constants in the log-likelihood, not in the data. Convert lists of numbers by `np.asarray`."
        )
        raise must(label, "an array with a leading axis of rows", x, repair)
    return x


def _check_range(label: str, x: Array | np.ndarray) -> None:
    """Raise if integers do not fit in the 32 bits that JAX gives them."""
    if x.dtype.kind in "iu" and x.dtype.itemsize > 4 and not jax.config.read("jax_enable_x64"):
        low, high = int(x.min()), int(x.max())
        if low < -(2**31) or high >= 2 ** (31 if x.dtype.kind == "i" else 32):
            value, repair = low if low < -(2**31) else high, "Set `JAX_ENABLE_X64=1`, or convert."
            raise must(label, "an array that fits in 32-bit integers", value, repair)
