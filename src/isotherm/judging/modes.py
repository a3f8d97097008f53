"""Search for modes that no chain has visited.

Optimisation runs from distant starting points, and from the draws nearest to each end point. Two end points are
different modes if the log-density drops on the straight line between them. Their shares of the posterior come from
normal approximations at both or, with too many parameters for a Hessian, from their heights alone.
"""

import dataclasses
import functools
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
from isotherm.tuning.descent import descend
from isotherm.tuning.newton import Point, climb

if TYPE_CHECKING:
    from isotherm.chains.setup import Setup
    from isotherm.draws import Draws

_STARTS = 8
_BATCH_SIZE, _STEPS = 64, (1000, 4000)  # of the optimiser; fewest and most steps
_FAR = 20.0  # distance of half of the starts, in sd; the others are as far away as the parameters are large
_COMPARED_ROWS = 4096  # rows by which log-densities are compared
_CLOSE = 20  # candidate draws among which the nearest to an end point is chosen
_LINE = np.linspace(0.0, 1.0, 17)  # points between two ends at which the log-density is evaluated
_VALLEY, _ERRORS = (
    3.0,
    4.0,
)  # least depth of a valley, in units of T, after so many standard errors are taken off
_MAX_HESSIAN = 1000  # parameters up to which a Hessian is computed
_MIN_SHARE = 0.01  # least share of the posterior for which a mode is reported
_NEAR = 1.0  # distance from a mode, in sd, at which Newton's method has converged


@dataclasses.dataclass(frozen=True, repr=False)
class Mode(Readable):
    """A mode that no chain has visited.

    `theta` are its free parameters, and `share` is its share of the probability of itself and the mode of the draws.
    """

    theta: PyTree[np.ndarray]
    share: float


def other_modes(
    draws: "Draws", setup: "Setup", *, effort: float, key: Key[Array, ""]
) -> tuple[Mode, ...] | None:
    """Return the modes that matter and that no chain has visited, largest first.

    `None` if the gradient has no `Posterior` to search.
    """
    posterior = getattr(setup.kernel.gradient, "posterior", None)
    if not isinstance(posterior, Posterior):
        return None
    chains, size = np.flatnonzero(draws.complete), setup.num_parameters
    seen = free(setup, some(draws, chains, size))
    usable = inside(seen)
    if len(usable) < 2:
        return None
    seen = end_to_end(seen, usable)
    like = jax.tree.map(lambda x: x[0], seen)
    cloud = np.asarray(jax.vmap(tree.ravel)(seen), np.float64)
    sd = np.maximum(cloud.std(axis=0), 1e-300)
    keys = jax.random.split(key, 4)
    budget = effort * draws.record.steps * len(chains) * setup.batch_size
    n = min(_BATCH_SIZE, setup.kernel.num_data)
    steps = int(np.clip(budget / (2 * _STARTS * n), *_STEPS))
    optimise = functools.partial(descend, posterior, setup.problem.data, steps=steps, batch_size=n)
    flat = lambda points: np.asarray(jax.vmap(tree.ravel)(points), np.float64)
    ends = flat(optimise(_starts(seen, keys[0]), key=keys[1]))
    ends = ends[np.all(np.isfinite(ends), axis=1)]
    if len(ends) == 0:
        return ()
    near = np.array(
        [_nearest((cloud - cloud.mean(axis=0)) / sd, (end - cloud.mean(axis=0)) / sd) for end in ends]
    )
    nearest = jax.tree.map(lambda x: x[np.resize(near, _STARTS)], seen)
    homes = flat(optimise(nearest, key=keys[2]))[: len(ends)]
    rng = np.random.default_rng(int(jax.random.key_data(keys[3])[-1]))
    _, T = setup.sampler.numbers_at(draws.record.steps)
    comparison = _Comparison(posterior, setup.problem.data, like, T, rng)
    modes: list[Mode] = []
    for end, home in zip(ends, homes, strict=True):
        mode = comparison.mode(end, home)
        if mode is not None and mode.share > _MIN_SHARE and all(_apart(mode, other, sd) for other in modes):
            modes.append(mode)
    return tuple(sorted(modes, key=lambda m: -m.share))


def _starts(seen: PyTree[Array], key: Key[Array, ""]) -> PyTree[Array]:
    """Return distant starting points.

    The first is the mirror image of the mean. The others are random, alternately many sd away and as far away as the
    parameters are large.
    """
    center, sd = (jax.tree.map(lambda x, f=f: f(x, axis=0), seen) for f in (jnp.mean, jnp.std))

    def one(key: Key[Array, ""], i: Int[Array, ""]) -> PyTree[Array]:
        def start(x: Array, s: Array, z: Array) -> Array:
            large = jnp.maximum(1.0, jnp.sqrt(jnp.mean(x * x)))
            return jnp.where(i == 0, -x, x + z * jnp.where(i % 2 == 0, large, _FAR * s))

        return jax.tree.map(start, center, sd, tree.normal_like(center, key=key))

    return jax.vmap(one)(jax.random.split(key, _STARTS), jnp.arange(_STARTS))


def _nearest(cloud: Float[np.ndarray, "m d"], end: Float[np.ndarray, " d"]) -> int:
    """Return the index of the draw nearest to `end` among those that are about as far in its direction.

    Two modes may differ in a few of many parameters, which distances over all of them would not show.
    """
    along = np.abs(cloud @ end - end @ end)
    close = np.argsort(along)[: max(_CLOSE, len(cloud) // 50)]
    return int(close[np.argmin(np.sum((cloud[close] - end) ** 2, axis=1))])


def _apart(a: Mode, b: Mode, sd: Float[np.ndarray, " d"]) -> bool:
    x, y = (np.concatenate([np.ravel(v) for v in jax.tree.leaves(m.theta)]) for m in (a, b))
    return bool(np.max(np.abs(x - y) / sd) > _FAR / 2)


class _Comparison:
    """Comparison of log-densities at different points, by a random subset of the rows."""

    def __init__(
        self, posterior: Posterior, data: PyTree | Stream, like: PyTree, T: float, rng: np.random.Generator
    ) -> None:
        self.posterior, self.data, self.like, self.T = posterior, data, like, T
        self.num_data, in_memory = num_rows(data), largest_part(data)
        size = min(_COMPARED_ROWS, in_memory)
        index = np.sort(rng.choice(in_memory, size, replace=False))
        self.rows, self.left_out = picked(rows_in_memory(data), index), 1 - size / self.num_data

    def mode(self, end: Float[np.ndarray, " d"], home: Float[np.ndarray, " d"]) -> Mode | None:
        """Return the mode at `end`, or `None` if it is that of `home`, where optimisation from the draws ended."""
        height = self._valley(end, home)
        if height is None:
            return None
        if len(end) > _MAX_HESSIAN:
            return self._record(end, height)
        peak, home_peak = self._peak(end), self._peak(home)
        if peak is None or home_peak is None:
            return self._record(end, height)
        a, b = (np.asarray(tree.ravel(p.theta), np.float64) for p in (peak, home_peak))
        height, weights = self._valley(a, b), [self._log_weight(p) for p in (peak, home_peak)]
        if height is None or weights[0] is None:  # both are the same mode, or the new one is a saddle
            return None
        return self._record(a, height if weights[1] is None else weights[0] - weights[1])

    def _peak(self, start: Float[np.ndarray, " d"]) -> Point | None:
        """Return the mode that Newton's method reaches from `start`; `None` if it does not converge."""
        try:
            climbed = climb(self.posterior, self.data, self._tree(start), key=jax.random.key(0))
        except (ValueError, np.linalg.LinAlgError):
            return None
        return climbed.point if climbed.distance < _NEAR * self.T**0.5 else None

    def _log_weight(self, point: Point) -> float | None:
        """Return the log-weight of the normal approximation at `point`: -U / T - log |H / T| / 2.

        The Hessian is with respect to v, so that the volume of its coordinates is added.
        """
        values = np.linalg.eigvalsh(point.hessian / self.T)
        volume = np.linalg.slogdet(np.asarray(point.frame.root, np.float64)).logabsdet
        return (
            float(volume - point.value / self.T - np.sum(np.log(values)) / 2) if np.all(values > 0) else None
        )

    def _record(self, end: Float[np.ndarray, " d"], log_odds: float) -> Mode:
        return Mode(jax.tree.map(np.asarray, self._tree(end)), 1 / (1 + math.exp(min(700.0, -log_odds))))

    def _valley(self, end: Float[np.ndarray, " d"], home: Float[np.ndarray, " d"]) -> float | None:
        """Return the height of `end` above `home`, in units of T; `None` if there is no valley between them."""
        line = end + _LINE[:, None] * (home - end)
        (from_end, end_error), (from_home, home_error) = self._compared(line), self._compared(line[::-1])
        if not np.isfinite(from_end[-1]):
            return None
        drops = -from_end - _ERRORS * end_error, (-from_home - _ERRORS * home_error)[::-1]
        depth = np.nanmax(np.minimum(*(np.where(np.isnan(x), np.inf, x) for x in drops)))
        return -float(from_end[-1]) / self.T if depth > _VALLEY * self.T else None

    def _compared(self, points: Float[np.ndarray, "m d"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density at each point less that at the first, with the error from using some rows only."""
        x = jnp.asarray(points, tree.ravel(self.like).dtype)
        rows, prior = (np.asarray(v, np.float64) for v in _densities(self.posterior, self.like, x, self.rows))
        change, m = rows - rows[0], rows.shape[1]
        error = self.num_data * change.std(axis=1) * math.sqrt(self.left_out / m)
        return self.num_data * change.mean(axis=1) + prior - prior[0], error

    def _tree(self, x: Float[np.ndarray, " d"]) -> PyTree[Array]:
        return tree.unravel_like(jnp.asarray(x, tree.ravel(self.like).dtype), self.like)


@compile_fully
def _densities(
    posterior: Posterior, like: PyTree, points: Float[Array, "m d"], rows: PyTree
) -> tuple[Float[Array, "m n"], Float[Array, " m"]]:
    """Return the log-likelihood of each row and the log-prior, at each point."""

    def one(x: Float[Array, " d"]) -> tuple[Array, Array]:
        theta = tree.unravel_like(x, like)
        return posterior.row_log_likelihoods(theta, rows), posterior.prior_log_density(theta)

    return jax.lax.map(one, points)
