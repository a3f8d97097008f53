"""Numbers from users as arrays that JAX can hold: in this machine's byte order, at most 64 bits, without a mask."""

import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def numeric(value: Any) -> Array | np.ndarray | None:
    """Return `value` as an array of booleans or numbers; `None` if it is none, or if entries of it are masked."""
    if isinstance(value, jax.Array):
        usable = isinstance(value, jax.core.Tracer) or not value.is_deleted()
        return value if usable and is_numeric(value.dtype) else None
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.getmaskarray(value).any():
            return None
        value = value.data
    try:
        x = np.asarray(value)
        if x.dtype == object and isinstance(value, numbers.Real):
            x = np.asarray(float(value))  # an integer of more than 64 bits, or a fraction
    except Exception:  # the conversion is that of another library, which may raise anything
        return None
    return native(x) if is_numeric(x.dtype) else None


def real_scalar(value: Any) -> Array | np.ndarray | None:
    """Return `value` as an array without axes of integers or floating numbers; `None` if it is none."""
    x = numeric(value)
    return x if x is not None and x.ndim == 0 and is_real(x.dtype) else None


def is_numeric(dtype: Any) -> bool:
    """Return whether arrays of `dtype` hold booleans or numbers. Keys of JAX and records of NumPy are neither."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return False
    if dtype.kind == "V":  # bfloat16 and its relatives are registered as records
        return dtype.type is not np.void and jnp.issubdtype(dtype, np.number)
    return dtype.kind in "biufc"


def is_real(dtype: Any) -> bool:
    """Return whether arrays of `dtype` hold integers or floating numbers."""
    return not jnp.issubdtype(dtype, np.bool_) and not jnp.issubdtype(dtype, np.complexfloating)


def native(x: np.ndarray) -> np.ndarray:
    """Return an array of numbers in the byte order of this machine, and in 64 bits if its numbers have more."""
    wide = {np.dtype(np.longdouble).str[1:]: np.float64, np.dtype(np.clongdouble).str[1:]: np.complex128}
    if x.dtype.str[1:] in wide:
        with np.errstate(over="ignore"):  # numbers too large for 64 bits are reported as infinite
            return x.astype(wide[x.dtype.str[1:]])
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))
