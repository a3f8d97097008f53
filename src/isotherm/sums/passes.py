"""Sums over all rows at one point: log-likelihood, gradient, Hessian.

Rows are summed in chunks, in the precision of the parameters. The sums of the chunks are added in 64 bits.
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

_NUMBERS = 2**20  # in a chunk: rows times parameters
_ROWS, _MOST = 256, 2**26  # fewest rows in a chunk, unless they would hold this many numbers


def chunks(
    data: PyTree, numbers_per_row: int, rows: np.ndarray | None = None
) -> Iterator[tuple[Int[Array, " n"], Bool[Array, " n"]]]:
    """Yield the indices of all rows, or of those given, in chunks of equal length, and which are not padding.

    The length does not depend on how many rows are given, so that one compiled program serves any number of them.
    """
    num_data = jax.tree.leaves(data)[0].shape[0]
    rows = np.arange(num_data) if rows is None else rows
    length = min(num_data, max(1, min(_ROWS, _MOST // numbers_per_row), _NUMBERS // numbers_per_row))
    for begin in range(0, len(rows), length):
        chunk = rows[begin : begin + length]
        valid = np.arange(length) < len(chunk)
        yield jnp.asarray(np.resize(chunk, length), jnp.int32), jnp.asarray(valid)


def sums(
    posterior: Posterior, data: PyTree, theta: PyTree, *, order: int, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return value, gradient and, for order 2, Hessian of all rows' log-likelihood over the ravelled parameters."""
    total: Any = None
    for index, valid in chunks(data, _numbers(data, theta if order == 2 else None), rows):
        piece = _piece(posterior, theta, data, index, valid, order)
        piece = jax.tree.map(lambda x: np.asarray(x, np.float64), piece)
        total = piece if total is None else jax.tree.map(np.add, total, piece)
    value, gradient, hessian = total
    return np.asarray(value), gradient, None if hessian is None else (hessian + hessian.T) / 2


def sums_at(
    posterior: Posterior, data: PyTree, thetas: PyTree[Array]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m d"]]:
    """Return value and gradient of all rows' log-likelihood at points stacked along the leading axis of `thetas`."""
    total: Any = None
    for index, valid in chunks(data, _numbers(data, None)):
        piece = _pieces(posterior, thetas, data, index, valid)
        piece = jax.tree.map(lambda x: np.asarray(x, np.float64), piece)
        total = piece if total is None else jax.tree.map(np.add, total, piece)
    return total


def fisher(
    posterior: Posterior, data: PyTree, theta: PyTree, *, rows: np.ndarray | None = None
) -> np.ndarray:
    """Return the sum over rows of g g', where g is the gradient of a row over the ravelled parameters."""
    total = np.zeros((tree.size(theta),) * 2)
    for index, valid in chunks(data, _numbers(data, theta), rows):
        total += np.asarray(_outer(posterior, theta, data, index, valid), np.float64)
    return total


def prior_sums(posterior: Posterior, theta: PyTree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return value, gradient and Hessian of the log-prior over the ravelled parameters."""
    value, gradient, hessian = (np.asarray(x, np.float64) for x in _prior(posterior, theta))
    return value, gradient, hessian


def holds(total: float, change: float, theta: PyTree) -> bool:
    """Return whether a change of a sum over rows exceeds the error of rounding each row as the parameters are."""
    return abs(total) * float(jnp.finfo(tree.ravel(theta).dtype).eps) / 4 < change


def picked(data: PyTree, index: Int[Array, " n"]) -> PyTree:
    """Return the rows at `index`."""
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
    valid: Bool[Array, " n"],
    order: int,
) -> tuple[Array, Array, Array | None]:
    rows = picked(data, index)

    def total(x: Float[Array, " d"]) -> Array:
        values = posterior.row_log_likelihoods(tree.unravel_like(x, theta), rows)
        return jnp.sum(values * valid)

    return _derivatives(total, tree.ravel(theta), order)


@eqx.filter_jit
def _pieces(
    posterior: Posterior,
    thetas: PyTree[Array],
    data: PyTree,
    index: Int[Array, " n"],
    valid: Bool[Array, " n"],
) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
    rows = picked(data, index)

    def one(theta: PyTree) -> tuple[Array, Array]:
        total = lambda x: jnp.sum(posterior.row_log_likelihoods(x, rows) * valid)
        value, gradient = jax.value_and_grad(total)(theta)
        return value, tree.ravel(gradient)

    return jax.lax.map(one, thetas)


@eqx.filter_jit
def _outer(
    posterior: Posterior, theta: PyTree, data: PyTree, index: Int[Array, " n"], valid: Bool[Array, " n"]
) -> Float[Array, "d d"]:
    rows = picked(data, index)
    gradients = jax.vmap(jax.grad(posterior.one_log_likelihood), in_axes=(None, 0))(theta, rows)
    g = jax.vmap(tree.ravel)(gradients) * valid[:, None]
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
