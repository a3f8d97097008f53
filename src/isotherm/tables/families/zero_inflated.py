"""Counts with more zeros than a Poisson or a negative binomial variable has."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from isotherm.tables import checks
from isotherm.tables.families.base import (
    Auxiliary,
    Family,
    Generator,
    Numbers,
    Params,
    Response,
    Rows,
    Target,
)
from isotherm.tables.families.counts import (
    DISPERSION,
    LOG_RATE,
    RATE_RATIO,
    random_negative_binomial,
    random_poisson,
)
from isotherm.tables.families.laws import UNIFORM
from isotherm.tables.families.numerics import bounded_exp, negative_binomial_log_density, poisson_log_density
from isotherm.tables.families.statistics import OF_COUNTS
from isotherm.transforms import Bounded

_LEAST = 1e-30  # share of counts, of which none is drawn
ZERO_INFLATION = Auxiliary("zero_inflation", Bounded(0.0, 1.0), lambda facts: 0.1, UNIFORM, None)


@dataclasses.dataclass(frozen=True)
class ZeroInflatedPoisson(Family):
    """Zero with the probability `zero_inflation`, and otherwise a Poisson variable of the mean exp(eta)."""

    name = "zero-inflated-poisson"
    target = Target("a count: 0, 1, 2, ... with many zeros", checks.COUNTS, is_whole=True)
    auxiliaries = (ZERO_INFLATION,)
    link = LOG_RATE
    effect = RATE_RATIO
    statistics = OF_COUNTS
    roles = ("exposure", "offset", "weights")

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del rows
        return _with_zeros(poisson_log_density(eta, y), y, aux["zero_inflation"])

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del rows
        return (1 - aux["zero_inflation"]) * bounded_exp(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del rows
        counts, mean = _drawn_counts(rng, response, aux)
        return np.where(counts, random_poisson(rng, mean), 0.0)


@dataclasses.dataclass(frozen=True)
class ZeroInflatedNegativeBinomial(Family):
    """Zero with the probability `zero_inflation`, and otherwise negative binomial with the mean exp(eta)."""

    name = "zero-inflated-negative-binomial"
    target = Target("a count: 0, 1, 2, ... that varies much, with many zeros", checks.COUNTS, is_whole=True)
    auxiliaries = (DISPERSION, ZERO_INFLATION)
    link = LOG_RATE
    effect = RATE_RATIO
    statistics = OF_COUNTS
    roles = ("exposure", "offset", "weights")

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del rows
        counts = negative_binomial_log_density(eta, y, 1 / aux["dispersion"])
        return _with_zeros(counts, y, aux["zero_inflation"])

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del rows
        return (1 - aux["zero_inflation"]) * bounded_exp(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del rows
        counts, mean = _drawn_counts(rng, response, aux)
        return np.where(counts, random_negative_binomial(rng, mean, aux["dispersion"]), 0.0)


def _with_zeros(log_count: Array, y: Array, share: Array) -> Array:
    """Return the log-density of zeros of this share, and otherwise of counts with the log-density `log_count`."""
    counted = jnp.log1p(-share) + log_count
    return jnp.where(y == 0, jnp.logaddexp(jnp.log(share), counted), counted)


def _drawn_counts(rng: Generator, response: Response, aux: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Return which observations are counts, and their mean where they are."""
    counted = 1 - aux["zero_inflation"]
    return rng.random(response.shape) < counted, response / np.maximum(counted, _LEAST)
