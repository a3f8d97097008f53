"""Priors of the parameters of a family beside its coefficients."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array


@dataclasses.dataclass(frozen=True)
class Law:
    """A prior: minus its log-density up to a constant, `energy(value, scale)`, and what it is in words.

    `words` may hold `{scale}`, which includes the unit.
    """

    energy: Callable[[Array, float | Array], Array]
    words: str


EXPONENTIAL = Law(lambda x, scale: x / scale, "exponential, mean {scale}")
ROOT_HALF_NORMAL = Law(
    lambda x, scale: 0.5 * x / scale**2 + 0.5 * jnp.log(x), "its square root is half-normal, sd {scale}"
)
LOG_NORMAL = Law(
    lambda x, scale: 0.5 * (jnp.log(x) / scale) ** 2 + jnp.log(x), "log-normal around 1, sd {scale}"
)
UNIFORM = Law(lambda x, scale: 0 * x, "uniform")
