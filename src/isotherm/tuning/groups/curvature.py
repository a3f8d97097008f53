"""U and its largest curvature at points of the posterior, in coordinates where the curvature is about 1."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.sums.fold import fold
from isotherm.sums.points import at_each, padded
from isotherm.sums.precision import exact

POINTS = 12  # up to this many share one compiled program
_ITERATIONS = 12


def largest_curvature(
    posterior: Posterior, data: PyTree, frame: Preconditioner, points: Float[np.ndarray, "m d"], *, seed: int
) -> tuple[float, float]:
    """Return the largest eigenvalue of the Hessian of U at points of v by Lanczos' method, and its passes."""
    size, count = tree.size(frame.center), len(points)
    rng = np.random.default_rng(seed)
    stacked, number = padded(tree.put_like(points, frame.center), POINTS)
    thetas = _params(frame, stacked, number)
    basis = [_unit(rng.standard_normal((count, size)))]
    diagonal, side = [], []
    for i in range(min(_ITERATIONS, size)):
        directions = _directions(frame, padded(tree.put_like(basis[-1], frame.center), POINTS)[0], number)
        rows = fold(_Products(posterior), data, thetas, directions, number)
        prior = _prior_products(posterior, thetas, directions, number)
        total = jax.tree.map(lambda a, b: -(np.asarray(a) + np.asarray(b, np.float64)), rows, prior)
        total = jax.tree.map(lambda x, like: tree.put(x, like.dtype), total, thetas)
        product = tree.flat_rows(_pulled(frame, total, number))[:count]
        diagonal.append(np.sum(product * basis[-1], axis=1))
        for _ in range(2):  # against all vectors before, twice: rounding would bring eigenvalues back
            for vector in basis:
                product = product - np.sum(product * vector, axis=1, keepdims=True) * vector
        length = np.linalg.norm(product, axis=1)
        side.append(length)
        if not np.all(length > 1e-6) or i + 1 == size:
            break
        basis.append(product / length[:, None])
    found = []
    for k in range(count):
        a, b = np.array(diagonal)[:, k], np.array(side)[: len(diagonal) - 1, k]
        matrix = np.diag(a) + np.diag(b, 1) + np.diag(b, -1)
        if np.all(np.isfinite(matrix)):
            found.append(np.linalg.eigvalsh(matrix))
    passes = 2.0 * count * len(diagonal)
    return max((float(x[-1]) for x in found), default=1.0), passes


def log_densities(
    posterior: Posterior, data: PyTree, frame: Preconditioner, points: Float[np.ndarray, "m d"]
) -> Float[np.ndarray, " m"]:
    """Return the log-density at points of v."""
    stacked, number = padded(tree.put_like(points, frame.center), POINTS)
    thetas = _params(frame, stacked, number)
    prior = np.asarray(_prior_values(posterior, thetas, number), np.float64)
    return (fold(_Values(posterior), data, thetas, number) + prior)[: len(points)]


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class _Values(eqx.Module):
    """The log-likelihood of a block at each of some points."""

    posterior: Posterior

    @exact
    def __call__(
        self, rows: PyTree, valid: Bool[Array, " n"], thetas: PyTree, count: Int[Array, ""]
    ) -> Float[Array, " m"]:
        total = lambda theta: jnp.sum(jnp.where(valid, self.posterior.row_log_likelihoods(theta, rows), 0))
        return at_each(total, thetas, count)


class _Products(eqx.Module):
    """The Hessian of the log-likelihood of a block times a direction, at each of some points."""

    posterior: Posterior

    @exact
    def __call__(
        self,
        rows: PyTree,
        valid: Bool[Array, " n"],
        thetas: PyTree,
        directions: PyTree,
        count: Int[Array, ""],
    ) -> PyTree:
        total = lambda theta: jnp.sum(jnp.where(valid, self.posterior.row_log_likelihoods(theta, rows), 0))
        return at_each(lambda x: jax.jvp(jax.grad(total), x[:1], x[1:])[1], (thetas, directions), count)


@compile_quickly
def _prior_products(
    posterior: Posterior, thetas: PyTree, directions: PyTree, count: Int[Array, ""]
) -> PyTree[Array]:
    f = jax.grad(posterior.prior_log_density)
    return at_each(lambda x: jax.jvp(f, x[:1], x[1:])[1], (thetas, directions), count)


@compile_quickly
def _prior_values(posterior: Posterior, thetas: PyTree, count: Int[Array, ""]) -> Float[Array, " m"]:
    return at_each(posterior.prior_log_density, thetas, count)


@compile_quickly
def _params(frame: Preconditioner, v: PyTree, count: Int[Array, ""]) -> PyTree:
    return at_each(frame.to_params, v, count)


@compile_quickly
def _directions(frame: Preconditioner, v: PyTree, count: Int[Array, ""]) -> PyTree:
    return at_each(frame.multiply, v, count)


@compile_quickly
def _pulled(frame: Preconditioner, x: PyTree, count: Int[Array, ""]) -> PyTree:
    return at_each(frame.multiply_transposed, x, count)
