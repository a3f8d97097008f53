"""Modes that no chain has visited: ways downhill from places far off, and from the draws nearest to where they end.

Two ends are two modes where the log-density falls on the straight line between them. Their shares of the posterior
are told by normal approximations around both or, where there are too many parameters for that, by their heights.
"""

import dataclasses
import functools
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
from isotherm.tuning.descent import descend
from isotherm.tuning.newton import Point, climb

if TYPE_CHECKING:
    from isotherm.chains.setup import Setup
    from isotherm.draws import Draws

_WAYS = 8
_ROWS, _STEPS = 64, (1000, 4000)  # of a way downhill
_FAR = 20.0  # standard deviations of half of the starts; the others are as far as the parameters are large
_LOOKED_AT = 4096  # rows by which places are compared
_CLOSE = 20  # draws of which the nearest to an end is taken
_PLACES = np.linspace(0.0, 1.0, 17)  # on the way from an end to the nearest draw
_VALLEY, _ERRORS = 3.0, 4.0  # how deep, in units of T and of standard errors
_LARGEST = 1000  # parameters whose Hessian is not too large
_SHARE = 0.01  # of the posterior that a mode must have to be told
_NEAR = 1.0  # standard deviations from a mode at which Newton's method has found it


@dataclasses.dataclass(frozen=True)
class Mode:
    """A mode away from the draws, in free parameters, and its share of the posterior of it and the draws' own."""

    theta: PyTree[np.ndarray]
    share: float


def elsewhere(
    draws: "Draws", setup: "Setup", *, effort: float, key: Key[Array, ""]
) -> tuple[Mode, ...] | None:
    """Other modes that matter, the largest first; `None` if the gradient does not tell its posterior."""
    posterior = getattr(setup.kernel.gradient, "posterior", None)
    if not isinstance(posterior, Posterior):
        return None
    chains, size = np.flatnonzero(draws.complete), setup.num_parameters
    seen = free(setup, some(draws, chains, size))
    there = inside(seen)
    if len(there) < 2:
        return None
    seen = end_to_end(seen, there)
    like = jax.tree.map(lambda x: x[0], seen)
    cloud = np.asarray(jax.vmap(tree.ravel)(seen), np.float64)
    sd = np.maximum(cloud.std(axis=0), 1e-300)
    keys = jax.random.split(key, 4)
    spent = effort * draws.record.steps * len(chains) * setup.batch_size
    n = min(_ROWS, setup.kernel.num_data)
    steps = int(np.clip(spent / (2 * _WAYS * n), *_STEPS))
    down = functools.partial(descend, posterior, setup.problem.data, steps=steps, batch_size=n)
    flat = lambda points: np.asarray(jax.vmap(tree.ravel)(points), np.float64)
    ends = flat(down(_starts(seen, keys[0]), key=keys[1]))
    ends = ends[np.all(np.isfinite(ends), axis=1)]
    if len(ends) == 0:
        return ()
    near = np.array(
        [_nearest((cloud - cloud.mean(axis=0)) / sd, (end - cloud.mean(axis=0)) / sd) for end in ends]
    )
    own = flat(down(jax.tree.map(lambda x: x[np.resize(near, _WAYS)], seen), key=keys[2]))[: len(ends)]
    rng = np.random.default_rng(int(jax.random.key_data(keys[3])[-1]))
    _, T = setup.sampler.numbers_at(draws.record.steps)
    look = _Look(posterior, setup.problem.data, like, T, rng)
    found: list[Mode] = []
    for pair in zip(ends, own, strict=True):
        mode = look.mode(*pair)
        if mode is not None and mode.share > _SHARE and all(_apart(mode, other, sd) for other in found):
            found.append(mode)
    return tuple(sorted(found, key=lambda m: -m.share))


def _starts(seen: PyTree[Array], key: Key[Array, ""]) -> PyTree[Array]:
    """The mirror image of the mean; places as far off as the parameters are large; and many sd away."""
    center, sd = (jax.tree.map(lambda x, f=f: f(x, axis=0), seen) for f in (jnp.mean, jnp.std))

    def one(key: Key[Array, ""], i: Int[Array, ""]) -> PyTree[Array]:
        def place(x: Array, s: Array, z: Array) -> Array:
            large = jnp.maximum(1.0, jnp.sqrt(jnp.mean(x * x)))
            return jnp.where(i == 0, -x, x + z * jnp.where(i % 2 == 0, large, _FAR * s))

        return jax.tree.map(place, center, sd, tree.normal_like(center, key=key))

    return jax.vmap(one)(jax.random.split(key, _WAYS), jnp.arange(_WAYS))


def _nearest(cloud: Float[np.ndarray, "m d"], end: Float[np.ndarray, " d"]) -> int:
    """The draw nearest to `end` of those that have gone about as far in its direction.

    Of many parameters a few may tell two modes apart, and distances in all of them would not show it.
    """
    along = np.abs(cloud @ end - end @ end)
    close = np.argsort(along)[: max(_CLOSE, len(cloud) // 50)]
    return int(close[np.argmin(np.sum((cloud[close] - end) ** 2, axis=1))])


def _apart(a: Mode, b: Mode, sd: Float[np.ndarray, " d"]) -> bool:
    x, y = (np.concatenate([np.ravel(v) for v in jax.tree.leaves(m.theta)]) for m in (a, b))
    return bool(np.max(np.abs(x - y) / sd) > _FAR / 2)


class _Look:
    """A posterior and the rows by which places are compared."""

    def __init__(
        self, posterior: Posterior, data: PyTree, like: PyTree, T: float, rng: np.random.Generator
    ) -> None:
        self.posterior, self.data, self.like, self.T = posterior, data, like, T
        self.num_data = jax.tree.leaves(data)[0].shape[0]
        size = min(_LOOKED_AT, self.num_data)
        index = np.sort(rng.choice(self.num_data, size, replace=False))
        self.rows, self.left_out = (
            passes.picked(data, jnp.asarray(index, jnp.int32)),
            1 - size / self.num_data,
        )

    def mode(self, end: Float[np.ndarray, " d"], own: Float[np.ndarray, " d"]) -> Mode | None:
        """The mode at the end of a way, if it is another one than that of the draws."""
        height = self._valley(end, own)
        if height is None:
            return None
        if len(end) > _LARGEST:
            return self._record(end, height)
        there, here = self._top(end), self._top(own)
        if there is None or here is None:
            return self._record(end, height)
        a, b = (np.asarray(tree.ravel(p.theta), np.float64) for p in (there, here))
        height, weights = self._valley(a, b), [self._log_weight(p) for p in (there, here)]
        if height is None or weights[0] is None:  # both ways lead to one mode; or to a saddle
            return None
        return self._record(a, height if weights[1] is None else weights[0] - weights[1])

    def _top(self, start: Float[np.ndarray, " d"]) -> Point | None:
        try:
            found = climb(self.posterior, self.data, self._tree(start), seed=0)
        except (ValueError, np.linalg.LinAlgError):
            return None
        return found.point if found.distance < _NEAR * self.T**0.5 else None

    def _log_weight(self, point: Point) -> float | None:
        """Of the normal distribution there: -U / T - log |H / T| / 2."""
        values = np.linalg.eigvalsh(point.hessian / self.T)
        return -point.value / self.T - float(np.sum(np.log(values))) / 2 if np.all(values > 0) else None

    def _record(self, end: Float[np.ndarray, " d"], log_odds: float) -> Mode:
        return Mode(jax.tree.map(np.asarray, self._tree(end)), 1 / (1 + math.exp(min(700.0, -log_odds))))

    def _valley(self, end: Float[np.ndarray, " d"], own: Float[np.ndarray, " d"]) -> float | None:
        """The height of `end` over `own`, in units of T, if the density falls below both between them."""
        line = end + _PLACES[:, None] * (own - end)
        (from_end, error), (from_own, other) = self._compared(line), self._compared(line[::-1])
        if not np.isfinite(from_end[-1]):
            return None
        drops = -from_end - _ERRORS * error, (-from_own - _ERRORS * other)[::-1]
        depth = np.nanmax(np.minimum(*(np.where(np.isnan(x), np.inf, x) for x in drops)))
        return -float(from_end[-1]) / self.T if depth > _VALLEY * self.T else None

    def _compared(self, points: Float[np.ndarray, "m d"]) -> tuple[np.ndarray, np.ndarray]:
        """Log-density at each of `points` less that at the first, and the error from looking at some rows only."""
        x = jnp.asarray(points, tree.ravel(self.like).dtype)
        rows, prior = (np.asarray(v, np.float64) for v in _densities(self.posterior, self.like, x, self.rows))
        change, m = rows - rows[0], rows.shape[1]
        error = self.num_data * change.std(axis=1) * math.sqrt(self.left_out / m)
        return self.num_data * change.mean(axis=1) + prior - prior[0], error

    def _tree(self, x: Float[np.ndarray, " d"]) -> PyTree[Array]:
        return tree.unravel_like(jnp.asarray(x, tree.ravel(self.like).dtype), self.like)


@eqx.filter_jit
def _densities(
    posterior: Posterior, like: PyTree, points: Float[Array, "m d"], rows: PyTree
) -> tuple[Float[Array, "m n"], Float[Array, " m"]]:
    def one(x: Float[Array, " d"]) -> tuple[Array, Array]:
        theta = tree.unravel_like(x, like)
        return posterior.row_log_likelihoods(theta, rows), posterior.prior_log_density(theta)

    return jax.lax.map(one, points)
