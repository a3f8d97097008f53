"""Search for a tail that the chains miss, one parameter at a time.

If the log-density drops by only a few units over many standard deviations of the draws, some draws should be that far
out. If none are, something holds the chains back. The usual cause is control variates: far from their anchor they are
unbiased, but almost every single estimate is far off.
"""

import dataclasses
import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_fully
from isotherm.data.stream import Stream, num_rows, picked, rows_in_memory
from isotherm.judging.heat import end_to_end, free, inside, some
from isotherm.posterior import Posterior
from isotherm.readable import Readable
from isotherm.sums.fold import largest_part
from isotherm.sums.totals import derivatives
from isotherm.tuning.tails import holds

if TYPE_CHECKING:
    from isotherm.chains.setup import Setup
    from isotherm.draws import Draws

_FAR = 5.0  # distance probed, in sd; the log-density of a normal distribution drops by 12.5
_DROP, _ERRORS = 4.0, 4.0  # a tail drops by less than this, in units of T, by so many standard errors
_SHARE = 0.02  # share of the draws expected farther out if U does not rise at all
_ROWS = (4096, 2**17)  # rows used in the first and in the second round
_MAX_PARAMETERS = 500  # parameters probed
_SECOND_ROUND = 8  # candidates probed again with more rows


@dataclasses.dataclass(frozen=True, repr=False)
class MissedTail(Readable):
    """A point that some draws should have reached.

    `theta` are its free parameters, `index` the one that is far out, and `rise` how much U / T rises from the centre
    of the draws.
    """

    theta: PyTree[np.ndarray]
    index: int
    rise: float


def missed_tail(draws: "Draws", setup: "Setup", *, key: Key[Array, ""]) -> MissedTail | None:
    """Return the likeliest point far out in one parameter, if far too few draws are as far out.

    Returns `None` if rounding of the rows could hide the rise of U, or if the gradient has no `Posterior`.
    """
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
    probed = np.sort(rng.choice(size, min(size, _MAX_PARAMETERS), replace=False))
    index, sign = np.repeat(probed, 2), np.tile([-1.0, 1.0], len(probed))
    farther = np.mean(sign[:, None] * ((cloud - center) / sd)[:, index].T > _FAR, axis=1)
    like = jax.tree.map(lambda x: x[0, 0], seen)
    theta = tree.unravel_like(jnp.asarray(center, tree.ravel(like).dtype), like)
    value, gradient, _ = derivatives(posterior, setup.problem.data, theta)
    _, T = setup.sampler.numbers_at(draws.record.steps)
    if not holds(float(value), T, theta):
        return None
    step = sign * _FAR * sd[index]
    rise = error = np.zeros(0)
    for count in _ROWS:  # all points with few rows, then the candidates with more
        rise, error = _rise(posterior, setup.problem.data, theta, index, step, gradient, count, rng)
        candidates = np.argsort(rise)[:_SECOND_ROUND]
        candidates = candidates[rise[candidates] - _ERRORS * error[candidates] < _DROP * T]
        if len(candidates) == 0:
            return None
        index, step, farther, rise, error = (x[candidates] for x in (index, step, farther, rise, error))
    bound = rise + _ERRORS * error
    i = int(np.argmin(bound))
    if not (bound[i] < _DROP * T and farther[i] < _SHARE * math.exp(-max(bound[i], 0.0) / T)):
        return None
    point = tree.ravel(theta).at[index[i]].add(float(step[i]))
    return MissedTail(
        jax.tree.map(np.asarray, tree.unravel_like(point, like)), int(index[i]), float(rise[i]) / T
    )


def _rise(
    posterior: Posterior,
    data: PyTree | Stream,
    theta: PyTree,
    index: np.ndarray,
    step: np.ndarray,
    gradient: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rise of U along each step, and its error.

    The linear part is that of all rows, `gradient`. The rest is measured on `count` rows, hence the error.
    """
    N, in_memory = num_rows(data), largest_part(data)
    m = min(in_memory, count)
    rows = picked(rows_in_memory(data), np.sort(rng.choice(in_memory, m, replace=False)))
    moves = jnp.asarray(step, tree.ravel(theta).dtype)
    rest, prior = (
        np.asarray(x, np.float64) for x in _along(posterior, theta, jnp.asarray(index), moves, rows)
    )
    rise = -(N * rest.mean(axis=1) + gradient[index] * step + prior)
    return np.where(np.isfinite(rise), rise, np.inf), N * rest.std(axis=1) * math.sqrt((1 - m / N) / m)


@compile_fully
def _along(
    posterior: Posterior, theta: PyTree, index: Int[Array, " k"], step: Float[Array, " k"], rows: PyTree
) -> tuple[Float[Array, "k m"], Float[Array, " k"]]:
    """Return the change of each row's log-likelihood beyond first order, and that of the log-prior, for each step."""
    center = tree.ravel(theta)
    f = lambda x: posterior.row_log_likelihoods(tree.unravel_like(x, theta), rows)
    g = lambda x: posterior.prior_log_density(tree.unravel_like(x, theta))

    def one(where: tuple[Array, Array]) -> tuple[Array, Array]:
        move = jnp.zeros_like(center).at[where[0]].set(where[1])
        value, slope = jax.jvp(f, (center,), (move,))
        return f(center + move) - value - slope, g(center + move) - g(center)

    return jax.lax.map(one, (index, step))
