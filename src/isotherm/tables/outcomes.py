"""New observations: draws from the distribution of the outcome around the expected response."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from isotherm.prediction.record import Prediction
from isotherm.tables.families import COUNTS, SCALES
from isotherm.tables.fitted import Fitted

_LARGE = 1e15  # expected count above which a Poisson variable equals it to 7 digits


def outcomes(
    model: Fitted,
    expected: Float[np.ndarray, "draw row"],
    params: Mapping[str, np.ndarray],
    seeds: list[tuple[int, int]],
) -> Float[np.ndarray, "draw row"]:
    """Return one new observation per draw and row, given the expected responses and one seed per row."""
    scale = np.asarray(params[SCALES[model.model]] if model.model in SCALES else 0.0, np.float64)
    out = np.empty(expected.shape[::-1], np.float32)
    for i, center in enumerate(np.ascontiguousarray(expected.T, np.float64)):
        rng = np.random.default_rng(seeds[i])
        if model.model == "linear":
            out[i] = center + scale * rng.standard_normal(len(center))
        elif model.model == "student-t":
            out[i] = center + scale * rng.standard_t(model.degrees_of_freedom, len(center))
        else:
            # A negative binomial is a Poisson whose rate is multiplied by a gamma of mean 1 and variance dispersion.
            rate = center if model.model == "poisson" else center * scale * rng.gamma(1 / scale)
            out[i] = np.where(rate < _LARGE, rng.poisson(np.minimum(rate, _LARGE)), rate)
    return out.T


def outcome_of(model: Fitted, outcome: Prediction, expected: Prediction) -> Prediction:
    """Return `outcome` with the mean of `expected`, which has no noise; intervals of counts end at counts."""
    outcome = dataclasses.replace(outcome, mean=expected.mean)
    if model.model not in COUNTS:
        return outcome
    low, high = outcome.quantiles
    # Many counts are equal, so the share of outcomes below a quantile does not measure calibration.
    return dataclasses.replace(outcome, quantiles=np.stack([np.floor(low), np.ceil(high)]), pit=None)
