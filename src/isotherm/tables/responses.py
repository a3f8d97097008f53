"""Responses of a regression for new rows: one matrix product gives the linear predictor at all draws."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm.prediction.blocks import ahead, blocks, evaluated, log_mean, mean_exp
from isotherm.sums import precision
from isotherm.tables.families import Likelihood
from isotherm.tables.fitted import Fitted
from isotherm.tables.new_rows import NewRows
from isotherm.tables.standardized import Standardized


class Responses(NamedTuple):
    """Expected responses of some rows at every draw, and the log predictive density of each row if `y` is given."""

    rows: slice
    values: Float[np.ndarray, "draw row"]
    log_likelihood: Float[np.ndarray, " row"] | None


def responses(
    likelihood: Likelihood,
    params: Mapping[str, np.ndarray],
    data: Mapping[str, np.ndarray],
    *,
    rows_at_once: int | None = None,
) -> Iterator[Responses]:
    """Yield the responses of some rows after those of others, of families whose response has no axis of classes.

    `data` has `x`, the columns minus the center of `likelihood`, and may have `offset` and `y`. The values of a row
    at all draws are contiguous in memory, which makes sorting them several times faster.
    """
    first = 1 if likelihood.standard.has_intercept else 0
    slopes = params["coefficients"][:, first:]
    intercept = slopes @ np.asarray(likelihood.standard.center, np.float64)
    intercept = intercept + params["coefficients"][:, 0] if first else 0 * intercept
    linear = {**params, "slopes": slopes, "intercept": intercept.astype(slopes.dtype)}
    del linear["coefficients"]
    one_draw = lambda p, rows: rows["x"] @ p["slopes"]
    kind = lambda *_: _Responses(likelihood)
    for rows, pieces in ahead(evaluated(kind, one_draw, linear, dict(data), rows_at_once=rows_at_once)):
        count, values = rows.stop - rows.start, [np.asarray(piece[0]) for piece in pieces]
        joined = values[0] if len(values) == 1 else np.concatenate(values, axis=1)
        found = log_mean([piece[1] for piece in pieces])[:count] if "y" in data else None
        yield Responses(rows, joined[:count].T, found)


def likelihood_of(model: Fitted, rows: NewRows) -> tuple[Likelihood, dict[str, np.ndarray]]:
    """Return the likelihood of rows from which `center` was subtracted, and these rows as it takes them."""
    center = jnp.asarray(rows.center, jnp.float32)
    standard = Standardized(center, jnp.ones(len(center)), has_intercept=model.has_intercept)
    data = (
        {"x": rows.x} | ({} if rows.offset is None else {"offset": rows.offset}) | rows.further | rows.terms
    )
    return Likelihood(standard, model.family, model.terms, model.made_predictors), data


def responses_of(
    likelihood: Likelihood,
    params: Mapping[str, np.ndarray],
    data: dict[str, np.ndarray],
    rows: NewRows,
    rows_at_once: int | None,
    num_classes: int,
) -> Iterator[Responses]:
    """Return the expected responses at every draw, some rows at a time."""
    coefficients = params["coefficients"]
    if len(rows.x) == 0:
        classes = (num_classes,) if likelihood.family.has_probabilities else ()
        nothing = np.empty((len(coefficients), 0, *classes), coefficients.dtype)
        return iter([Responses(slice(0, 0), nothing, np.empty(0))])
    if not likelihood.family.has_probabilities:
        y = {} if rows.y is None else {"y": rows.y.astype(np.float32)}
        return responses(likelihood, params, data | y, rows_at_once=rows_at_once)
    found = blocks(likelihood.expected, params, data, rows_at_once=rows_at_once)
    return (Responses(which, values, None) for which, values in found)


class _Responses(eqx.Module):
    """The responses (row, draw) of a block of rows, and what `mean_exp` makes of their log-densities."""

    likelihood: Likelihood

    @precision.exact
    def __call__(self, rows: dict[str, Array], draws: tuple[dict[str, Array], None]) -> PyTree[Array]:
        params = {name: x[None] if x.ndim == 1 else x for name, x in draws[0].items()}
        eta = rows["x"] @ params["slopes"].T + params["intercept"]
        for term in self.likelihood.terms:
            eta = eta + term.at_draws(draws[0], rows)
        params |= {x.name: x.at_draws(draws[0], rows) for x in self.likelihood.predictors}
        eta = eta + rows["offset"][:, None] if "offset" in rows else eta
        of_row = {name: x[:, None] for name, x in rows.items() if x.ndim == 1}
        values = self.likelihood.response(eta, params, of_row)
        if "y" not in rows:
            return values, None
        mean_likelihood = self.likelihood.family.mean_likelihood
        if mean_likelihood is not None:
            return values, mean_likelihood(eta, of_row["y"])
        return values, mean_exp(self.likelihood.log_density(eta, of_row["y"], params, of_row).T)
