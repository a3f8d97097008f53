"""Parameters of a regression, drawn from their priors."""

import numpy as np
from jaxtyping import Float

from isotherm.errors import must
from isotherm.tables.assembled import Regression
from isotherm.tables.families.base import Auxiliary
from isotherm.tables.families.likelihood import LogPrior
from isotherm.tables.standardized import Standardized
from isotherm.tables.terms import GroupEffects, Smooth

Generator = np.random.Generator
Params = dict[str, np.ndarray]


def prior_draws(regression: Regression, num_draws: int, rng: Generator) -> Params:
    """Return draws of every parameter: leaves (draw, ...), in the shapes of `regression.init`."""
    law = regression.posterior.log_prior
    if not isinstance(law, LogPrior):
        raise must("regression", "of `iso.tables.regression`", law, error=TypeError)
    prior, shape = law.prior, np.shape(regression.init["coefficients"])
    b = prior.coefficients * rng.standard_normal((num_draws, *shape))
    if law.standard.has_intercept:
        b[..., 0] *= prior.intercept / prior.coefficients
    found = {"coefficients": _in_units(law.standard, b)}
    for predictor in law.predictors:
        size = np.shape(regression.init[predictor.coefficients])
        z = prior.predictors * rng.standard_normal((num_draws, *size))
        found[predictor.coefficients] = _in_units(predictor.standard, z)
    for term in law.terms:
        found |= (
            _of_groups(term, num_draws, rng)
            if isinstance(term, GroupEffects)
            else _of_smooth(term, num_draws, rng)
        )
    varying = {predictor.name for predictor in law.predictors}
    for auxiliary in law.family.auxiliaries:
        if auxiliary.name not in varying:
            scale, unit = prior.scale(auxiliary), float(law.standard.unit)
            shape = np.shape(regression.init[auxiliary.name])
            found[auxiliary.name] = _auxiliary(auxiliary, scale, unit, (num_draws, *shape), rng)
    return {name: np.asarray(x, np.float64) for name, x in found.items()}


def uniform_correlations(size: int, num_draws: int, rng: Generator) -> Float[np.ndarray, "draw n n"]:
    """Return matrices that are uniform among correlation matrices.

    Row by row, partial correlations given the columns before are beta variables on (-1, 1) (Joe, 2006).
    """
    factor = np.zeros((num_draws, size, size))
    factor[:, 0, 0] = 1
    for i in range(1, size):
        left = np.ones(num_draws)
        for j in range(i):
            shape = 1 + (size - 2 - j) / 2
            partial = 2 * rng.beta(shape, shape, num_draws) - 1
            factor[:, i, j] = partial * np.sqrt(left)
            left = left * (1 - partial**2)
        factor[:, i, i] = np.sqrt(left)
    return factor @ factor.transpose(0, 2, 1)


def _of_groups(term: GroupEffects, num_draws: int, rng: Generator) -> Params:
    effects, sd, correlations = term.names
    count = len(term.terms)
    scales = np.abs(rng.standard_normal((num_draws, count))) * np.asarray(term.scales)
    z = rng.standard_normal((num_draws, term.size, count))
    found = {sd: scales}
    if correlations is not None:
        matrices = uniform_correlations(count, num_draws, rng)
        found[correlations] = matrices[:, *np.tril_indices(count, -1)]
        z = np.einsum("dij,dlj->dli", np.linalg.cholesky(matrices), z)
    return found | {effects: z * scales[:, None]}


def _of_smooth(term: Smooth, num_draws: int, rng: Generator) -> Params:
    coefficients, sd = term.names
    scale = np.abs(rng.standard_normal(num_draws)) * term.scale
    return {sd: scale, coefficients: scale[:, None] * rng.standard_normal((num_draws, term.size))}


def _auxiliary(
    auxiliary: Auxiliary, scale: int | float | None, unit: float, shape: tuple[int, ...], rng: Generator
) -> np.ndarray:
    if auxiliary.prior.sample is None:
        repair = "Give its `Law` a function `sample`."
        raise must(auxiliary.name, "a parameter whose prior can be drawn from", auxiliary.prior.words, repair)
    size = 1.0 if scale is None else float(scale)
    return auxiliary.prior.sample(rng, unit * size if auxiliary.in_target_units else size, shape)


def _in_units(standard: Standardized, b: Float[np.ndarray, "draw ..."]) -> np.ndarray:
    """Return coefficients per unit of the columns, in 64 bits: as `standard(b)`."""
    center, scale = (np.asarray(x, np.float64) for x in (standard.center, standard.scale))
    origin, unit = float(standard.origin), float(standard.unit)
    if not standard.has_intercept:
        return unit * b / scale
    slopes = unit * b[..., 1:] / scale
    intercept = origin + unit * b[..., :1] - np.sum(slopes * center, axis=-1, keepdims=True)
    return np.concatenate([intercept, slopes], axis=-1)
