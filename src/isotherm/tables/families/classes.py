"""Classes: two by their log-odds, or more by a score each."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Float

from isotherm.tables.families.base import Effect, Family, Generator, Numbers, Params, Response, Rows, Target

_FAR = 60.0  # log-odds beyond which a sigmoid is an exponential, and far from underflow


def mean_sigmoid(eta: Float[Array, "n draw"], y: Float[Array, "n 1"]) -> tuple[Array, Array, Array]:
    """Return what `mean_exp` does for the log-likelihood of a logistic regression, at a third of the cost.

    exp(-level) sigmoid(z) = sigmoid(z - level) up to a factor 1 + exp(-60) if the level is not zero, since all z are
    then below -60.
    """
    z = (2 * y - 1) * eta
    level = jnp.minimum(jnp.max(z, axis=1) + _FAR, 0)
    level = jnp.where(jnp.isinf(level), 0, level)
    terms = jax.nn.sigmoid(z - level[:, None])
    return level, terms @ jnp.full(z.shape[1], 1 / z.shape[1], z.dtype), jnp.full_like(level, z.shape[1])


@dataclasses.dataclass(frozen=True)
class Logistic(Family):
    """p(second class) = sigmoid(eta)."""

    name = "logistic"
    target = Target("two values, such as 0 and 1, or no and yes", classes=(2, 2))
    effect = Effect("odds ratio", "multiplies the odds of `{target}` = `{last}` by")
    roles = ("positive", "offset", "weights")
    proposed = {"two values": ""}
    mean_likelihood = staticmethod(mean_sigmoid)

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return jax.nn.log_sigmoid((2 * y - 1) * eta)

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return jax.nn.sigmoid(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del aux, rows
        return (rng.random(response.shape) < response).astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Probit(Family):
    """p(second class) = Phi(eta), the standard normal distribution function."""

    name = "probit"
    target = Target("two values, such as 0 and 1, or no and yes", classes=(2, 2))
    effect = Effect(None, "changes the probit of `{target}` = `{last}` by")
    roles = ("positive", "offset", "weights")

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return log_ndtr((2 * y - 1) * eta)

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return ndtr(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del aux, rows
        return (rng.random(response.shape) < response).astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Softmax(Family):
    """p(class) is proportional to exp(score); the score of the first class is zero."""

    name = "softmax"
    target = Target("three or more classes, as text or numbers", classes=(2, None))
    effect = Effect("odds ratio", "multiplies the odds of `{group}` against `{first}` by")
    roles = ("weights",)
    per_class = True
    proposed = {"classes": "", "whole numbers from 1": "", "counts": "if they are classes"}

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows  # the last axis of eta is that of the scores
        return jnp.take_along_axis(jax.nn.log_softmax(eta), y[..., None], axis=-1)[..., 0]

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return jax.nn.softmax(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del aux, rows
        return random_class(rng, response)


def random_class(rng: np.random.Generator, p: Float[np.ndarray, "... C"]) -> np.ndarray:
    """Return an index for each vector of probabilities, whose sum may be off by rounding."""
    edges = np.cumsum(p, axis=-1)
    u = rng.random(p.shape[:-1])[..., None] * edges[..., -1:]
    return np.minimum((u >= edges).sum(axis=-1), p.shape[-1] - 1).astype(np.float64)
