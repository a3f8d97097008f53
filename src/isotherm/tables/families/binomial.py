"""Numbers of successes in known numbers of trials."""

import dataclasses

import jax
import numpy as np
from jaxtyping import Array

from isotherm.tables import checks
from isotherm.tables.families.base import (
    Effect,
    Family,
    Generator,
    Numbers,
    Params,
    Response,
    Rows,
    Target,
    Together,
)
from isotherm.tables.families.numerics import binomial_log_density
from isotherm.tables.families.statistics import OF_COUNTS


@dataclasses.dataclass(frozen=True)
class Binomial(Family):
    """Successes in `trials` trials, each with the probability sigmoid(eta)."""

    name = "binomial"
    target = Target(
        "a number of successes, of the trials in the column `trials`",
        checks.COUNTS,
        (Together("trials", "at most the number of trials", lambda y, trials: y <= trials),),
        is_whole=True,
    )
    effect = Effect("odds ratio", "multiplies the odds of a success by")
    statistics = OF_COUNTS
    roles = ("trials", "offset", "weights")
    needs = ("trials",)

    def log_density(self, eta: Array, y: Array, aux: Params, rows: Rows) -> Array:
        del aux
        return binomial_log_density(eta, y, rows["trials"])

    def response(self, eta: Array, aux: Params, rows: Rows) -> Array:
        del aux
        return rows["trials"] * jax.nn.sigmoid(eta)

    def random(self, rng: Generator, response: Response, aux: Numbers, rows: Numbers) -> np.ndarray:
        del aux
        trials = np.asarray(rows["trials"], np.float64)
        p = np.clip(response / trials, 0, 1)
        return rng.binomial(trials.astype(np.int64), p, size=response.shape).astype(np.float64)
