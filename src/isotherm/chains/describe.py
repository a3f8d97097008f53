"""Samplers and plans as plain JSON values."""

import dataclasses
from typing import Any

import numpy as np

from isotherm import tree

_SHOWN = 64  # numbers of an array that are worth keeping


def describe(module: Any) -> dict[str, Any]:
    """A module's name and fields as plain JSON values."""
    out: dict[str, Any] = {"name": type(module).__name__}
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if hasattr(value, "__dataclass_fields__"):
            value = describe(value)
        elif callable(value):
            value = getattr(value, "__name__", type(value).__name__)
        elif hasattr(value, "ndim"):
            value = describe_leaf(value) if value.size <= _SHOWN else f"{value.dtype} {value.shape}"
        elif isinstance(value, dict | list | tuple):
            value = {name: describe_leaf(x) for name, x in tree.named_leaves(value)}
        elif value is not None and not isinstance(value, int | float | str):
            value = repr(value)
        out[field.name] = value
    return out


def describe_leaf(x: Any) -> Any:
    """Numbers as lists, anything else as text."""
    try:
        return np.asarray(x, np.float64).tolist()
    except (TypeError, ValueError):
        return repr(x)
