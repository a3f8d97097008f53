"""Log-likelihood, gradient, Hessian and Fisher information of all rows, each by one pass over the data."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.posterior import Posterior
from isotherm.sums.fold import CHUNK, Part, fold
from isotherm.sums.points import at_each, padded
from isotherm.sums.precision import exact

_POINTS, _FEW = 16, 10_000  # points at which one program computes gradients, if there are no more parameters

Second = Literal["hessian", "fisher"] | None
Derivatives = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def derivatives(
    posterior: Posterior,
    data: PyTree,
    theta: PyTree,
    *,
    second: Second = None,
    part: Part | None = None,
) -> Derivatives:
    """Return value, gradient and a matrix of second order of the rows' log-likelihood over the ravelled parameters.

    The matrix is the Hessian or, to replace it, minus the Fisher information: the sum over rows of g g', with g the
    gradient of a row. `part` names random rows to use instead of all.
    """
    numbers = 1 if second is None else tree.size(theta)
    value, gradient, matrix = fold(
        _Derivatives(posterior, second), data, theta, numbers_per_row=numbers, part=part
    )
    return value, gradient, None if matrix is None else (matrix + matrix.T) / 2


def values_and_gradients(
    posterior: Posterior,
    data: PyTree,
    thetas: PyTree[Array],
    *,
    part: Part | None = None,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m d"]]:
    """Return value and gradient of the rows' log-likelihood at points stacked along the leading axis of `thetas`."""
    count = jax.tree.leaves(thetas)[0].shape[0]
    length = _POINTS if tree.size(thetas) <= _FEW * count else count
    repeated, number = padded(thetas, length)
    values, gradients = fold(_AtPoints(posterior), data, repeated, number, part=part)
    return values[:count], gradients[:count]


def prior_derivatives(posterior: Posterior, theta: PyTree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return value, gradient and Hessian of the log-prior over the ravelled parameters."""
    value, gradient, hessian = (np.asarray(x, np.float64) for x in _prior(posterior, theta))
    return value, gradient, hessian


def prior_gradients(
    posterior: Posterior, thetas: PyTree[Array]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m d"]]:
    """Return value and gradient of the log-prior at points stacked along the leading axis of `thetas`."""
    value, gradient = (np.asarray(x, np.float64) for x in _priors(posterior, thetas))
    return value, gradient


class _Derivatives(eqx.Module):
    """The sums of `derivatives` over one block of rows."""

    posterior: Posterior
    second: Second = eqx.field(static=True)

    @exact
    def __call__(
        self, rows: PyTree, valid: Bool[Array, " n"], theta: PyTree
    ) -> tuple[Array, Array, Array | None]:
        def total(x: Float[Array, " d"]) -> Array:
            values = self.posterior.row_log_likelihoods(tree.unravel_like(x, theta), rows)
            return jnp.sum(jnp.where(valid, values, 0))

        x = tree.ravel(theta)
        if self.second != "fisher":
            return _derivatives(total, x, hessian=self.second is not None)
        value, gradient = jax.value_and_grad(total)(x)
        gradients = jax.vmap(jax.grad(self.posterior.one_log_likelihood), in_axes=(None, 0))(theta, rows)
        g = jax.vmap(tree.ravel)(gradients) * valid[:, None]
        return value, gradient, -g.T @ g


class _AtPoints(eqx.Module):
    """Value and gradient at several points, of one block of rows.

    Derivatives are taken of `CHUNK` rows at a time, about as many as in a batch, and then added up. In single
    precision the terms of a remainder would otherwise be added up one by one, and cancel only as sums over many rows.
    """

    posterior: Posterior

    @exact
    def __call__(
        self, rows: PyTree, valid: Bool[Array, " n"], thetas: PyTree[Array], count: Int[Array, ""]
    ) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
        length = CHUNK if len(valid) % CHUNK == 0 else len(valid)
        chunks = jax.tree.map(lambda x: x.reshape(-1, length, *x.shape[1:]), (rows, valid))

        def of_chunk(theta: PyTree, rows: PyTree, valid: Bool[Array, " n"]) -> tuple[Array, Array]:
            total = lambda x: jnp.sum(jnp.where(valid, self.posterior.row_log_likelihoods(x, rows), 0))
            value, gradient = jax.value_and_grad(total)(theta)
            return value, tree.ravel(gradient)

        def of_all(theta: PyTree) -> tuple[Array, Array]:
            values, gradients = jax.vmap(of_chunk, in_axes=(None, 0, 0))(theta, *chunks)
            return jnp.sum(values), jnp.sum(gradients, axis=0)

        return at_each(of_all, thetas, count)


@compile_quickly
@exact
def _priors(posterior: Posterior, thetas: PyTree[Array]) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
    value, gradient = jax.lax.map(jax.value_and_grad(posterior.prior_log_density), thetas)
    return value, jax.vmap(tree.ravel)(gradient)


@compile_quickly
@exact
def _prior(posterior: Posterior, theta: PyTree) -> tuple[Array, Array, Array | None]:
    total = lambda x: posterior.prior_log_density(tree.unravel_like(x, theta))
    return _derivatives(total, tree.ravel(theta), hessian=True)


def _derivatives(
    f: Callable[[Array], Array], x: Float[Array, " d"], *, hessian: bool
) -> tuple[Array, Array, Array | None]:
    value, gradient = jax.value_and_grad(f)(x)
    if not hessian:
        return value, gradient, None
    column = lambda e: jax.jvp(jax.grad(f), (x,), (e,))[1]
    return value, gradient, jax.vmap(column)(jnp.eye(len(x), dtype=x.dtype))
