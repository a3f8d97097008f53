"""Counts with a log link: Poisson, and negative binomial for those that vary more."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from isotherm.tables import checks
from isotherm.tables.families.base import (
    Auxiliary,
    Effect,
    Family,
    Generator,
    Link,
    Numbers,
    Params,
    Response,
    Rows,
    Target,
)
from isotherm.tables.families.laws import ROOT_HALF_NORMAL
from isotherm.tables.families.statistics import OF_COUNTS
from isotherm.transforms import Positive

_LARGE = 20.0  # 1/dispersion above which Stirling's series is exact in 32 bits
_COUNTABLE = 1e15  # rate above which a Poisson variable equals it to 7 digits
LOG_RATE = Link(lambda mean: math.log(max(mean, 1e-9)), "around the log of the mean rate")
RATE_RATIO = Effect("rate ratio", "multiplies the mean of `{target}` by")
DISPERSION = Auxiliary(
    "dispersion",
    Positive(),
    lambda facts: 0.5,
    ROOT_HALF_NORMAL,
    comment="variance = mean + dispersion mean^2; its square root is half-normal",
)


@dataclasses.dataclass(frozen=True)
class Poisson(Family):
    """Counts with mean and variance exp(eta)."""

    name = "poisson"
    target = Target("a count: 0, 1, 2, ...", checks.COUNTS, is_whole=True)
    link = LOG_RATE
    effect = RATE_RATIO
    statistics = OF_COUNTS
    roles = ("exposure", "offset", "weights")
    proposed = {"counts": "", "whole numbers from 1": "if they are counts"}

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return y * eta - jnp.exp(eta) - gammaln(y + 1)

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return jnp.exp(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del aux, rows
        return random_poisson(rng, response)


@dataclasses.dataclass(frozen=True)
class NegativeBinomial(Family):
    """Counts with mean exp(eta) and variance mean + dispersion mean^2."""

    name = "negative-binomial"
    target = Target(
        "a count: 0, 1, 2, ... that varies more than a Poisson variable", checks.COUNTS, is_whole=True
    )
    auxiliaries = (DISPERSION,)
    link = LOG_RATE
    effect = RATE_RATIO
    statistics = OF_COUNTS
    roles = ("exposure", "offset", "weights")
    proposed = {"counts": "if they vary more"}

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del rows
        return negative_binomial(eta, y, 1 / aux["dispersion"])

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return jnp.exp(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del rows
        return random_negative_binomial(rng, response, aux["dispersion"])


def negative_binomial(eta: Array, y: Array, r: Array) -> Array:
    """Return the log-density with mean exp(eta) and variance mean + mean^2 / r.

    It avoids the cancellation of log-gammas at large r.
    """
    small, large = jnp.minimum(r, _LARGE), jnp.maximum(r, _LARGE)
    by_gamma = gammaln(y + small) - gammaln(small) - y * jnp.log(small)
    series = lambda z: 1 / (12 * z) - 1 / (360 * z**3)
    by_series = (y + large - 0.5) * jnp.log1p(y / large) - y + series(y + large) - series(large)
    ratio = jnp.where(r < _LARGE, by_gamma, by_series)  # log Gamma(y + r) / (Gamma(r) r^y)
    return ratio - gammaln(y + 1) + y * eta - (y + r) * jnp.log1p(jnp.exp(eta) / r)


def random_poisson(rng: np.random.Generator, rate: Float[np.ndarray, "..."]) -> np.ndarray:
    """Return a Poisson variable of each rate; the rate itself where that is too large to be counted."""
    return np.where(rate < _COUNTABLE, rng.poisson(np.minimum(rate, _COUNTABLE)), rate)


def random_negative_binomial(
    rng: np.random.Generator, mean: Float[np.ndarray, "..."], dispersion: np.ndarray | np.floating | float
) -> np.ndarray:
    """Return a Poisson variable whose rate is multiplied by a gamma of mean 1 and variance `dispersion`."""
    return random_poisson(rng, mean * dispersion * rng.gamma(1 / dispersion, size=mean.shape))
