"""Leaves of `data` and `init` as arrays of numbers. Errors name the leaf."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.caller import leaves_of
from isotherm.data.checks import unmasked
from isotherm.errors import describe
from isotherm.numeric import numeric
from isotherm.text import visible


def named_arguments(argument: str, value: PyTree, **options: Any) -> list[tuple[str, Any]]:
    """Return the leaves of an argument with the names that errors use, such as `data.x`."""
    leaves_of(argument, value)  # raises if JAX cannot take it apart
    leaves = tree.named_leaves(value, **options)
    return [(f"{argument}.{visible(name)}" if name else argument, leaf) for name, leaf in leaves]


def as_numbers(label: str, leaf: Any, *, rows: bool = True) -> Array | np.ndarray:
    """Return a leaf as an array of booleans or numbers that JAX can hold. Other objects are refused.

    `rows` says whether its leading axis is that of rows. Frames of pandas and polars and tables of Arrow are matrices
    here, if all of their columns hold numbers.
    """
    if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer) and leaf.is_deleted():
        raise ValueError(
            f"`{label}` must be an array in memory; got one that was deleted, or donated to a program."
        )
    x = numeric(unmasked(label, leaf, rows=rows))
    if x is None:
        raise TypeError(f"`{label}` must be numeric; got {_kind(leaf)}. {_repair(leaf)}")
    return x


def _kind(leaf: Any) -> str:
    if hasattr(leaf, "dtype") or isinstance(leaf, int | float | complex | str | bytes):
        return describe(leaf)
    return f"an object of type `{type(leaf).__name__}`, which is no array of numbers"


def _repair(leaf: Any) -> str:
    if hasattr(leaf, "columns") or hasattr(leaf, "column_names"):
        return (
            "Encode text, dates and missing values as numbers, and pass a dictionary of columns, e.g. "
            '`{"x": np.asarray(table["x"], float)}`.'
        )
    if hasattr(leaf, "detach"):
        return "Pass `tensor.detach().cpu().numpy()`."
    if isinstance(leaf, jax.Array):
        return "Pass keys as `seed`."
    return "Encode text, dates and objects as numbers; convert a table of mixed types with `.astype(float)`."
