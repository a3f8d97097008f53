"""Temperatures from fresh gradients at the draws.

If the draws are right, cov(u.v, u.grad U(v)) = T for every direction u, whatever the posterior. The gradients here
come from batches that no chain has seen, so their noise is independent of the draws. Faults in the treatment of noise
during the run, such as epochs without replacement or a covariance of too low a rank, therefore show.
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
from isotherm.chains.feed import fetched, most_lanes, most_steps
from isotherm.chains.resident import resident
from isotherm.compilation import compile_fully, compile_quickly
from isotherm.data.fed import Fed
from isotherm.data.plans import AllRows, WithReplacement
from isotherm.data.stream import Stream
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Minibatch
from isotherm.judging.estimate import Estimate, mean
from isotherm.kernel import Kernel
from isotherm.readable import Readable
from isotherm.records import Needs

if TYPE_CHECKING:
    from isotherm.chains.setup import Setup
    from isotherm.draws import Draws

_MAX_DRAWS = 2000  # draws at which a gradient is taken
_MAX_NUMBERS = 2**26  # in all positions and gradients together
_DIRECTIONS = 8  # leading directions of the gradient noise to check
_CONTRASTS = 128  # contrasts from which these directions are found
_MAX_ROWS_AT_ONCE = 2**14


@dataclasses.dataclass(frozen=True, repr=False)
class Heat(Readable):
    """Temperature over target, less 1: of coordinates, of blocks, and of the leading directions of the noise.

    `rows` is the number of rows behind each gradient.
    """

    coordinates: Estimate
    blocks: Estimate
    directions: Estimate | None
    rows: int


def heat(draws: "Draws", setup: "Setup", *, effort: float, key: Key[Array, ""]) -> Heat:
    """Return temperatures from fresh gradients at some of the draws.

    The gradients use about `effort` times as many rows in all as the run did.
    """
    chains = np.flatnonzero(draws.complete)
    v = positions(setup, some(draws, chains, setup.num_parameters))
    usable = inside(v)
    v = jax.tree.map(lambda x: x[:, usable], v)
    shape = jax.tree.leaves(v)[0].shape[:2]
    count = shape[0] * shape[1]
    budget = effort * draws.record.steps * len(chains) * setup.batch_size
    kernel, batches = _fresh(setup.kernel, int(budget / count))
    keys = jax.random.split(key, 3)
    data, position_keys = setup.problem.data, jax.random.split(keys[1], count)
    flat = jax.tree.map(lambda x: x.reshape(count, *x.shape[2:]), v)
    if isinstance(data, Stream):
        batches = min(batches, most_steps(kernel, data, count))
        g = _gradients_of_stream(kernel, data, flat, position_keys, batches)
    else:
        rows = kernel.minibatch.arrange(data, key=keys[0])
        g = _gradients(kernel, rows, flat, position_keys, None, jnp.asarray(batches))
    y = np.asarray(jax.vmap(tree.ravel)(flat), np.float64)
    g = np.asarray(jax.vmap(tree.ravel)(g), np.float64)
    y = _centred(y.reshape(*shape, -1)).reshape(count, -1)
    _, T = setup.sampler.numbers_at(draws.record.steps)
    excess = lambda a, b: (a * b / T - 1).reshape(*shape, -1)
    each = excess(y, g)
    bounds = np.cumsum([0, *(x[0].size for x in jax.tree.leaves(flat))])
    blocks = np.stack([each[..., a:b].mean(axis=2) for a, b in pairwise(bounds) if b > a], axis=2)
    u = _directions(_without_moving_anchors(setup.kernel), setup.problem.data, flat, keys[2])
    directions = None if u is None else mean(excess(y @ u.T, g @ u.T))
    return Heat(mean(each), mean(blocks), directions, batches * kernel.batch_size)


def _centred(y: Float[np.ndarray, "chain draw d"]) -> Float[np.ndarray, "chain draw d"]:
    """Return positions less the mean of the other chains.

    Subtracting the mean of the same chain would take away a part of the variance.
    """
    chains, draws = y.shape[:2]
    means = y.mean(axis=1, keepdims=True)
    if chains == 1:
        return (y - means) * (draws / max(draws - 1, 1))
    return y - (means.sum(axis=0, keepdims=True) - means) / (chains - 1)


def some(draws: "Draws", chains: np.ndarray, size: int) -> PyTree[np.ndarray]:
    """Return evenly spaced draws of these chains, as many as memory allows for `size` parameters."""
    most = max(1, min(_MAX_DRAWS, _MAX_NUMBERS // (2 * size)) // len(chains))
    index = np.unique(np.linspace(0, draws.num_draws - 1, min(most, draws.num_draws)).round().astype(int))
    return jax.tree.map(lambda x: x[np.ix_(chains, index)], draws.posterior)


def inside(v: PyTree[Array]) -> np.ndarray:
    """Return the indices of draws whose free parameters are finite in every chain: not so on a boundary."""
    finite = [
        np.isfinite(np.asarray(x)).reshape(*x.shape[:2], -1).all(axis=(0, 2)) for x in jax.tree.leaves(v)
    ]
    return np.flatnonzero(np.all(finite, axis=0))


def free(setup: "Setup", params: PyTree[np.ndarray]) -> PyTree[Array]:
    """Return the free parameters of draws whose leaves are (chain, draw, ...)."""
    params, constraint = jax.tree.map(jnp.asarray, params), setup.kernel.constraint
    return params if constraint is None else jax.vmap(jax.vmap(constraint.free))(params)


def positions(setup: "Setup", params: PyTree[np.ndarray]) -> PyTree[Array]:
    """Return the sampler's coordinates of draws whose leaves are (chain, draw, ...)."""
    theta, preconditioner = free(setup, params), setup.kernel.preconditioner
    return theta if preconditioner is None else jax.vmap(jax.vmap(preconditioner.from_params))(theta)


def end_to_end(v: PyTree[Array], draws: np.ndarray) -> PyTree[Array]:
    """Return these draws of all chains, one chain after the other: leaves (m, ...)."""
    return jax.tree.map(lambda x: x[:, draws].reshape(x.shape[0] * len(draws), *x.shape[2:]), v)


def _fresh(kernel: Kernel, rows: int) -> tuple[Kernel, int]:
    """Return the kernel with independent batches, and how many of them have about `rows` rows together."""
    kernel = _without_moving_anchors(kernel)
    keeps = kernel.minibatch.weighted or isinstance(kernel.minibatch, AllRows)
    plan = kernel.minibatch if keeps else WithReplacement()
    size, batches = kernel.batch_size, 1
    if (
        rows >= kernel.num_data
        and kernel.num_data <= _MAX_ROWS_AT_ONCE
        and isinstance(kernel.gradient, Minibatch)
    ):
        plan, size = AllRows(), kernel.num_data
    elif not isinstance(plan, AllRows):
        batches = max(1, min(rows, kernel.num_data) // size)
    return Kernel(
        kernel.sampler, kernel.gradient, kernel.num_data, size, plan, kernel.preconditioner, kernel.constraint
    ), batches


def _without_moving_anchors(kernel: Kernel) -> Kernel:
    """Return the kernel with plain gradients if its control variates have anchors that follow the chains."""
    gradient = kernel.gradient
    if not isinstance(gradient, ControlVariate) or gradient.refresh is None:
        return kernel
    return eqx.tree_at(lambda k: k.gradient, kernel, Minibatch(gradient.posterior))


def _gradients_of_stream(
    kernel: Kernel, data: Stream, positions: PyTree[Array], keys: Key[Array, " m"], batches: int
) -> PyTree:
    """Return what `_gradients` does, of as many positions at a time as memory allows for their rows."""
    without_plan = eqx.tree_at(lambda k: k.minibatch, kernel, WithReplacement())  # the feed takes its place
    at_once, parts = most_lanes(kernel, data), []
    for begin in range(0, len(keys), at_once):
        some = slice(begin, begin + at_once)
        rows, feed = fetched(kernel, data, keys[some], batches)
        place = jax.tree.map(lambda x, some=some: x[some], positions)
        parts.append(_gradients(without_plan, rows, place, keys[some], feed, jnp.asarray(batches)))
    return jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts)


@compile_fully
def _gradients(
    kernel: Kernel,
    data: PyTree,
    positions: PyTree,
    keys: Key[Array, " m"],
    feed: Fed | None,
    batches: Int[Array, ""],
) -> PyTree:
    """Return the gradient of U at each position, averaged over `batches` batches.

    Rows that are not in memory were fetched before, by the same keys: `feed` says where they are.
    """

    def one(x: tuple[PyTree, Key[Array, ""], Fed | None]) -> PyTree:
        position, key, fed = x
        drawing = kernel if fed is None else dataclasses.replace(kernel, minibatch=fed)

        def force(i: Int[Array, ""]) -> PyTree:
            keys = jax.random.split(jax.random.fold_in(key, i), 3)
            batch = drawing.batch(data, i, key=keys[0], chain_key=keys[2])
            return kernel.estimate(position, batch, needs=Needs.NOTHING, key=keys[1]).force

        add = lambda i, total: jax.tree.map(jnp.add, total, force(i))
        total = jax.lax.fori_loop(0, batches, add, tree.zeros_like(position))
        return tree.multiply(-1.0 / batches, total)

    return jax.lax.map(one, (positions, keys, feed))


def _directions(
    kernel: Kernel, data: PyTree | Stream, positions: PyTree[Array], key: Key[Array, ""]
) -> Float[np.ndarray, "k d"] | None:
    """Return unit vectors along which gradients of batches differ most, at a few of the draws."""
    size = tree.size(jax.tree.map(lambda x: x[0], positions))
    if size < 2 or kernel.batch_size < 2:
        return None
    total = jax.tree.leaves(positions)[0].shape[0]
    index = jnp.asarray(
        np.linspace(0, total - 1, min(_CONTRASTS, total, max(8, _MAX_NUMBERS // size))).astype(int)
    )
    kernel, data = resident(kernel, data, key=key)
    try:
        z = _contrasts(kernel, data, jax.tree.map(lambda x: x[index], positions), index, key)
    except NotImplementedError:  # raised by a user's gradient
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
    """Return one contrast at each position; `None` if the gradient provides none."""

    def one(x: tuple[PyTree, Int[Array, ""]]) -> Float[Array, " d"] | None:
        position, i = x
        keys = jax.random.split(jax.random.fold_in(key, i), 3)
        batch = kernel.batch(data, jnp.zeros((), jnp.int32), key=keys[0], chain_key=keys[2])
        estimate = kernel.estimate(position, batch, needs=Needs(contrasts=1), key=keys[1])
        if estimate.contrasts is None:
            return None
        return tree.ravel(jax.tree.map(lambda c: c[0], estimate.contrasts))

    return jax.lax.map(one, (positions, index))
