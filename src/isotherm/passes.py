"""Sums over all rows at one point, a piece at a time: log-likelihood, gradient, Hessian.

Pieces are summed in 32 bits or what the parameters have, and added up in 64.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from isotherm import tree
from isotherm.posterior import Posterior

_NUMBERS = 2**20  # of a piece: rows times parameters


def chunks(data: PyTree, numbers_per_row: int) -> Iterator[tuple[PyTree, Bool[Array, " n"]]]:
    """The rows in pieces of equal length, the last one filled up, and which rows of a piece are there."""
    num_data = jax.tree.leaves(data)[0].shape[0]
    length = min(num_data, max(256, _NUMBERS // numbers_per_row))
    for begin in range(0, num_data, length):
        index = np.minimum(np.arange(begin, begin + length), num_data - 1)
        there = jnp.asarray(np.arange(begin, begin + length) < num_data)
        if begin + length <= num_data:
            yield jax.tree.map(lambda x, b=begin: x[b : b + length], data), there
        else:
            yield jax.tree.map(lambda x, i=index: x[i], data), there


def sums(
    posterior: Posterior, data: PyTree, theta: PyTree, *, order: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Value, gradient and, to order 2, Hessian of the log-likelihood of all rows, over the ravelled parameters."""
    size = tree.size(theta)
    widths = [int(np.prod(x.shape[1:])) for x in jax.tree.leaves(data)]
    total: Any = None
    for rows, there in chunks(data, max(sum(widths), size if order == 2 else 1)):
        piece = jax.tree.map(
            lambda x: np.asarray(x, np.float64), _piece(posterior, theta, rows, there, order)
        )
        total = piece if total is None else jax.tree.map(np.add, total, piece)
    value, gradient, hessian = total
    return np.asarray(value), gradient, None if hessian is None else (hessian + hessian.T) / 2


def fisher(posterior: Posterior, data: PyTree, theta: PyTree) -> np.ndarray:
    """The sum over rows of g g', g the gradient of a row's log-likelihood over the ravelled parameters."""
    total = np.zeros((tree.size(theta),) * 2)
    for rows, there in chunks(data, tree.size(theta)):
        total += np.asarray(_outer(posterior, theta, rows, there), np.float64)
    return total


def prior_sums(posterior: Posterior, theta: PyTree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of the log-prior, to order 2."""
    value, gradient, hessian = (np.asarray(x, np.float64) for x in _prior(posterior, theta))
    return value, gradient, hessian


@eqx.filter_jit
def _piece(
    posterior: Posterior, theta: PyTree, rows: PyTree, there: Bool[Array, " n"], order: int
) -> tuple[Array, Array, Array | None]:
    def total(x: Float[Array, " d"]) -> Array:
        values = posterior.row_log_likelihoods(tree.unravel_like(x, theta), rows)
        return jnp.sum(values * there)

    return _derivatives(total, tree.ravel(theta), order)


@eqx.filter_jit
def _outer(
    posterior: Posterior, theta: PyTree, rows: PyTree, there: Bool[Array, " n"]
) -> Float[Array, "d d"]:
    gradients = jax.vmap(jax.grad(posterior.one_log_likelihood), in_axes=(None, 0))(theta, rows)
    g = jax.vmap(tree.ravel)(gradients) * there[:, None]
    return g.T @ g


@eqx.filter_jit
def _prior(posterior: Posterior, theta: PyTree) -> tuple[Array, Array, Array | None]:
    total = lambda x: posterior.prior_log_density(tree.unravel_like(x, theta))
    return _derivatives(total, tree.ravel(theta), 2)


def _derivatives(f: Any, x: Float[Array, " d"], order: int) -> tuple[Array, Array, Array | None]:
    value, gradient = jax.value_and_grad(f)(x)
    if order < 2:
        return value, gradient, None
    column = lambda e: jax.jvp(jax.grad(f), (x,), (e,))[1]
    return value, gradient, jax.vmap(column)(jnp.eye(len(x), dtype=x.dtype))
