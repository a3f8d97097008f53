"""Ordered classes: the odds of a higher class, by a cumulative logit."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from isotherm.readable import Readable
from isotherm.tables.families.base import (
    Auxiliary,
    Effect,
    Facts,
    Family,
    Generator,
    Numbers,
    Params,
    Response,
    Rows,
    Target,
)
from isotherm.tables.families.classes import random_class
from isotherm.tables.families.laws import STEPS
from isotherm.tables.families.numerics import log1mexp


class Increasing(Readable, eqx.Module):
    """0 < y_1 < y_2 < ... along the last axis: the differences are exp(x_i)."""

    def __call__(self, x: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """Return the parameter at x."""
        return jnp.cumsum(jnp.exp(x), axis=-1)

    def inv(self, y: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """Return the x of a parameter y."""
        return jnp.log(jnp.diff(y, axis=-1, prepend=0))

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Return log |det dy/dx|, for each vector."""
        del y
        return jnp.sum(x, axis=-1)


def _start(facts: Facts) -> np.ndarray:
    """Return the thresholds at which the classes are as frequent as in the data, where eta is constant."""
    below = np.cumsum(facts.class_counts)[:-1] / np.sum(facts.class_counts)
    log_odds = np.log(below) - np.log1p(-below)
    return (log_odds[1:] - log_odds[0]).astype(np.float32)


THRESHOLDS = Auxiliary(
    "thresholds",
    Increasing(),
    _start,
    STEPS,
    2.0,
    comment="differences between neighbours are exponential, with this mean",
    elements=lambda facts: [f"{a}|{b}" for a, b in zip(facts.classes[1:-1], facts.classes[2:], strict=True)],
    may_vary=False,
)


@dataclasses.dataclass(frozen=True)
class Ordinal(Family):
    """P(class is k or lower) = sigmoid(c_k - eta), with thresholds 0 = c_1 < c_2 < ...

    The first threshold is zero, since eta has an intercept: that of other software is minus the intercept.
    """

    name = "ordinal"
    target = Target("three or more ordered classes, as numbers or text", classes=(3, None), is_ordered=True)
    auxiliaries = (THRESHOLDS,)
    effect = Effect("odds ratio", "multiplies the odds of a higher `{target}` by")
    roles = ("order", "offset", "weights")
    proposed = {"classes": "if they are ordered", "whole numbers from 1": "if they are ordered"}

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del rows
        c = _all_thresholds(aux["thresholds"])
        last, k = c.shape[-1], y.astype(jnp.int32)
        upper, lower = _chosen(c, jnp.minimum(k, last - 1)), _chosen(c, jnp.maximum(k - 1, 0))
        is_inside = (k > 0) & (k < last)
        # sigmoid(u - eta) - sigmoid(l - eta) = sigmoid(u - eta) sigmoid(eta - l) (1 - exp(l - u))
        below = jnp.where(k < last, jax.nn.log_sigmoid(upper - eta), 0.0)
        above = jnp.where(k > 0, jax.nn.log_sigmoid(eta - lower), 0.0)
        between = jnp.where(is_inside, log1mexp(jnp.where(is_inside, upper - lower, 1.0)), 0.0)
        return below + above + between

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del rows
        c = _all_thresholds(aux["thresholds"])
        gap = c.reshape((1,) * (eta.ndim + 1 - c.ndim) + c.shape) - eta[..., None]
        inside = jax.nn.sigmoid(gap[..., 1:]) * jax.nn.sigmoid(-gap[..., :-1])
        inside = inside * -jnp.expm1(gap[..., :-1] - gap[..., 1:])
        return jnp.concatenate(
            [jax.nn.sigmoid(gap[..., :1]), inside, jax.nn.sigmoid(-gap[..., -1:])], axis=-1
        )

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del aux, rows
        return random_class(rng, response)


def _all_thresholds(c: Float[Array, "... k"]) -> Float[Array, "... k+1"]:
    """Return the thresholds with the first, which is zero."""
    return jnp.concatenate([jnp.zeros_like(c[..., :1]), c], axis=-1)


def _chosen(c: Float[Array, "... k"], index: Array) -> Array:
    """Return the threshold of each index."""
    if c.ndim == 1:
        return c[index]
    shape = jnp.broadcast_shapes(c.shape[:-1], index.shape)
    index = jnp.broadcast_to(index, shape)[..., None]
    return jnp.take_along_axis(jnp.broadcast_to(c, (*shape, c.shape[-1])), index, axis=-1)[..., 0]
