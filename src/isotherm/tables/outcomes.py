"""New observations: draws from the distribution of the outcome around the expected response."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from isotherm.prediction.record import Prediction
from isotherm.tables.fitted import Fitted


def outcomes(
    model: Fitted,
    expected: Float[np.ndarray, "draw row"],
    params: Mapping[str, np.ndarray],
    rows: Mapping[str, Float[np.ndarray, " row"]],
    seeds: list[tuple[int, int]],
    terms: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> Float[np.ndarray, "draw row"]:
    """Return one new observation per draw and row, given the expected responses and one seed per row.

    `rows` has the further columns of the family, and `terms` those of its parameters that depend on the row.
    """
    family = model.family
    varying = {x.name: np.asarray(x.at_draws(params, terms), np.float64) for x in model.made_predictors}
    aux = {
        x.name: np.asarray(params[x.name], np.float64) for x in family.auxiliaries if x.name not in varying
    }
    out = np.empty(expected.shape[::-1], np.float32)
    for i, center in enumerate(np.ascontiguousarray(expected.T, np.float64)):
        row = {name: x[i] for name, x in rows.items()}
        own = aux | {name: x[i] for name, x in varying.items()}
        out[i] = family.random(np.random.default_rng(seeds[i]), center, own, row)
    return out.T


def outcome_of(model: Fitted, outcome: Prediction, expected: Prediction) -> Prediction:
    """Return `outcome` with the mean of `expected`, which has no noise; intervals of counts end at counts."""
    outcome = dataclasses.replace(outcome, mean=expected.mean)
    if not model.family.target.is_whole:
        return outcome
    low, high = outcome.quantiles
    # Many counts are equal, so the share of outcomes below a quantile does not measure calibration.
    return dataclasses.replace(outcome, quantiles=np.stack([np.floor(low), np.ceil(high)]), pit=None)
