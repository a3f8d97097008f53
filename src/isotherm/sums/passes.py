"""Sums over all rows at one point, a piece at a time: log-likelihood, gradient, Hessian.

Pieces are summed in 32 bits or what the parameters have, and added up in 64.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from isotherm import tree
from isotherm.posterior import Posterior

_NUMBERS = 2**20  # of a piece: rows times parameters
_ROWS, _MOST = 256, 2**26  # of a piece at least, unless that would be so many numbers


def chunks(
    data: PyTree, numbers_per_row: int, rows: np.ndarray | None = None
) -> Iterator[tuple[Int[Array, " n"], Bool[Array, " n"]]]:
    """All rows, or those given, in pieces of one length: their numbers, and which of a piece are not filling.

    The length does not depend on how many rows are asked for, so that one program serves any number of them.
    """
    num_data = jax.tree.leaves(data)[0].shape[0]
    rows = np.arange(num_data) if rows is None else rows
    length = min(num_data, max(1, min(_ROWS, _MOST // numbers_per_row), _NUMBERS // numbers_per_row))
    for begin in range(0, len(rows), length):
        own = rows[begin : begin + length]
        there = np.arange(length) < len(own)
        yield jnp.asarray(np.resize(own, length), jnp.int32), jnp.asarray(there)


def sums(
    posterior: Posterior, data: PyTree, theta: PyTree, *, order: int, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Value, gradient and, to order 2, Hessian of the log-likelihood of all rows, over the ravelled parameters."""
    total: Any = None
    for index, there in chunks(data, _numbers(data, theta if order == 2 else None), rows):
        piece = _piece(posterior, theta, data, index, there, order)
        piece = jax.tree.map(lambda x: np.asarray(x, np.float64), piece)
        total = piece if total is None else jax.tree.map(np.add, total, piece)
    value, gradient, hessian = total
    return np.asarray(value), gradient, None if hessian is None else (hessian + hessian.T) / 2


def sums_at(
    posterior: Posterior, data: PyTree, thetas: PyTree[Array]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m d"]]:
    """Value and gradient of the log-likelihood of all rows at several points, along the leading axis of `thetas`."""
    total: Any = None
    for index, there in chunks(data, _numbers(data, None)):
        piece = _pieces(posterior, thetas, data, index, there)
        piece = jax.tree.map(lambda x: np.asarray(x, np.float64), piece)
        total = piece if total is None else jax.tree.map(np.add, total, piece)
    return total


def fisher(
    posterior: Posterior, data: PyTree, theta: PyTree, *, rows: np.ndarray | None = None
) -> np.ndarray:
    """The sum over rows of g g', g the gradient of a row's log-likelihood over the ravelled parameters."""
    total = np.zeros((tree.size(theta),) * 2)
    for index, there in chunks(data, _numbers(data, theta), rows):
        total += np.asarray(_outer(posterior, theta, data, index, there), np.float64)
    return total


def prior_sums(posterior: Posterior, theta: PyTree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of the log-prior, to order 2."""
    value, gradient, hessian = (np.asarray(x, np.float64) for x in _prior(posterior, theta))
    return value, gradient, hessian


def holds(total: float, change: float, theta: PyTree) -> bool:
    """Whether a change of a sum over rows shows, where each row is rounded to the precision of the parameters."""
    return abs(total) * float(jnp.finfo(tree.ravel(theta).dtype).eps) / 4 < change


def picked(data: PyTree, index: Int[Array, " n"]) -> PyTree:
    """These rows."""
    return jax.tree.map(lambda x: x.at[index].get(mode="promise_in_bounds"), data)


def _numbers(data: PyTree, theta: PyTree | None) -> int:
    width = sum(int(np.prod(x.shape[1:])) for x in jax.tree.leaves(data))
    return max(width, 1 if theta is None else tree.size(theta))


@eqx.filter_jit
def _piece(
    posterior: Posterior,
    theta: PyTree,
    data: PyTree,
    index: Int[Array, " n"],
    there: Bool[Array, " n"],
    order: int,
) -> tuple[Array, Array, Array | None]:
    rows = picked(data, index)

    def total(x: Float[Array, " d"]) -> Array:
        values = posterior.row_log_likelihoods(tree.unravel_like(x, theta), rows)
        return jnp.sum(values * there)

    return _derivatives(total, tree.ravel(theta), order)


@eqx.filter_jit
def _pieces(
    posterior: Posterior,
    thetas: PyTree[Array],
    data: PyTree,
    index: Int[Array, " n"],
    there: Bool[Array, " n"],
) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
    rows = picked(data, index)

    def one(theta: PyTree) -> tuple[Array, Array]:
        total = lambda x: jnp.sum(posterior.row_log_likelihoods(x, rows) * there)
        value, gradient = jax.value_and_grad(total)(theta)
        return value, tree.ravel(gradient)

    return jax.lax.map(one, thetas)


@eqx.filter_jit
def _outer(
    posterior: Posterior, theta: PyTree, data: PyTree, index: Int[Array, " n"], there: Bool[Array, " n"]
) -> Float[Array, "d d"]:
    rows = picked(data, index)
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
