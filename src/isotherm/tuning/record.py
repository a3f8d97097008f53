"""Values that the stages of a warm-up pass on."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from isotherm import tree


@dataclasses.dataclass(frozen=True)
class NotNormal:
    """The posterior is not nearly normal around one mode; `why` gives the evidence."""

    why: str


def as_leaf(x: Any, like: PyTree) -> Array:
    """Return `x` in the dtype of the ravelled parameters."""
    return jnp.asarray(x, tree.ravel(like).dtype)
