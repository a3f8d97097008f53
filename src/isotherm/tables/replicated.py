"""Targets that a regression makes up for given rows."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from isotherm.tables.families.likelihood import Likelihood
from isotherm.tables.fitted import Fitted
from isotherm.tables.new_formula import with_new_levels
from isotherm.tables.new_rows import NewRows
from isotherm.tables.responses import likelihood_of, responses_of


class Block(NamedTuple):
    """Some rows at every draw: expected responses, and the parameters of the family beside them.

    `aux` has a number for each draw, or (draw, row) if the parameter depends on the row; `further` the other columns
    that the family asks for.
    """

    rows: slice
    response: Float[np.ndarray, "draw row ..."]
    aux: dict[str, np.ndarray]
    further: dict[str, np.ndarray]


def blocks_of(model: Fitted, params: Mapping[str, np.ndarray], rows: NewRows) -> Iterator[Block]:
    """Yield the rows, some at a time."""
    likelihood, data = likelihood_of(model, rows)
    params = with_new_levels(dict(params), model, rows, 0)
    without = dataclasses.replace(rows, y=None)
    for which, response, _ in responses_of(likelihood, params, data, without, None, len(model.classes)):
        part = {name: x[which] for name, x in data.items()}
        aux = varying(likelihood, params, part)
        aux |= {x.name: np.asarray(params[x.name]) for x in model.family.auxiliaries if x.name not in aux}
        yield Block(which, response, aux, {name: x for name, x in part.items() if x.ndim == 1})


def varying(
    likelihood: Likelihood, params: Mapping[str, np.ndarray], rows: Mapping[str, np.ndarray]
) -> dict[str, Float[np.ndarray, "draw ..."]]:
    """Return the parameters that depend on the row; (draw,) if their formula has no column."""
    found = {}
    for x in likelihood.predictors:
        own = {x.coefficients: jnp.asarray(params[x.coefficients], jnp.float32)}
        at = {x.rows: jnp.asarray(rows[x.rows])} if x.rows in rows else {}
        found[x.name] = np.asarray(jax.vmap(lambda p, x=x, at=at: x.values(p, at))(own))
    return found


def replicated(model: Fitted, block: Block, rng: np.random.Generator) -> Float[np.ndarray, "draw row"]:
    """Return a target for each row at each draw; of classes, their indices."""
    out = np.empty(block.response.shape[:2], np.float32)
    for i, response in enumerate(block.response):
        aux = {name: np.float64(x[i]) for name, x in block.aux.items()}
        out[i] = model.family.random(rng, np.asarray(response, np.float64), aux, block.further)
    return out
