"""Responses of a regression for new rows: one matrix product gives the linear predictor at all draws."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm.prediction.blocks import ahead, blocks, evaluated, log_mean, mean_exp
from isotherm.sums import precision
from isotherm.tables.families import Likelihood
from isotherm.tables.fitted import Fitted
from isotherm.tables.new_rows import NewRows
from isotherm.tables.standardized import Standardized

_FAR = 60.0  # log-odds beyond which a sigmoid is an exponential, and far from underflow


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
    """Yield the responses of some rows after those of others. For all models but `softmax`.

    `data` has `x`, the columns minus the center of `likelihood`, and may have `offset` and `y`. The values of a row
    at all draws are contiguous in memory, which makes sorting them several times faster.
    """
    slopes = params["coefficients"][:, 1:]
    center = np.asarray(likelihood.standard.center, np.float64)
    intercept = params["coefficients"][:, 0] + slopes @ center
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
    standard = Standardized(jnp.asarray(rows.center, jnp.float32), jnp.ones(len(rows.center)))
    data = {"x": rows.x} | ({} if rows.offset is None else {"offset": rows.offset})
    return Likelihood(standard, model.model, model.degrees_of_freedom), data


def responses_of(
    likelihood: Likelihood,
    params: Mapping[str, np.ndarray],
    data: dict[str, np.ndarray],
    rows: NewRows,
    rows_at_once: int | None,
) -> Iterator[Responses]:
    """Return the expected responses at every draw, some rows at a time."""
    coefficients = params["coefficients"]
    if len(rows.x) == 0:
        classes = () if likelihood.model != "softmax" else (coefficients.shape[1] + 1,)
        nothing = np.empty((len(coefficients), 0, *classes), coefficients.dtype)
        return iter([Responses(slice(0, 0), nothing, np.empty(0))])
    if likelihood.model != "softmax":
        y = {} if rows.y is None else {"y": rows.y.astype(np.float32)}
        return responses(likelihood, params, data | y, rows_at_once=rows_at_once)
    found = blocks(likelihood.expected, params, data, rows_at_once=rows_at_once)
    return (Responses(which, values, None) for which, values in found)


class _Responses(eqx.Module):
    """The responses (row, draw) of a block of rows, and what `mean_exp` makes of their log-densities."""

    likelihood: Likelihood

    @precision.exact
    def __call__(self, rows: dict[str, Array], draws: tuple[dict[str, Array], None]) -> PyTree[Array]:
        params = {name: x if x.ndim == 2 else x[None] for name, x in draws[0].items()}
        eta = rows["x"] @ params["slopes"].T + params["intercept"]
        eta = eta + rows["offset"][:, None] if "offset" in rows else eta
        values = self.likelihood.response(eta)
        if "y" not in rows:
            return values, None
        if self.likelihood.model == "logistic":
            return values, _mean_probability((2 * rows["y"][:, None] - 1) * eta)
        return values, mean_exp(self.likelihood.log_density(eta, rows["y"][:, None], params).T)


def _mean_probability(z: Float[Array, "n draw"]) -> tuple[Array, Array, Array]:
    """Return what `mean_exp` does for log sigmoid(z), at a third of the cost.

    exp(-level) sigmoid(z) = sigmoid(z - level) up to a factor 1 + exp(-60) if the level is not zero, since all z are
    then below -60.
    """
    level = jnp.minimum(jnp.max(z, axis=1) + _FAR, 0)
    level = jnp.where(jnp.isinf(level), 0, level)
    terms = jax.nn.sigmoid(z - level[:, None])
    return level, terms @ jnp.full(z.shape[1], 1 / z.shape[1], z.dtype), jnp.full_like(level, z.shape[1])
