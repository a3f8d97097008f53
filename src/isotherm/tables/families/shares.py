"""Shares: numbers between 0 and 1, with a logit link."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from isotherm.tables.checks import Rule
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
from isotherm.tables.families.numerics import share_deviance, stirling_error
from isotherm.tables.families.statistics import OF_NUMBERS
from isotherm.transforms import Positive

_FLOAT32 = np.finfo(np.float32)
_LEAST_DRAWN = 1e-10  # of precision times a share


def _is_inside(x: np.ndarray) -> np.ndarray:
    small = np.clip(x, -1, 2).astype(np.float32)
    return (small >= _FLOAT32.tiny) & (small < 1)


@dataclasses.dataclass(frozen=True)
class Beta(Family):
    """Numbers between 0 and 1 with the mean m = sigmoid(eta) and the variance m (1 - m) / (1 + precision)."""

    name = "beta"
    target = Target(
        "a number between 0 and 1, both excluded",
        Rule("numbers above 0 and below 1, to 7 digits", _is_inside),
        varies=True,
    )
    auxiliaries = (
        Auxiliary(
            "precision",
            Positive(),
            lambda facts: 5.0,
            LOG_NORMAL,
            3.0,
            comment="variance = mean (1 - mean) / (1 + precision); log-normal",
        ),
    )
    effect = Effect("odds ratio", "multiplies the odds, mean / (1 - mean), of `{target}` by")
    statistics = OF_NUMBERS
    proposed = {"shares": "if they are shares"}

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del rows
        total, log_y, log_rest = aux["precision"], jnp.log(y), jnp.log1p(-y)
        log_total = jnp.log(total)
        (a, log_a), (b, log_b) = (
            (total * jax.nn.sigmoid(x), log_total + jax.nn.log_sigmoid(x)) for x in (eta, -eta)
        )
        errors = stirling_error(total) - stirling_error(a, log_a) - stirling_error(b, log_b)
        width = 0.5 * (log_a + log_b - log_total) - 0.5 * math.log(2 * math.pi)
        return width + errors - total * share_deviance(log_y - log_rest - eta, eta) - log_y - log_rest

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del aux, rows
        return jax.nn.sigmoid(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del rows
        total = np.clip(aux["precision"], _LEAST_DRAWN, 1 / _LEAST_DRAWN)
        a, b = (np.maximum(total * p, _LEAST_DRAWN) for p in (response, 1 - response))
        return np.clip(rng.beta(a, b, size=response.shape), _FLOAT32.tiny, 1 - _FLOAT32.epsneg)
