"""A quantile of the target, by the asymmetric Laplace distribution."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from isotherm.errors import must
from isotherm.tables.families.base import (
    Effect,
    Generator,
    LocationFamily,
    Numbers,
    Params,
    Response,
    Rows,
    Target,
)
from isotherm.tables.families.normal import SIGMA


@dataclasses.dataclass(frozen=True)
class Quantile(LocationFamily):
    """p(y) = q (1 - q) / sigma exp(-z (q - [z < 0])), z = (y - eta) / sigma, whose q-quantile is eta."""

    quantile: int | float = 0.5

    name = "quantile"
    target = Target("a number", varies=True)
    auxiliaries = (SIGMA,)
    effect = Effect(None, "changes the quantile of `{target}` by")
    settings = {"quantile": "between 0 and 1: the quantile that is modelled"}

    def __post_init__(self) -> None:
        q = self.quantile
        if isinstance(q, bool) or not isinstance(q, int | float) or not 0 < q < 1:
            raise must("quantile", "a number between 0 and 1", q)

    def residual_log_density(self, residual: Array, aux: Params, rows: Rows) -> Array:
        del rows
        z, q = residual / aux["sigma"], self.quantile
        return math.log(q * (1 - q)) - jnp.log(aux["sigma"]) - jnp.maximum(q * z, (q - 1) * z)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del rows
        up, down = rng.standard_exponential((2, *response.shape))
        return response + aux["sigma"] * (up / self.quantile - down / (1 - self.quantile))
