"""Priors of the parameters of a family beside its coefficients."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Sample = Callable[[np.random.Generator, float, tuple[int, ...]], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Law:
    """A prior: minus its log-density up to a constant, `energy(value, scale)`, and what it is in words.

    `words` may hold `{scale}`, which includes the unit. `sample(rng, scale, shape)` returns random values, for which
    the last axis of the shape is that of a vector; without it there are no prior predictive draws.
    """

    energy: Callable[[Array, float | Array], Array]
    words: str
    sample: Sample | None = None


EXPONENTIAL = Law(
    lambda x, scale: x / scale,
    "exponential, mean {scale}",
    lambda rng, scale, shape: scale * rng.standard_exponential(shape),
)
ROOT_HALF_NORMAL = Law(
    lambda x, scale: 0.5 * x / scale**2 + 0.5 * jnp.log(x),
    "its square root is half-normal, sd {scale}",
    lambda rng, scale, shape: (scale * rng.standard_normal(shape)) ** 2,
)
LOG_NORMAL = Law(
    lambda x, scale: 0.5 * (jnp.log(x) / scale) ** 2 + jnp.log(x),
    "log-normal around 1, sd {scale}",
    lambda rng, scale, shape: np.exp(scale * rng.standard_normal(shape)),
)
UNIFORM = Law(lambda x, scale: 0 * x, "uniform", lambda rng, scale, shape: rng.random(shape))
STEPS = Law(
    lambda x, scale: x[..., -1] / scale,
    "each difference between neighbours is exponential, mean {scale}",
    lambda rng, scale, shape: np.cumsum(scale * rng.standard_exponential(shape), axis=-1),
)
