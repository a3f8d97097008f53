"""Temperatures from fresh gradients at the draws.

If the draws are right, cov(u.v, u.grad U(v)) = T for every direction u, whatever the posterior. The gradients here
come from batches that no chain has seen, so that their noise is independent of the draws: what is wrong with the
noise in the run, such as epochs without replacement or a covariance of the wrong rank, cannot hide itself.
"""

import dataclasses
from itertools import pairwise
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.plans import AllRows, WithReplacement
from isotherm.data.weighted import Weighted
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Minibatch
from isotherm.judging.estimate import Estimate, mean
from isotherm.kernel import Kernel
from isotherm.records import Needs

if TYPE_CHECKING:
    from isotherm.chains.setup import Setup
    from isotherm.draws import Draws

_DRAWS = 2000  # at which a gradient is taken
_NUMBERS = 2**26  # of positions and gradients
_DIRECTIONS = 8  # in which the gradient noise is largest
_CONTRASTS = 128  # from which those are found
_AT_ONCE = 2**14  # rows


@dataclasses.dataclass(frozen=True)
class Heat:
    """Temperature over target, less 1: of each coordinate, of each block of them, and where the noise is largest."""

    coordinates: Estimate
    blocks: Estimate
    directions: Estimate | None
    rows: int


def heat(draws: "Draws", setup: "Setup", *, effort: float, key: Key[Array, ""]) -> Heat:
    """From a gradient at some of the draws, of about as many rows in all as `effort` times those of the run."""
    chains = np.flatnonzero(draws.complete)
    v = positions(setup, some(draws, chains, setup.num_parameters))
    there = inside(v)
    v = jax.tree.map(lambda x: x[:, there], v)
    shape = jax.tree.leaves(v)[0].shape[:2]
    count = shape[0] * shape[1]
    spent = effort * draws.record.steps * len(chains) * setup.batch_size
    kernel, batches = _fresh(setup.kernel, int(spent / count))
    keys = jax.random.split(key, 3)
    data = kernel.minibatch.arrange(setup.problem.data, key=keys[0])
    flat = jax.tree.map(lambda x: x.reshape(count, *x.shape[2:]), v)
    g = _gradients(kernel, data, flat, jax.random.split(keys[1], count), jnp.asarray(batches))
    y = np.asarray(jax.vmap(tree.ravel)(flat), np.float64)
    g = np.asarray(jax.vmap(tree.ravel)(g), np.float64)
    y = _centred(y.reshape(*shape, -1)).reshape(count, -1)
    _, T = setup.sampler.numbers_at(draws.record.steps)
    excess = lambda a, b: (a * b / T - 1).reshape(*shape, -1)
    each = excess(y, g)
    bounds = np.cumsum([0, *(x[0].size for x in jax.tree.leaves(flat))])
    blocks = np.stack([each[..., a:b].mean(axis=2) for a, b in pairwise(bounds) if b > a], axis=2)
    u = _directions(_still(setup.kernel), setup.problem.data, flat, keys[2])
    directions = None if u is None else mean(excess(y @ u.T, g @ u.T))
    return Heat(mean(each), mean(blocks), directions, batches * kernel.batch_size)


def _centred(y: Float[np.ndarray, "chain draw d"]) -> Float[np.ndarray, "chain draw d"]:
    """Less the mean of the other chains: that of its own would take away a part of the variance."""
    chains, draws = y.shape[:2]
    own = y.mean(axis=1, keepdims=True)
    if chains == 1:
        return (y - own) * (draws / max(draws - 1, 1))
    return y - (own.sum(axis=0, keepdims=True) - own) / (chains - 1)


def some(draws: "Draws", chains: np.ndarray, size: int) -> PyTree[np.ndarray]:
    """Draws of these chains, evenly spaced."""
    most = max(1, min(_DRAWS, _NUMBERS // (2 * size)) // len(chains))
    index = np.unique(np.linspace(0, draws.num_draws - 1, min(most, draws.num_draws)).round().astype(int))
    return jax.tree.map(lambda x: x[np.ix_(chains, index)], draws.posterior)


def inside(v: PyTree[Array]) -> np.ndarray:
    """The numbers of the draws at which every chain has a position: one rounded onto its boundary has none."""
    finite = [
        np.isfinite(np.asarray(x)).reshape(*x.shape[:2], -1).all(axis=(0, 2)) for x in jax.tree.leaves(v)
    ]
    return np.flatnonzero(np.all(finite, axis=0))


def free(setup: "Setup", params: PyTree[np.ndarray]) -> PyTree[Array]:
    """Without constraints, from parameters as draws have them: leaves (chain, draw, ...)."""
    params, constraint = jax.tree.map(jnp.asarray, params), setup.kernel.constraint
    return params if constraint is None else jax.vmap(jax.vmap(constraint.free))(params)


def positions(setup: "Setup", params: PyTree[np.ndarray]) -> PyTree[Array]:
    """What the sampler moved, from parameters as draws have them: leaves (chain, draw, ...)."""
    theta, chart = free(setup, params), setup.kernel.preconditioner
    return theta if chart is None else jax.vmap(jax.vmap(chart.from_params))(theta)


def end_to_end(v: PyTree[Array], draws: np.ndarray) -> PyTree[Array]:
    """These draws of all chains, one chain after the other: leaves (m, ...)."""
    return jax.tree.map(lambda x: x[:, draws].reshape(x.shape[0] * len(draws), *x.shape[2:]), v)


def _fresh(kernel: Kernel, rows: int) -> tuple[Kernel, int]:
    """The same with batches that are independent of one another, and how many of them have about `rows` rows."""
    kernel = _still(kernel)
    plan = kernel.minibatch if isinstance(kernel.minibatch, Weighted | AllRows) else WithReplacement()
    size, batches = kernel.batch_size, 1
    if rows >= kernel.num_data and kernel.num_data <= _AT_ONCE and isinstance(kernel.gradient, Minibatch):
        plan, size = AllRows(), kernel.num_data
    elif not isinstance(plan, AllRows):
        batches = max(1, min(rows, kernel.num_data) // size)
    return Kernel(
        kernel.sampler, kernel.gradient, kernel.num_data, size, plan, kernel.preconditioner, kernel.constraint
    ), batches


def _still(kernel: Kernel) -> Kernel:
    """With plain gradients in place of those whose anchors went with the chains."""
    gradient = kernel.gradient
    if not isinstance(gradient, ControlVariate) or gradient.refresh is None:
        return kernel
    return eqx.tree_at(lambda k: k.gradient, kernel, Minibatch(gradient.posterior))


@eqx.filter_jit
def _gradients(
    kernel: Kernel, data: PyTree, positions: PyTree, keys: Key[Array, " m"], batches: Int[Array, ""]
) -> PyTree:
    """The gradient of U at each position, from some batches each."""

    def one(x: tuple[PyTree, Key[Array, ""]]) -> PyTree:
        position, key = x

        def force(i: Int[Array, ""]) -> PyTree:
            keys = jax.random.split(jax.random.fold_in(key, i), 3)
            batch = kernel.batch(data, i, key=keys[0], chain_key=keys[2])
            return kernel.estimate(position, batch, needs=Needs.NOTHING, key=keys[1]).force

        add = lambda i, total: jax.tree.map(jnp.add, total, force(i))
        total = jax.lax.fori_loop(0, batches, add, tree.zeros_like(position))
        return tree.multiply(-1.0 / batches, total)

    return jax.lax.map(one, (positions, keys))


def _directions(
    kernel: Kernel, data: PyTree, positions: PyTree[Array], key: Key[Array, ""]
) -> Float[np.ndarray, "k d"] | None:
    """Unit vectors along which batches of the run differ most, at a few of the draws."""
    size = tree.size(jax.tree.map(lambda x: x[0], positions))
    if size < 2 or kernel.batch_size < 2:
        return None
    total = jax.tree.leaves(positions)[0].shape[0]
    index = jnp.asarray(
        np.linspace(0, total - 1, min(_CONTRASTS, total, max(8, _NUMBERS // size))).astype(int)
    )
    data = kernel.minibatch.arrange(data, key=key)
    try:
        z = _contrasts(kernel, data, jax.tree.map(lambda x: x[index], positions), index, key)
    except NotImplementedError:  # by a gradient that a user wrote
        return None
    if z is None:
        return None
    z = np.asarray(z, np.float64)
    if not np.all(np.isfinite(z)) or not np.any(z):
        return None
    return np.linalg.svd(z, full_matrices=False)[2][: min(_DIRECTIONS, size - 1)]


@compile_quickly
def _contrasts(
    kernel: Kernel, data: PyTree, positions: PyTree, index: Int[Array, " m"], key: Key[Array, ""]
) -> Float[Array, "m d"] | None:
    def one(x: tuple[PyTree, Int[Array, ""]]) -> Float[Array, " d"] | None:
        position, i = x
        keys = jax.random.split(jax.random.fold_in(key, i), 3)
        batch = kernel.batch(data, jnp.zeros((), jnp.int32), key=keys[0], chain_key=keys[2])
        estimate = kernel.estimate(position, batch, needs=Needs(contrasts=1), key=keys[1])
        if estimate.contrasts is None:
            return None
        return tree.ravel(jax.tree.map(lambda c: c[0], estimate.contrasts))

    return jax.lax.map(one, (positions, index))
