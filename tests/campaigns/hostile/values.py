"""Single values that are hard to read as a number, each with the number that it stands for, if any."""

import decimal
import fractions
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pandas as pd

import isotherm as iso


class Value(NamedTuple):
    """A value, and the number that it stands for; `None` if it stands for none."""

    label: str
    value: Any
    number: float | None


class Floating:
    """Looks like a scalar tensor of another library."""

    def __init__(self, number: float) -> None:
        self.number, self.shape, self.ndim = number, (), 0

    def __float__(self) -> float:
        return float(self.number)

    def item(self) -> float:
        return self.number


class Refusing:
    """Raises whatever is asked of it."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Wordy:
    """Has a text of a million characters."""

    def __repr__(self) -> str:
        return "word " * 200_000


_SCALARS: dict[str, Callable[[float], Any]] = {
    "float": float,
    "int if whole": lambda x: int(x) if x == int(x) else x,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "longdouble": np.longdouble,
    "bfloat16": ml_dtypes.bfloat16,
    "big-endian": lambda x: np.array(x, ">f8"),
    "big-endian longdouble": lambda x: np.array(x, ">g"),
    "0-d": np.array,
    "0-d read-only": lambda x: np.broadcast_to(x, ()),
    "jax": jnp.asarray,
    "jax bfloat16": lambda x: jnp.asarray(x, jnp.bfloat16),
    "Fraction": fractions.Fraction,
    "Decimal": decimal.Decimal,
    "tensor": Floating,
    "masked without a mask": np.ma.array,
    "0-d series": lambda x: pd.Series([x]).iloc[0],
}

_WHOLE: dict[str, Callable[[int], Any]] = {
    "int": int,
    "int8": np.int8,
    "uint64": np.uint64,
    "int64": np.int64,
    "big-endian int": lambda x: np.array(x, ">i8"),
    "big-endian scalar": lambda x: np.array([x], ">i4")[0],
    "0-d int": np.array,
    "jax int": jnp.asarray,
    "whole float": float,
    "int4": ml_dtypes.int4,
}

_NOTHING: dict[str, Callable[[], Any]] = {
    "True": lambda: True,
    "False": lambda: False,
    "np.True_": lambda: np.True_,
    "jax bool": lambda: jnp.asarray(True),
    "text": lambda: "10",
    "empty text": lambda: "",
    "bytes": lambda: b"0.01",
    "np.str_": lambda: np.str_("0.01"),
    "array of text": lambda: np.array("0.01"),
    "complex": lambda: 2e-4 + 1j,
    "complex64": lambda: np.complex64(0.01),
    "jax complex": lambda: jnp.asarray(0.01 + 0j),
    "Decimal nan": lambda: decimal.Decimal("NaN"),
    "list": lambda: [0.01],
    "tuple": lambda: (0.01, 0.02),
    "empty list": list,
    "dict": lambda: {"value": 0.01},
    "set": lambda: {0.01},
    "two elements": lambda: np.array([0.01, 0.02]),
    "matrix": lambda: np.ones((2, 2, 2)),
    "empty array": lambda: np.zeros((0, 3)),
    "object array": lambda: np.array(0.01, object),
    "object array of None": lambda: np.array(None),
    "structured": lambda: np.zeros((), [("h", "f4")]),
    "datetime": lambda: np.datetime64("2026-01-01"),
    "timedelta": lambda: np.timedelta64(3, "s"),
    "key": lambda: jax.random.key(0),
    "keys": lambda: jax.random.split(jax.random.key(0), 3),
    "pd.NA": lambda: pd.NA,
    "pd.NaT": lambda: pd.NaT,
    "masked": lambda: np.ma.masked,
    "masked 0-d": lambda: np.ma.array(0.01, mask=True),
    "generator": lambda: (x for x in (0.01,)),
    "class": lambda: iso.SGLD,
    "object": object,
    "refusing": Refusing,
    "wordy": Wordy,
    "Ellipsis": lambda: ...,
    "huge int": lambda: 10**400,
    "integer without text": lambda: 10**5000,
    "shape only": lambda: jax.ShapeDtypeStruct((), np.float32),
    "frame": lambda: pd.DataFrame({"h": [0.01]}),
    "module": lambda: np,
}

_RARE = (
    0.0,
    -0.25,
    -3.0,
    float("nan"),
    float("inf"),
    -float("inf"),
    2.0**31,
    2.0**40,
    2.0**70,
    1e-320,
    1e300,
)
_ROUNDED = {"float16", "bfloat16", "jax bfloat16", "int8", "int4"}


def drawn(rng: np.random.Generator, plausible: tuple[float, ...]) -> Value:
    """Return a value that stands for a plausible number, for one that few arguments accept, or for none."""
    if rng.random() < 0.5:
        name = str(rng.choice(list(_NOTHING)))
        return Value(name, _NOTHING[name](), None)
    number = float(rng.choice(plausible if rng.random() < 0.7 else _RARE))
    whole = np.isfinite(number) and number == int(number)
    makers = _SCALARS | (_WHOLE if whole else {})
    name = str(rng.choice(list(makers)))
    try:
        with np.errstate(over="ignore"):
            value = makers[name](int(number) if name in _WHOLE else number)
    except (ValueError, OverflowError, TypeError):  # an unsigned -3, or a fraction that is infinite
        return Value(f"float {number}", number, number)
    return Value(f"{name} {number}", value, float(np.float32(float(value))) if name in _ROUNDED else number)
