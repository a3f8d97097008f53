"""Whether the posterior reaches farther than the draws do, one parameter at a time.

Where it falls by less than a few units of log-density over many standard deviations of the draws, there must be draws
out there, and if there are none, something keeps the chains from going: above all control variates, which far from
their anchor are right on average and hardly ever otherwise.
"""

import dataclasses
import math
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.judging.heat import end_to_end, free, inside, some
from isotherm.posterior import Posterior
from isotherm.sums import passes

if TYPE_CHECKING:
    from isotherm.chains.setup import Setup
    from isotherm.draws import Draws

_FAR = 5.0  # standard deviations; a normal distribution falls by 12.5 there
_DROP, _ERRORS = 4.0, 4.0  # less than this, in units of T, beyond so many standard errors
_SHARE = 0.02  # of the draws that should be farther out, where U does not rise at all
_ROWS, _PARAMETERS = (4096, 2**17), 500  # that are looked at
_SECOND = 8  # places that are looked at again


@dataclasses.dataclass(frozen=True)
class Beyond:
    """A place that draws should have come to: free parameters, which of them is far out, and how little U rises."""

    theta: PyTree[np.ndarray]
    index: int
    rise: float


def beyond(draws: "Draws", setup: "Setup", *, key: Key[Array, ""]) -> Beyond | None:
    """The likeliest of the places far out in one parameter, if far fewer draws came as far than should."""
    posterior = getattr(setup.kernel.gradient, "posterior", None)
    if not isinstance(posterior, Posterior):
        return None
    size = setup.num_parameters
    seen = free(setup, some(draws, np.flatnonzero(draws.complete), size))
    cloud = np.asarray(jax.vmap(tree.ravel)(end_to_end(seen, inside(seen))), np.float64)
    if len(cloud) < 2 or size == 0:
        return None
    center, sd = cloud.mean(axis=0), np.maximum(cloud.std(axis=0), 1e-300)
    rng = np.random.default_rng(int(jax.random.key_data(key)[-1]))
    own = np.sort(rng.choice(size, min(size, _PARAMETERS), replace=False))
    index, sign = np.repeat(own, 2), np.tile([-1.0, 1.0], len(own))
    there = np.mean(sign[:, None] * ((cloud - center) / sd)[:, index].T > _FAR, axis=1)
    like = jax.tree.map(lambda x: x[0, 0], seen)
    theta = tree.unravel_like(jnp.asarray(center, tree.ravel(like).dtype), like)
    value, gradient, _ = passes.sums(posterior, setup.problem.data, theta, order=1)
    _, T = setup.sampler.numbers_at(draws.record.steps)
    if not passes.holds(float(value), T, theta):
        return None
    step = sign * _FAR * sd[index]
    rise = error = np.zeros(0)
    for count in _ROWS:  # a few of all, and then more of those that are in question
        rise, error = _rise(posterior, setup.problem.data, theta, index, step, gradient, count, rng)
        near = np.argsort(rise)[:_SECOND]
        near = near[rise[near] - _ERRORS * error[near] < _DROP * T]
        if len(near) == 0:
            return None
        index, step, there, rise, error = (x[near] for x in (index, step, there, rise, error))
    surely = rise + _ERRORS * error
    i = int(np.argmin(surely))
    if not (surely[i] < _DROP * T and there[i] < _SHARE * math.exp(-max(surely[i], 0.0) / T)):
        return None
    at = tree.ravel(theta).at[index[i]].add(float(step[i]))
    return Beyond(jax.tree.map(np.asarray, tree.unravel_like(at, like)), int(index[i]), float(rise[i]) / T)


def _rise(
    posterior: Posterior,
    data: PyTree,
    theta: PyTree,
    index: np.ndarray,
    step: np.ndarray,
    gradient: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """By how much U rises with each step, and the error from looking at so many rows for what is not linear in it."""
    N = jax.tree.leaves(data)[0].shape[0]
    m = min(N, count)
    rows = passes.picked(data, jnp.asarray(np.sort(rng.choice(N, m, replace=False)), jnp.int32))
    moves = jnp.asarray(step, tree.ravel(theta).dtype)
    rest, prior = (
        np.asarray(x, np.float64) for x in _along(posterior, theta, jnp.asarray(index), moves, rows)
    )
    rise = -(N * rest.mean(axis=1) + gradient[index] * step + prior)
    return np.where(np.isfinite(rise), rise, np.inf), N * rest.std(axis=1) * math.sqrt((1 - m / N) / m)


@eqx.filter_jit
def _along(
    posterior: Posterior, theta: PyTree, index: Int[Array, " k"], step: Float[Array, " k"], rows: PyTree
) -> tuple[Float[Array, "k m"], Float[Array, " k"]]:
    """What the log-likelihood of each row changes by, less what its gradient says; and by what the log-prior does."""
    center = tree.ravel(theta)
    f = lambda x: posterior.row_log_likelihoods(tree.unravel_like(x, theta), rows)
    g = lambda x: posterior.prior_log_density(tree.unravel_like(x, theta))

    def one(where: tuple[Array, Array]) -> tuple[Array, Array]:
        move = jnp.zeros_like(center).at[where[0]].set(where[1])
        value, slope = jax.jvp(f, (center,), (move,))
        return f(center + move) - value - slope, g(center + move) - g(center)

    return jax.lax.map(one, (index, step))
