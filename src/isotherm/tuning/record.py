"""What the parts of a warm-up pass on."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from isotherm import tree


@dataclasses.dataclass(frozen=True)
class NotNormal:
    """The posterior is not nearly normal around one mode; `why` says how one can tell."""

    why: str


def as_leaf(x: Any, like: PyTree) -> Array:
    """`x` in the dtype of the ravelled parameters."""
    return jnp.asarray(x, tree.ravel(like).dtype)
