"""Checks of the values in arrays of rows: NaN, infinity, masks, and differences that its dtype cannot resolve."""

import dataclasses
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from isotherm.errors import IsothermWarning

_BLOCK = 2**22  # numbers looked at together, so that no temporary array is as large as the data
_SAMPLE = 2**20  # numbers that resolution is judged by, unless that is fewer than 8 rows
_MOST_ROWS = 4096  # rows that are kept of those with infinite values, and rows that resolution is judged by
_FEWEST_ROWS = 8  # for which resolution is judged
_ROUNDED = 1e-4  # rounding a column to float32 may change it by this part of its sd
_ROUNDED_JOINTLY, _JOINT = 1e-3, 1024  # the same for combinations of columns, if there are no more than this
_COLLINEAR = 1e-20  # variance below which a combination of standardised columns is constant but for rounding
_RESOLVED = 4.0  # a column is resolved if its sd is this many times the spacing of its dtype


@dataclasses.dataclass(frozen=True)
class InfiniteRows:
    """The rows of one array that hold an infinite value: their number, and the indices of at most 4,096 of them.

    `overflowed` says that the first of them is finite in the dtype that the user chose.
    """

    label: str
    index: np.ndarray
    count: int
    overflowed: bool


def infinite_rows(label: str, x: Array | np.ndarray) -> InfiniteRows | None:
    """Return the rows that are infinite in the dtype that JAX gives them, or `None`. Raises if a row has NaN."""
    if not jnp.issubdtype(x.dtype, jnp.inexact) or _all_finite(x):
        return None
    has_nan, has_infinity = np.zeros(len(x), bool), np.zeros(len(x), bool)
    for begin, block in _blocks(x):
        rows = slice(begin, begin + len(block))
        has_nan[rows], has_infinity[rows] = np.isnan(block).any(axis=1), np.isinf(block).any(axis=1)
    if has_nan.any():
        raise ValueError(
            f"`{label}` must not contain NaN; row {np.argmax(has_nan)} does ({has_nan.sum()} of {len(x)} rows). "
            "Drop those rows, or impute their missing values."
        )
    index = np.flatnonzero(has_infinity)
    overflowed = bool(np.isfinite(np.asarray(x[int(index[0])])).all())
    return InfiniteRows(label, index[evenly(len(index))], len(index), overflowed)


def is_finite_on_device(x: Array | np.ndarray) -> bool:
    """Return whether `x` is on another device than the CPU, which finds it finite without copying it."""
    return not _is_on_host(x) and jnp.issubdtype(x.dtype, jnp.inexact) and bool(_all_finite_on_device(x))


def holds_infinity(x: Array | np.ndarray) -> Bool[np.ndarray, " n"]:
    """Return for each row whether it holds an infinite value."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return np.zeros(len(x), bool)
    return np.asarray(np.isinf(np.asarray(x).reshape(len(x), -1)).any(axis=1))


def evenly(count: int, most: int = _MOST_ROWS) -> np.ndarray:
    """Return the indices of `count` rows, or of `most` evenly spaced ones if there are more."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def unmasked(label: str, x: Any, *, rows: bool = True) -> Any:
    """Return `x` without its mask if it is a masked array of NumPy. Raises if an entry is masked.

    `rows` says whether its leading axis is that of rows, which may be dropped.
    """
    if not isinstance(x, np.ma.MaskedArray):
        return x
    mask = np.ma.getmaskarray(x)
    if not mask.any():
        return np.asarray(x.data)
    rule = f"`{label}` must not have masked entries"
    if not rows or mask.ndim == 0:
        raise ValueError(f"{rule}; {mask.sum()} of {mask.size} are. Fill them with `.filled(value)`.")
    masked = np.asarray(mask.reshape(len(mask), -1).any(axis=1))
    axes = {1: "", 2: ".any(axis=1)"}.get(mask.ndim, f".any(axis={tuple(range(1, mask.ndim))})")
    raise ValueError(
        f"{rule}; row {np.argmax(masked)} does ({masked.sum()} of {len(masked)} rows). Drop those rows, e.g. "
        f"`x[~np.ma.getmaskarray(x){axes}]`, or fill them with `.filled(value)`."
    )


def warn_if_unresolved(label: str, x: Array | np.ndarray) -> None:
    """Warn, at the user's line, of the first column whose values hardly differ by more than the dtype's spacing.

    Arrays of 64 bits are not checked.
    """
    if not jnp.issubdtype(x.dtype, jnp.floating) or x.dtype.itemsize > 4 or len(x) < _FEWEST_ROWS:
        return
    width = max(1, math.prod(x.shape[1:]))
    index = evenly(len(x), min(_MOST_ROWS, max(_FEWEST_ROWS, _SAMPLE // width)))
    values = _on_host(x, index).reshape(len(index), -1).astype(np.float64)
    finite = np.isfinite(values).all(axis=0)
    sd, spacing = values[:, finite].std(axis=0), _spacing(values[:, finite].mean(axis=0), x.dtype)
    varies = np.ptp(values[:, finite], axis=0) > 0
    coarse = np.flatnonzero(varies & (sd < _RESOLVED * spacing))
    if len(coarse):
        column = np.flatnonzero(finite)[coarse[0]]
        where = f"Column {column} of `{label}`" if x.ndim > 1 else f"`{label}`"
        others = f" ({len(coarse)} of {width} columns)" if len(coarse) > 1 else ""
        _warn_at_users_line(
            f"{where} has a standard deviation of {sd[coarse[0]]:.2g}, but {x.dtype} numbers of its size are "
            f"{spacing[coarse[0]]:.2g} apart: most of its variation is lost to rounding{others}. Subtract a constant "
            f"before converting to {x.dtype}, or pass float64."
        )


def needs_float64(arrays: Sequence[Array | np.ndarray]) -> bool:
    """Return whether rounding float64 arrays to float32 would change their columns noticeably.

    That is by a part of the sd of a column, or of the sd that a combination of columns has: a column and its square
    may differ from a straight line in their last digits only. The effect on a posterior is of the order of that part
    times the ratio of signal and noise.
    """
    arrays = [x for x in arrays if x.dtype == np.float64 and len(x) >= 2]
    if not arrays or any(len(x) != len(arrays[0]) for x in arrays):  # unequal lengths are refused later
        return False
    width = sum(max(1, math.prod(x.shape[1:])) for x in arrays)
    index = evenly(len(arrays[0]), min(_MOST_ROWS, max(_FEWEST_ROWS, _SAMPLE // width)))
    values = np.concatenate([_on_host(x, index).reshape(len(index), -1) for x in arrays], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        error = values.astype(np.float32) - values
        sd = values.std(axis=0)
        if np.any(np.sqrt(np.mean(error**2, axis=0)) > _ROUNDED * sd):
            return True
        used = np.isfinite(sd) & (sd > 0)
    if not 0 < used.sum() <= min(_JOINT, len(index) // 2):
        return False
    values, error = ((x[:, used] - x[:, used].mean(axis=0)) / sd[used] for x in (values, error))
    variance, directions = np.linalg.eigh(values.T @ values / len(index))
    lost = np.mean((error @ directions) ** 2, axis=0)
    return bool(np.any((lost > _ROUNDED_JOINTLY**2 * variance) & (variance > _COLLINEAR)))


def _spacing(mean: Float[np.ndarray, " k"], dtype: Any) -> Float[np.ndarray, " k"]:
    """Return the distance between neighbouring numbers of `dtype` at each mean."""
    info = jnp.finfo(dtype)
    size = np.maximum(np.abs(mean), float(info.tiny))
    return float(info.eps) * 2.0 ** np.floor(np.log2(size))


def _all_finite(x: Array | np.ndarray) -> bool:
    if _is_on_host(x):
        return all(bool(np.isfinite(block).all()) for _, block in _blocks(x))
    return bool(_all_finite_on_device(x))


@jax.jit
def _all_finite_on_device(x: Array) -> Bool[Array, ""]:
    return jnp.all(jnp.isfinite(x))  # one fused loop, without a temporary array


def _blocks(x: Array | np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the first index of each block of rows, and the block as (row, value) in the dtype that JAX gives it."""
    dtype = jax.dtypes.canonicalize_dtype(x.dtype)
    host = np.asarray(x) if _is_on_host(x) else x
    length = max(1, _BLOCK // max(1, math.prod(x.shape[1:])))
    for begin in range(0, len(x), length):
        block = np.asarray(host[begin : begin + length])
        with np.errstate(over="ignore"):  # a number too large for 32 bits is found as infinity
            yield begin, block.astype(dtype, copy=False).reshape(len(block), -1)


def _is_on_host(x: Array | np.ndarray) -> bool:
    """Return whether NumPy can read `x` without a copy."""
    return not isinstance(x, jax.Array) or all(device.platform == "cpu" for device in x.devices())


def _on_host(x: Array | np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.asarray(x)[index] if _is_on_host(x) else np.asarray(x[index])


def _warn_at_users_line(text: str) -> None:
    """Warn at the line that called the library."""
    package, depth, level, frame = __name__.partition(".")[0], 1, 1, sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == package:
            level = depth + 1
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, IsothermWarning, stacklevel=level)
