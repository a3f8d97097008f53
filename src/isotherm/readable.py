"""Objects printed with the values of their settings: `CCAdL(step_size=0.001, ...)`."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

_MOST = 4  # numbers of an array that are shown; of a longer one, dtype and shape


class Readable:
    """A base class whose `repr` shows numbers and short arrays by value, and other arrays by dtype and shape."""

    def __repr__(self) -> str:
        return eqx.tree_pformat(_readable(self))


class _Text(str):
    """Text that prints without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _readable(x: Any) -> Any:
    """Return `x` with text in the place of numbers and short arrays, at every depth."""
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        return _value(x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(_readable, x))
    if type(x) in (list, tuple):
        return type(x)(map(_readable, x))
    if type(x) is dict:
        return {name: _readable(value) for name, value in x.items()}
    if isinstance(x, Readable | eqx.Module) and dataclasses.is_dataclass(x):
        return _copied(x)
    return x


def _copied(x: Any) -> Any:
    """Return an object of the same class with readable fields. Its constructor, which checks them, is not called."""
    out = object.__new__(type(x))
    for field in dataclasses.fields(x):
        if not hasattr(x, field.name):  # a check has failed while `x` was made
            continue
        value = getattr(x, field.name)
        readable = _readable(value)
        is_default = isinstance(readable, _Text) and readable == _readable(_as_number(field.default))
        object.__setattr__(out, field.name, field.default if is_default else readable)
    return out


def _as_number(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, int | float) else x


def _value(x: Any) -> Any:
    """Return a short array as text. Arrays without a value to read are returned as they are."""
    is_readable = not isinstance(x, jax.core.Tracer) and x.size <= _MOST and x.ndim <= 1
    if not is_readable or jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended):
        return x
    if isinstance(x, jax.Array) and (x.is_deleted() or not x.is_fully_addressable):
        return x
    values = np.asarray(x)
    return _Text(str(values[()]) if values.ndim == 0 else np.array2string(values, separator=", "))
