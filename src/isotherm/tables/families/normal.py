"""Numbers around a line: normal errors, and errors with long tails."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from isotherm.tables.families.base import (
    Auxiliary,
    Generator,
    LocationFamily,
    Numbers,
    Params,
    Response,
    Rows,
    Target,
)
from isotherm.tables.families.laws import EXPONENTIAL
from isotherm.tables.families.statistics import OF_LONG_TAILS, OF_NUMBERS
from isotherm.transforms import Positive

SIGMA = Auxiliary(
    "sigma",
    Positive(),
    lambda facts: facts.unit,
    EXPONENTIAL,
    in_target_units=True,
    comment="exponential, with this mean, in sd of the target",
)


@dataclasses.dataclass(frozen=True)
class Linear(LocationFamily):
    """y = eta + sigma e, where e is standard normal."""

    name = "linear"
    target = Target("a number", varies=True)
    auxiliaries = (SIGMA,)
    statistics = OF_NUMBERS
    proposed = {"numbers": "", "positive numbers": "", "shares": ""}

    def residual_log_density(self, residual: Array, aux: Params, rows: Rows) -> Array:
        del rows
        z, log_sigma = residual / aux["sigma"], jnp.log(aux["sigma"])
        return -0.5 * z**2 - log_sigma - 0.5 * math.log(2 * math.pi)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del rows
        return response + aux["sigma"] * rng.standard_normal(response.shape)


@dataclasses.dataclass(frozen=True)
class StudentT(LocationFamily):
    """y = eta + sigma e, where e follows Student's t."""

    degrees_of_freedom: int | float = 4.0

    name = "student-t"
    target = Target("a number, with outliers", varies=True)
    auxiliaries = (SIGMA,)
    statistics = OF_LONG_TAILS
    settings = {"degrees_of_freedom": "fixed"}
    proposed = dict.fromkeys(("numbers", "positive numbers", "shares"), "if some are far out")

    def residual_log_density(self, residual: Array, aux: Params, rows: Rows) -> Array:
        del rows
        z, log_sigma = residual / aux["sigma"], jnp.log(aux["sigma"])
        k = self.degrees_of_freedom
        constant = math.lgamma((k + 1) / 2) - math.lgamma(k / 2) - 0.5 * math.log(k * math.pi)
        return constant - log_sigma - (k + 1) / 2 * jnp.log1p(z**2 / k)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del rows
        return response + aux["sigma"] * rng.standard_t(self.degrees_of_freedom, response.shape)
