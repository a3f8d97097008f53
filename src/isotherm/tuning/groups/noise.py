"""The noise of the remainders of rows over the posterior, for each level of each group and for dense parameters.

All levels of a group are moved at once, along one effect of theirs: a row depends on its own level, so one derivative
of each row gives the noise of all levels. Distances are the nodes of a Gaussian rule, whose weights have the moments
of the normal distribution: the remainder grows with the square of the distance, and its noise with the fourth power.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.stream import Drawn, Stream, num_rows
from isotherm.gradients.arrow_variate import AlwaysUsed, ArrowVariate, Natural
from isotherm.gradients.control_variate import Remainder
from isotherm.sums.fold import fold
from isotherm.sums.precision import exact
from isotherm.tuning.probe import normal_bins

_PROBES = 8  # of every row
_NODES = 8  # a rule that is exact for polynomials of degree 15: v^2 times the noise, with v^6, is one of 8
_FAR = 8.0  # the distance in standard deviations, beyond the nodes, at which a level must be driven back
PASSES = 20  # that `level_noise` takes: as many evaluations of each row
_OTHERS = 2  # positions of all other parameters, the second the reflection of the first
_MOMENTS = 4  # positions at which whole gradients by dense parameters are taken
_NUMBERS = 2**22  # in the gradients of rows by dense parameters


class Points(eqx.Module):
    """Positions in the natural coordinates, and at each a direction; leaves have a leading axis."""

    theta: PyTree[Array]
    along: PyTree[Array]


class RemainderRoots(eqx.Module):
    """The root mean square of each row's slope along random directions, for each order of expansion."""

    rest: Remainder
    always: AlwaysUsed | None
    points: Points

    @exact
    def __call__(self, rows: PyTree) -> tuple[Float[Array, " n"], ...]:
        """Return one for each row, by order. Rows that are used in every step have none of order 2."""
        f, anchor = lambda x: self.rest.posterior.row_log_likelihoods(x, rows), self.rest.anchor

        def probe(point: Points) -> Float[Array, "orders n"]:
            slope = lambda x: jax.jvp(f, (x,), (point.along,))[1]
            away = slope(point.theta)
            here, change = jax.jvp(slope, (anchor,), (tree.subtract(point.theta, anchor),))
            return jnp.stack([away, away - here, away - here - change]) ** 2

        plain, first, second = jnp.sqrt(jnp.mean(jax.lax.map(probe, self.points), axis=0))
        # Where a remainder is not finite, the noise of its level will not be, and steps use all rows.
        plain, first, second = (jnp.where(jnp.isfinite(x), x, 0) for x in (plain, first, second))
        second = second if self.always is None else jnp.where(self.always.others(rows), second, 0)
        return tuple(x.astype(jnp.float32) for x in (plain, first, second))


def roots_of(gradient: ArrowVariate, *, seed: int) -> RemainderRoots:
    """Return the function that measures rows, at normal points around the anchor."""
    rng, size = np.random.default_rng(seed), tree.size(gradient.anchor)
    spread = float(gradient.posterior.temperature) ** 0.5
    # Each coordinate takes one value in each of some bins of equal probability, as in `tuning.probe`.
    bins = np.argsort(rng.random((_PROBES, size)), axis=0)
    signs = rng.integers(2, size=(_PROBES, size)) * 2.0 - 1
    points = _points(gradient, spread * normal_bins(_PROBES)[bins], signs)
    return RemainderRoots(_rest(gradient), gradient.always, points)


@dataclasses.dataclass(frozen=True)
class Moved:
    """Which effect of which factor is moved, for all levels at once.

    They are positions in `ArrowSums.factors`, and in the effects of a level.
    """

    factor: int
    effect: int

    def mask(self, gradient: ArrowVariate) -> Bool[np.ndarray, " d"]:
        """Return which of the ravelled parameters they are."""
        leaf, leaves = gradient.sums.factors[self.factor].leaf, jax.tree.leaves(gradient.anchor)
        masks = [np.zeros(x.size, bool) for x in leaves]
        masks[leaf].reshape(leaves[leaf].shape[0], -1)[:, self.effect] = True
        return np.concatenate(masks)


class LevelNoise(NamedTuple):
    """For each level and batches of one row: the mean of C, E[(v^2 / T - 1) C], and C in the tails, all over T.

    In the tails it is the largest of C at the outermost nodes, and of what drives a level further out from `_FAR`.
    `roots` are the sums of the roots of its rows, and `counts` their number.
    """

    mean: Float[np.ndarray, " L"]
    heat: Float[np.ndarray, " L"]
    tails: Float[np.ndarray, " L"]
    roots: Float[np.ndarray, " L"]
    counts: Float[np.ndarray, " L"]


def level_noise(
    gradient: ArrowVariate, data: PyTree | Stream, roots: RemainderRoots, scale: float, moved: Moved
) -> LevelNoise:
    """Return the noise of each level. Rows are drawn in proportion to 1 + root / scale."""
    T, mask = float(gradient.posterior.temperature), moved.mask(gradient)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    nodes, weights = np.append(nodes, (-_FAR, _FAR)), np.append(weights / weights.sum(), (0, 0))
    signs = np.random.default_rng(moved.factor).integers(2, size=len(mask)) * 2.0 - 1
    positions = [np.where(mask, x, side) * signs for side in (1, -1) for x in nodes]
    points = _points(gradient, T**0.5 * np.stack(positions), np.tile(mask * signs, (len(positions), 1)))
    outermost = [(nodes == x) * 1.0 for x in (nodes[0], nodes[_NODES - 1], -_FAR, _FAR)]
    wanted = np.stack([weights, weights * (nodes**2 - 1), *outermost]) / np.array([[_OTHERS]])
    outward = np.where(np.abs(nodes) == _FAR, np.sign(nodes), 0)
    shares, sides = np.tile(wanted, _OTHERS), np.tile(outward, _OTHERS)
    mean, heat, *ends, sums, counts = _by_level(gradient, data, roots, scale, moved, points, shares, sides)
    return LevelNoise(mean, heat, np.max(ends, axis=0), sums, counts)


def level_noise_at(
    gradient: ArrowVariate,
    data: PyTree | Stream,
    roots: RemainderRoots,
    scale: float,
    moved: Moved,
    positions: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, " L"]:
    """Return the mean of C over T at these positions, for each level."""
    count = len(positions)
    points = _points(gradient, positions, np.tile(moved.mask(gradient) * 1.0, (count, 1)))
    shares, sides = np.full((1, count), 1 / count), np.zeros(count)
    return _by_level(gradient, data, roots, scale, moved, points, shares, sides)[0]


def _by_level(
    gradient: ArrowVariate,
    data: PyTree | Stream,
    roots: RemainderRoots,
    scale: float,
    moved: Moved,
    points: Points,
    weights: Float[np.ndarray, "k s"],
    outward: Float[np.ndarray, " s"],
) -> list[Float[np.ndarray, " L"]]:
    """Return the weighted sums over points of C / T of each level, the roots of its rows and their number.

    Where `outward` is not zero, only slopes with its sign count.
    """
    dtype, factor = tree.dtype_of(gradient.anchor), gradient.sums.factors[moved.factor]
    assert factor.column is not None
    f = _LevelSums(roots, _rest(gradient), factor.column, factor.gradient.shape[0])
    args = points, tree.put(scale, dtype), tree.put(weights, dtype), tree.put(outward, dtype)
    *noise, sums, counts = np.asarray(fold(f, data, *args, numbers_per_row=4 * weights.shape[1])).T
    return [*(num_rows(data) * x / float(gradient.posterior.temperature) for x in noise), sums, counts]


class _LevelSums(eqx.Module):
    """Weighted sums of squared slopes of the remainders of rows, by level, and those of roots and of ones."""

    roots: RemainderRoots
    rest: Remainder
    column: int = eqx.field(static=True)
    num_levels: int = eqx.field(static=True)

    @exact
    def __call__(
        self,
        rows: PyTree,
        valid: Bool[Array, " n"],
        points: Points,
        scale: Float[Array, ""],
        weights: Float[Array, "k s"],
        outward: Float[Array, " s"],
    ) -> Float[Array, "L columns"]:
        slope = lambda point: jax.jvp(lambda x: self.rest(x, rows), (point.theta,), (point.along,))[1]
        # The comparison is false for NaN, which stays.
        kept = lambda x, side: jnp.where(x * side < 0, 0, x)
        squares = jax.lax.map(lambda x: kept(slope(x[0]), x[1]) ** 2, (points, outward))
        index = jax.tree.leaves(rows)[self.column]
        roots = self.roots(rows)[2].astype(squares.dtype)
        share = jnp.where(scale > 0, roots / jnp.where(scale > 0, scale, 1), 1)
        used = valid if self.roots.always is None else valid & self.roots.always.others(rows)
        noise = jnp.where(used, 2 / (1 + share), 0)[:, None] * (squares.T @ weights.T)
        ones = valid.astype(squares.dtype)
        terms = jnp.concatenate([noise, (roots * ones)[:, None], ones[:, None]], axis=1)
        return jnp.zeros((self.num_levels, terms.shape[1]), terms.dtype).at[index].add(terms)


def dense_noise(gradient: ArrowVariate, drawn: Drawn, num_data: int, *, seed: int) -> tuple[float, float]:
    """Return the largest eigenvalue of C and the largest E[(v^2 / T - 1) C], both over T, for batches of one row.

    Both are of the outer and dense coordinates, and of effects that all rows share, by rows that the plan has drawn.
    """
    parts, anchor, T = gradient.preconditioner.parts, gradient.anchor, float(gradient.posterior.temperature)
    blocks = [factor.leaf for factor in gradient.sums.factors if factor.column is None]
    index = _places((*parts.outer, *parts.dense, *blocks), anchor)
    if len(index) == 0:
        return 0.0, 0.0
    rng, size = np.random.default_rng(seed), tree.size(anchor)
    count = int(np.clip(_NUMBERS // len(index), 1024, drawn.count))
    drawn, dtype = drawn.first(count), tree.dtype_of(anchor)
    weights = num_data * np.asarray(drawn.weights, np.float64)
    if gradient.always is not None:
        weights = weights * np.asarray(gradient.always.others(drawn.rows))
    put = lambda x: tree.put(x, dtype)
    others = rng.standard_normal((_MOMENTS, size))
    bases, rest = put(T**0.5 * others), _rest(gradient)
    where = tree.put(index, np.int32)
    moment = np.asarray(_moment(gradient, rest, drawn.rows, put(weights), bases, where), np.float64)
    nodes, shares = np.polynomial.hermite_e.hermegauss(_NODES)
    shares = shares / shares.sum() / _OTHERS
    pair = put(T**0.5 * np.stack([others[0], -others[0]]))
    profile = _profiles(gradient, rest, drawn.rows, put(weights), pair, where, put(T**0.5 * nodes))
    profile = np.asarray(profile, np.float64)
    heat = np.einsum("oks,s->k", profile, shares * (nodes**2 - 1))
    if not (np.all(np.isfinite(moment)) and np.all(np.isfinite(heat))):
        return np.inf, np.inf
    return float(np.linalg.eigvalsh(moment)[-1]) / T, float(max(0.0, np.max(heat))) / T


@compile_quickly
@exact
def _moment(
    gradient: ArrowVariate,
    rest: Remainder,
    rows: PyTree,
    weights: Float[Array, " n"],
    bases: Float[Array, "b d"],
    index: Array,
) -> Float[Array, "k k"]:
    """Return the mean over rows and positions of the products of slopes along dense coordinates."""

    def at(base: Array) -> Float[Array, "k k"]:
        g = jax.lax.map(lambda k: weights * _slope(gradient, rest, rows, base, k), index)
        return g @ g.T / len(weights)

    return jnp.mean(jax.lax.map(at, bases), axis=0)


@compile_quickly
@exact
def _profiles(
    gradient: ArrowVariate,
    rest: Remainder,
    rows: PyTree,
    weights: Float[Array, " n"],
    bases: Float[Array, "b d"],
    index: Array,
    nodes: Float[Array, " s"],
) -> Float[Array, "b k s"]:
    """Return the mean square over rows of the slope along each dense coordinate, at nodes along it."""

    def at(base: Array, k: Array, x: Array) -> Array:
        return jnp.mean((weights * _slope(gradient, rest, rows, base.at[k].set(x), k)) ** 2)

    return jax.lax.map(
        lambda base: jax.lax.map(lambda k: jax.lax.map(lambda x: at(base, k, x), nodes), index), bases
    )


def _slope(
    gradient: ArrowVariate, rest: Remainder, rows: PyTree, base: Array, k: Array
) -> Float[Array, " n"]:
    """Return the derivative of each remainder along coordinate k."""
    unit = jnp.zeros_like(base).at[k].set(1)
    at = lambda x: gradient.natural(tree.unravel_like(x, gradient.anchor)).theta
    theta, along = jax.jvp(at, (base,), (unit,))
    return jax.jvp(lambda x: rest(x, rows), (theta,), (along,))[1]


def _rest(gradient: ArrowVariate) -> Remainder:
    return Remainder(gradient.posterior, gradient.anchor, 2)


def _places(leaves: tuple[int, ...], like: PyTree) -> np.ndarray:
    """Return the places of some leaves in the ravelled parameters."""
    sizes = [x.size for x in jax.tree.leaves(like)]
    starts = np.cumsum([0, *sizes])
    wanted = [np.arange(starts[i], starts[i + 1]) for i in leaves]
    return np.concatenate([*wanted, np.zeros(0, int)]).astype(int)


def _points(
    gradient: ArrowVariate, positions: Float[np.ndarray, "m d"], directions: Float[np.ndarray, "m d"]
) -> Points:
    like = gradient.anchor
    found, along = _natural(gradient, tree.put_like(positions, like), tree.put_like(directions, like))
    return Points(found.theta, along.theta)


@compile_quickly
@exact
def _natural(gradient: ArrowVariate, v: PyTree, direction: PyTree) -> tuple[Natural, Natural]:
    return jax.lax.map(lambda x: jax.jvp(gradient.natural, (x[0],), (x[1],)), (v, direction))
