"""Times until an event, some of them censored: the event had not happened yet when a row was last seen.

exp(coefficient) is a ratio of times.
"""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array

from isotherm.tables.families.base import (
    Auxiliary,
    Effect,
    Family,
    Generator,
    Numbers,
    Params,
    Response,
    Rows,
    Target,
)
from isotherm.tables.families.laws import LOG_NORMAL
from isotherm.tables.families.numerics import bounded_exp
from isotherm.tables.families.positive import LOG_MEAN, POSITIVE_32
from isotherm.tables.families.statistics import OF_NUMBERS
from isotherm.transforms import Positive

_TIMES = Target("a time above 0", POSITIVE_32)
_RATIO = Effect("time ratio", "multiplies `{target}`, a time, by")
_LARGEST_LOG = 88.0  # of a number in 32 bits
_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


@dataclasses.dataclass(frozen=True)
class Exponential(Family):
    """Times with the constant hazard exp(-eta), whose mean is exp(eta): a hazard ratio is exp(-coefficient)."""

    name = "exponential"
    target = _TIMES
    link = LOG_MEAN
    effect = _RATIO
    statistics = OF_NUMBERS
    roles = ("censored", "offset", "weights")

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del aux
        return _log_density(eta, y, jnp.ones((), eta.dtype), rows)

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return bounded_exp(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del aux, rows
        drawn = response * rng.standard_exponential(response.shape)
        return np.clip(drawn, np.finfo(np.float32).tiny, np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class Weibull(Family):
    """Times with the survival function exp(-(t / exp(eta))^shape): a hazard ratio is exp(-shape coefficient)."""

    name = "weibull"
    target = dataclasses.replace(_TIMES, varies=True)
    auxiliaries = (
        Auxiliary(
            "shape",
            Positive(),
            lambda facts: 1.0,
            LOG_NORMAL,
            comment="above 1 the hazard grows with time; log-normal",
        ),
    )
    link = LOG_MEAN
    effect = _RATIO
    statistics = OF_NUMBERS
    roles = ("censored", "offset", "weights")
    proposed = {"positive numbers": "if they are times until an event"}

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        return _log_density(eta, y, aux["shape"], rows)

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del rows
        return bounded_exp(eta + gammaln(1 + 1 / aux["shape"]))

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del rows
        inverse = 1 / np.clip(aux["shape"], 1e-10, 1e10)
        drawn = np.maximum(rng.standard_exponential(response.shape), np.finfo(float).tiny)
        log_time = np.log(np.maximum(response, np.finfo(float).tiny)) - _log_gamma(1 + inverse)
        return np.exp(np.clip(log_time + inverse * np.log(drawn), -_LARGEST_LOG + 1, _LARGEST_LOG))


def _log_density(eta: Array, y: Array, shape: Array, rows: Rows) -> Array:
    """Return the log-density of times that were observed, and the log-survival of those that are censored."""
    log_y = jnp.log(y)
    z = shape * (log_y - eta)  # the log of the cumulative hazard
    log_hazard = jnp.log(shape) + z - log_y
    seen = 1 - rows["censored"] if "censored" in rows else 1.0
    return seen * log_hazard - bounded_exp(z)
