"""Diagonal and low-rank coordinates, for posteriors with many parameters or without a simple shape.

They come from the Fisher information of the rows and the curvature of the prior, averaged over a few points of the
posterior: a scale for each parameter, and the stiffest directions.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.fed import Pool
from isotherm.data.stream import Stream, num_rows, rows_in_memory
from isotherm.gradients.minibatch import Minibatch
from isotherm.posterior import Posterior
from isotherm.preconditioner import LowRankPreconditioner, Preconditioner
from isotherm.records import Needs
from isotherm.sums.fold import fold, largest_part, picked

_CONTRASTS, _EACH = 256, 16  # contrasts for the leading directions: in all, and per batch
_NUMBERS = 2**27  # most numbers in all contrasts together
_RANK = 32  # most directions
_ROWS, _MORE = 1024, 4096  # batch sizes for contrasts and for curvature
_PROBES = 4  # for the diagonal of the prior's Hessian; one is enough if that is diagonal
_PRODUCTS = 12  # power iterations for the largest curvature
_LEAST = 1e-6  # smallest curvature, relative to the mean


def sketch(
    posterior: Posterior, data: PyTree | Stream, points: PyTree[Array], *, key: Key[Array, ""]
) -> LowRankPreconditioner:
    """Return coordinates centred at the mean of `points`, which are stacked along a leading axis.

    Every row is used once, and some rows more often.
    """
    keys = jax.random.split(key, 2)
    count = jax.tree.leaves(points)[0].shape[0]
    thetas = [jax.tree.map(lambda x, i=i: x[i], points) for i in range(count)]
    # Every row is used, at one of the points, since a rare feature occurs in few rows.
    square = fold(_Squares(posterior), data, points, numbers_per_row=tree.size(thetas[0]))
    prior_keys = jax.random.split(keys[0], count)
    prior = [_prior_diagonal(posterior, theta, prior_keys[i]) for i, theta in enumerate(thetas)]
    prior = jax.tree.map(lambda *x: np.maximum(np.mean(np.asarray(x, np.float64), axis=0), 0), *prior)
    diagonal = jax.tree.map(np.add, square, prior)
    mean_curvature = sum(float(x.sum()) for x in jax.tree.leaves(diagonal)) / tree.size(thetas[0])
    center = jax.tree.map(lambda x: jnp.mean(x, axis=0), points)
    scale = jax.tree.map(
        lambda d, c: jnp.asarray(1 / np.sqrt(np.maximum(d, _LEAST * mean_curvature)), c.dtype),
        diagonal,
        center,
    )
    vectors, factors = _leading(posterior, data, thetas, scale, keys[1])
    return LowRankPreconditioner(center, scale, vectors, factors)


def stiffness(
    posterior: Posterior,
    data: PyTree | Stream,
    points: PyTree[Array],
    preconditioner: Preconditioner,
    *,
    key: Key[Array, ""],
) -> float:
    """Return the largest curvature of U in v at any of `points`, estimated from a few thousand rows."""
    rows = min(_MORE, largest_part(data))
    count = jax.tree.leaves(points)[0].shape[0]
    N, split = tree.as_ravelled(float(num_rows(data)), points), jax.random.split(key, count)
    values = _stiffest(posterior, rows_in_memory(data), N, points, preconditioner, split, rows)
    return float(np.max(np.asarray(values)))


def stiffness_passes(points: int, num_data: int) -> float:
    """Return the cost of `stiffness` at this many points, in passes over the data."""
    return _PRODUCTS * points * min(_MORE, num_data) / num_data


class _Squares(eqx.Module):
    """The sum of the squared gradients of the rows of a block. Point k serves rows k, k + m, k + 2 m, ... of it."""

    posterior: Posterior

    def __call__(self, rows: PyTree, valid: Bool[Array, " n"], points: PyTree[Array]) -> PyTree:
        m, n = jax.tree.leaves(points)[0].shape[0], len(valid)
        rows = jax.tree.map(lambda x: _in_turn(x, n, m), rows)
        counted = jnp.pad(valid, (0, -n % m)).reshape(-1, m).T

        def of_point(theta: PyTree, rows: PyTree, counted: Bool[Array, " k"]) -> PyTree:
            gradients = jax.vmap(jax.grad(self.posterior.one_log_likelihood), in_axes=(None, 0))(theta, rows)
            return jax.tree.map(lambda g: jnp.tensordot(counted.astype(g.dtype), g * g, 1), gradients)

        parts = jax.lax.map(lambda x: of_point(*x), (points, rows, counted))
        return jax.tree.map(lambda x: jnp.sum(x, axis=0), parts)


def _in_turn(x: Array, n: int, m: int) -> Array:
    """Return n rows dealt out to m groups, the last ones filled up with copies: (group, row, ...)."""
    filled = jnp.concatenate([x, jnp.broadcast_to(x[-1:], (-n % m, *x.shape[1:]))])
    return jnp.swapaxes(filled.reshape(-1, m, *x.shape[1:]), 0, 1)


@compile_quickly
def _prior_diagonal(posterior: Posterior, theta: PyTree, key: Key[Array, ""]) -> PyTree:
    slope = jax.grad(lambda x: -posterior.prior_log_density(x))

    def probe(key: Key[Array, ""]) -> PyTree:
        z = jax.tree.map(lambda x: jnp.where(x > 0, 1, -1).astype(x.dtype), tree.normal_like(theta, key=key))
        return jax.tree.map(jnp.multiply, z, jax.jvp(slope, (theta,), (z,))[1])

    estimates = jax.vmap(probe)(jax.random.split(key, _PROBES))
    return jax.tree.map(lambda x: jnp.mean(x, axis=0), estimates)


def _leading(
    posterior: Posterior, data: PyTree | Stream, points: list[PyTree], scale: PyTree, key: Key[Array, ""]
) -> tuple[PyTree[Array], Float[Array, " k"]]:
    """Return orthonormal directions from one half of the contrasts, and 1/sqrt of the curvature from the other."""
    size, rows = tree.size(scale), min(_ROWS, largest_part(data))
    batches = max(2, min(_CONTRASTS, _NUMBERS // size) // _EACH)
    stack = jax.tree.map(lambda *x: jnp.stack(x), *[points[i % len(points)] for i in range(batches)])
    z = _contrasts(
        posterior, rows_in_memory(data), stack, scale, jax.random.split(key, batches), rows, num_rows(data)
    )
    half = batches // 2 * _EACH
    first, second = jax.tree.map(lambda x: x[:half], z), jax.tree.map(lambda x: x[half:], z)
    gram = np.asarray(tree.grams(first, first), np.float64)
    values, weights = np.linalg.eigh(gram)
    rank = max(1, min(_RANK, size // 2, half // 4))
    values, weights = np.maximum(values[::-1][:rank], 1e-30), weights[:, ::-1][:, :rank]
    vectors = tree.combine(jnp.asarray((weights / np.sqrt(values)).T, float), first)
    along = np.asarray(tree.grams(second, vectors), np.float64)
    curvature = np.maximum(np.mean(along**2, axis=0), 1.0)
    return vectors, jnp.asarray(1 / np.sqrt(curvature), jax.tree.leaves(scale)[0].dtype)


@compile_quickly
def _contrasts(
    posterior: Posterior,
    data: PyTree,
    points: PyTree,
    scale: PyTree,
    keys: Key[Array, " b"],
    rows: int,
    num_data: int,
) -> PyTree:
    """Return vectors whose second moment is the Fisher information of N rows, in units of `scale`."""
    gradient, plan = Minibatch(posterior), Pool(None)

    def one(x: tuple[PyTree, Key[Array, ""]]) -> PyTree:
        theta, key = x
        batch_key, gradient_key = jax.random.split(key)
        step = jnp.zeros((), jnp.int32)
        batch = plan.batch(data, step, num_data=num_data, batch_size=rows, key=batch_key, chain_key=batch_key)
        contrasts = gradient(theta, batch, needs=Needs(contrasts=_EACH), key=gradient_key).contrasts
        # Their covariance is C = (N^2 / n) V, and the Fisher information about N V.
        return jax.vmap(lambda z: tree.multiply((rows / num_data) ** 0.5, tree.multiply(scale, z)))(contrasts)

    z = jax.lax.map(one, (points, keys))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), z)


@compile_quickly
def _stiffest(
    posterior: Posterior,
    data: PyTree,
    num_data: Float[Array, ""],
    points: PyTree,
    preconditioner: Preconditioner,
    keys: Key[Array, " points"],
    rows: int,
) -> Float[Array, " points"]:
    in_memory = jax.tree.leaves(data)[0].shape[0]

    def one(x: tuple[PyTree, Key[Array, ""]]) -> Float[Array, ""]:
        theta, key = x
        first, second = jax.random.split(key)
        index = jax.random.choice(first, in_memory, (rows,), replace=rows > in_memory)
        batch = picked(data, index)

        def u(y: PyTree) -> Array:
            return -posterior.prior_log_density(y) - num_data / rows * jnp.sum(
                posterior.row_log_likelihoods(y, batch)
            )

        def product(v: PyTree) -> PyTree:
            turned = jax.jvp(jax.grad(u), (theta,), (preconditioner.multiply(v),))[1]
            return preconditioner.multiply_transposed(turned)

        def step(_: Int[Array, ""], carry: tuple[PyTree, Array]) -> tuple[PyTree, Array]:
            v, _ = carry
            w = product(v)
            length = jnp.sqrt(tree.dot(w, w))
            return tree.divide(w, jnp.maximum(length, 1e-30)), length

        v = tree.normal_like(theta, key=second)
        v = tree.divide(v, jnp.sqrt(tree.dot(v, v)))
        return jax.lax.fori_loop(0, _PRODUCTS, step, (v, jnp.zeros((), tree.dot(v, v).dtype)))[1]

    return jax.lax.map(one, (points, keys))
