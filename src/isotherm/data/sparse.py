"""Sparse design matrices as rows of equal length: the indices and the values of the nonzero columns."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from isotherm.errors import IsothermWarning, describe, must

Rows = dict[str, Any]
Triple = tuple[np.ndarray, np.ndarray, np.ndarray]

_KINDS = "a SciPy sparse matrix, a `BCOO`, a `BCSR` or a triple (row, column, value)"


def is_sparse(x: Any) -> bool:
    """Return whether `x` is a sparse matrix of SciPy or JAX, judging by its methods, so that neither is imported."""
    return hasattr(x, "tocsr") or (hasattr(x, "nse") and hasattr(x, "todense"))


def sparse_rows(matrix: Any, *, shape: tuple[int, int] | None = None) -> Rows:
    """Return a sparse matrix of N rows as `{"index": int32 (N, k), "value": float32 (N, k)}`, for use in `data`.

    k is the number of entries in the fullest row; the others are padded with index 0 and value 0. In place of
    `row @ w` for a dense row write `iso.data.sparse_dot(row, w)`, or `jnp.sum(w[row["index"]] * row["value"])`.

    **Arguments:**

    - `matrix`: a sparse matrix of SciPy (any kind with `.tocsr()`), a `BCOO` or `BCSR` of `jax.experimental.sparse`,
      or a triple of vectors (row, column, value) in any order. Values at the same position add up.
    - `shape`: the shape of the matrix, if it is given as a triple.
    """
    (row, column, value), (num_rows, width) = _triple(matrix, shape)
    counts = np.bincount(row, minlength=num_rows)
    longest = max(1, int(counts.max(initial=0)))
    if 2 * longest > width:
        warnings.warn(
            f"The fullest row has {longest} of {width} columns: sparse rows of that length take "
            f"{2 * longest / width:.2g} times the memory of a dense matrix. Pass a dense matrix instead.",
            IsothermWarning,
            stacklevel=2,
        )
    order = np.argsort(row, kind="stable")
    row = row[order]
    place = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    index = np.zeros((num_rows, longest), np.int32)
    values = np.zeros((num_rows, longest), _floating(value.dtype))
    index[row, place], values[row, place] = column[order], value[order]
    return {"index": index, "value": values}


def sparse_dot(rows: Rows, w: Float[Array, "d ..."]) -> Float[Array, "..."]:
    """Return `rows @ w` for a row or a batch of rows from `sparse_rows`, and a vector or matrix `w`."""
    index, value, w = (jnp.asarray(x) for x in (rows["index"], rows["value"], w))
    # An index beyond the end of `w` gives NaN, which `iso.sample` refuses, rather than the last element.
    picked = w.at[index].get(mode="fill", fill_value=jnp.nan)
    return jnp.sum(picked * value.reshape(*value.shape, *(1,) * (w.ndim - 1)), axis=index.ndim - 1)


def _triple(matrix: Any, shape: tuple[int, int] | None) -> tuple[Triple, tuple[int, int]]:
    """Return row, column and value of all nonzero entries, and the shape."""
    if isinstance(matrix, tuple) and len(matrix) == 3:
        return _checked(*map(np.asarray, matrix), shape=_pair("shape", shape))
    if shape is not None:
        raise must("shape", "None if the matrix has a shape", shape)
    if not is_sparse(matrix):
        repair = "A dense matrix needs no conversion: pass it in `data`." if hasattr(matrix, "shape") else ""
        raise must("matrix", _KINDS, matrix, repair, error=TypeError)
    size = _pair("matrix", matrix.shape)
    if hasattr(matrix, "tocsr"):
        entries = matrix.tocsr().tocoo()
        return _checked(entries.row, entries.col, entries.data, shape=size)
    from jax.experimental import sparse

    if isinstance(matrix, sparse.BCSR):
        matrix = matrix.to_bcoo()
    if not isinstance(matrix, sparse.BCOO) or matrix.n_batch or matrix.n_dense:
        raise TypeError(
            f"`matrix` must be {_KINDS}, without batch and dense axes; got a `{type(matrix).__name__}` of shape "
            f"{size}. Write `sparse.BCOO.fromdense(matrix.todense())`."
        )
    row, column = np.asarray(matrix.indices).T
    inside = (row < size[0]) & (column < size[1])  # JAX pads with indices beyond the end
    return _checked(row[inside], column[inside], np.asarray(matrix.data)[inside], shape=size)


def _pair(name: str, shape: Any) -> tuple[int, int]:
    if not isinstance(shape, tuple) or len(shape) != 2 or min(shape) < 1 or shape[1] >= 2**31:
        rule = "two positive integers, (rows, columns)"
        raise must(name, rule if name == "shape" else f"of a shape of {rule}", shape)
    return int(shape[0]), int(shape[1])


def _checked(
    row: np.ndarray, column: np.ndarray, value: np.ndarray, *, shape: tuple[int, int]
) -> tuple[Triple, tuple[int, int]]:
    for name, x, end in (("row", row, shape[0]), ("column", column, shape[1])):
        if x.ndim != 1 or x.shape != value.shape or (x.size and x.dtype.kind not in "iu"):
            raise must(f"{name}` of `matrix", f"one integer for each of {value.size} values", x)
        if x.size and not 0 <= x.min() <= x.max() < end:
            worst = x.min() if x.min() < 0 else x.max()
            raise must(f"{name}` of `matrix", f"from 0 to {end - 1}", worst, "Indices start at 0.")
    if not (value.dtype == bool or jnp.issubdtype(value.dtype, np.number)) or np.iscomplexobj(value):
        raise TypeError(f"`value` of `matrix` must be real numbers; got {describe(value)}.")
    nonzero = value != 0
    return (row[nonzero].astype(np.int64), column[nonzero].astype(np.int64), value[nonzero]), shape


def _floating(dtype: np.dtype) -> np.dtype:
    """Return the floating dtype of 32 bits, or of 64 if the values have them and JAX allows it."""
    return jax.dtypes.canonicalize_dtype(np.result_type(dtype, np.float32))
