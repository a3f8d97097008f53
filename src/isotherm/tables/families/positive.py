"""Positive numbers with a log link: gamma."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from isotherm.tables.checks import Rule
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
from isotherm.tables.families.laws import LOG_NORMAL
from isotherm.tables.families.numerics import bounded_exp, exp_deviance, stirling_error
from isotherm.tables.families.statistics import OF_NUMBERS
from isotherm.transforms import Positive

_FLOAT32 = np.finfo(np.float32)


def _is_positive(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        small = x.astype(np.float32)
    return (small >= _FLOAT32.tiny) & (small < np.inf)


POSITIVE_32 = Rule("positive numbers between 1e-37 and 1e38", _is_positive)
LOG_MEAN = Link(math.log, "around the log of the mean of the target")


@dataclasses.dataclass(frozen=True)
class Gamma(Family):
    """Positive numbers with mean exp(eta) and variance mean^2 / shape."""

    name = "gamma"
    target = Target("a positive number", POSITIVE_32, varies=True)
    auxiliaries = (
        Auxiliary(
            "shape",
            Positive(),
            lambda facts: 1.0,
            LOG_NORMAL,
            2.0,
            comment="variance = mean^2 / shape; log-normal",
        ),
    )
    link = LOG_MEAN
    effect = Effect("ratio of means", "multiplies the mean of `{target}` by")
    statistics = OF_NUMBERS
    proposed = {"positive numbers": "if their spread grows with their mean"}

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del rows
        k, log_y = aux["shape"], jnp.log(y)
        constant = 0.5 * jnp.log(k) - 0.5 * math.log(2 * math.pi) - stirling_error(k)
        return constant - k * exp_deviance(log_y - eta) - log_y

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return bounded_exp(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del rows
        shape = np.clip(aux["shape"], 1e-10, 1e12)
        drawn = response * (rng.gamma(shape, size=response.shape) / shape)
        return np.clip(drawn, _FLOAT32.tiny, _FLOAT32.max)
