"""Finds tails along a coordinate that are much longer than the curvature at the mode suggests.

In such a tail the noise of control variates, and of plain minibatches too, differs from that around the mode, and
chains are held back or driven out. An example is the logarithm of a variance that may be zero.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.stream import Drawn, Stream, num_rows
from isotherm.data.weighted import Weighted
from isotherm.data.weighted_blocks import WeightedBlocks
from isotherm.gradients.control_variate import ControlVariate
from isotherm.posterior import Posterior
from isotherm.sums.precision import exact
from isotherm.sums.totals import values_and_gradients
from isotherm.tuning.newton import Point, moved, point_at

_FAR = 5.0  # distance probed, in standard deviations
_DROP = 4.0  # a tail is long if U rises by less than this, in units of T; for a normal it is 12.5
_ERRORS = 4.0  # standard errors allowed for an estimated rise
_ROWS = (32, 2**15)  # fewest and most rows drawn for each point
_MORE = 4  # another round must draw at least this many times as many rows
_AGAIN, _ALL = 32, 3  # most points of later rounds, and of the last one, with all rows
_PAIRS, _NUMBERS = 2**15, 2**22  # pairs of point and row at a time, and numbers in them
_REACH = 4.5  # rise of U, in units of T, that chains reach now and then
_NEARER, _TRIES = 0.7, 8  # factor by which a distance beyond that is shortened, and how often


@dataclasses.dataclass(frozen=True)
class Tail:
    """A coordinate along which the posterior has a long tail.

    `index` is the coordinate, `far` the distance probed (in sd), `rise` the rise of U at that distance (in units of
    T), and `stiffest` the largest curvature on the opposite side.
    """

    index: int
    far: float
    rise: float
    stiffest: float

    @property
    def slowest(self) -> float:
        """The curvature of a normal distribution whose U rises as little at that distance."""
        return max(2 * self.rise / self.far**2, 0.1)


def long_tail(
    expanded: ControlVariate, data: PyTree | Stream, point: Point, plan: Weighted | WeightedBlocks
) -> tuple[Tail | None, float]:
    """Return the longest tail along a coordinate, if one is far longer than normal, and the passes it took.

    Returns no tail if rounding of the rows could hide the rise of U. `expanded` is of order 2 around the mode, in the
    coordinates of `point`: for a posterior close to normal, little is left to estimate. `plan` draws the rows.
    """
    density, rest, zero = expanded.density, expanded.expanded, expanded.anchor
    T, size, num_data = float(density.temperature), len(point.gradient), num_rows(data)
    if not holds(float(point.known[0]), T, zero):
        return None, 0.0
    spent = 0.0
    index, sign = np.repeat(np.arange(size), 2), np.tile([-1.0, 1.0], size)
    moves = _moves(index, sign * _FAR * T**0.5, zero)
    known = _known(density, zero, moves, point)
    rng, points = np.random.default_rng(0), np.arange(2 * size)
    last_count = 0
    while (count := int(np.clip(num_data // (2 * len(points)), *_ROWS))) >= _MORE * last_count:
        left, error = _log_likelihoods(rest, data, zero, moves, points, plan, count, rng)
        spent, last_count = spent + len(points) * count / num_data, count
        rise = -(left + known[points])
        suspects = np.argsort(rise)[:_AGAIN]
        suspects = suspects[rise[suspects] - _ERRORS * error[suspects] < _DROP * T]
        if len(suspects) == 0:
            return None, spent
        points = points[suspects]
    chosen = jax.vmap(lambda x: tree.unravel_like(x, zero))(moves[points[:_ALL]])
    values, _ = values_and_gradients(rest, data, chosen)
    rises = [
        (rise / T if math.isfinite(rise) else math.inf, int(index[i]), float(sign[i]))
        for i, rise in zip(points, -values - known[points[:_ALL]], strict=False)
    ]
    rise, i, side = min(rises)
    spent += 1
    if not rise < _DROP:
        return None, spent
    stiffest, tries = _wall(expanded.posterior, data, point, i, -side)
    return Tail(i, side * _FAR, rise, stiffest), spent + tries


def holds(total: float, change: float, theta: PyTree) -> bool:
    """Return whether a change of a sum over rows exceeds the error of rounding each row as the parameters are."""
    return abs(total) * float(jnp.finfo(tree.ravel(theta).dtype).eps) / 4 < change


def _moves(index: np.ndarray, distance: np.ndarray, zero: PyTree) -> Float[Array, "k d"]:
    """Return moves along single coordinates."""
    moves = np.zeros((len(index), tree.size(zero)))
    moves[np.arange(len(index)), index] = distance
    return tree.as_ravelled(moves, zero)


def _wall(
    posterior: Posterior | None, data: PyTree, top: Point, index: int, side: float
) -> tuple[float, int]:
    """Return the largest curvature about as far out on this side as chains get, and the passes it took."""
    assert posterior is not None
    T, far = float(posterior.temperature), 3.0
    for tries in range(1, _TRIES + 1):
        v = np.zeros(len(top.gradient))
        v[index] = side * far * T**0.5
        point = point_at(posterior, data, moved(top.frame, v))
        if point.finite and point.value - top.value < _REACH * T:
            return float(np.linalg.eigvalsh(point.hessian)[-1]), tries
        far *= _NEARER
    return 1.0, _TRIES


def _log_likelihoods(
    posterior: Posterior,
    data: PyTree,
    center: PyTree,
    moves: Float[Array, "k d"],
    points: np.ndarray,
    plan: Weighted | WeightedBlocks,
    count: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log-likelihood of all rows at each of `points`, estimated from `count` rows, and its standard error.

    `points` are indices of `moves`.
    """
    drawn, scale = plan.drawn(data, count, rng), tree.as_ravelled(float(num_rows(data)), center)
    which, number = np.repeat(points, count), np.tile(np.arange(count), len(points))
    # In pieces of equal length, so that all rounds share one compiled program.
    width = sum(int(np.prod(x.shape[1:])) for x in jax.tree.leaves(drawn.rows))
    length, parts = max(1, min(_PAIRS, _NUMBERS // max(width, moves.shape[1]))), []
    length = min(length, 2 ** math.ceil(math.log2(len(number))))
    for begin in range(0, len(number), length):
        piece = slice(begin, begin + length)
        pair = [tree.put(np.resize(x[piece], length), np.int32) for x in (which, number)]
        parts.append(np.asarray(_pairs(posterior, center, moves, drawn, scale, *pair), np.float64))
    rest = np.concatenate(parts)[: len(number)].reshape(len(points), count)
    mean, error = rest.mean(axis=1), rest.std(axis=1) / count**0.5
    return np.where(np.isfinite(mean), mean, -np.inf), np.where(np.isfinite(error), error, 0.0)


@compile_quickly
@exact
def _pairs(
    posterior: Posterior,
    center: PyTree,
    moves: Float[Array, "k d"],
    drawn: Drawn,
    num_data: Float[Array, ""],
    which: Int[Array, " p"],
    number: Int[Array, " p"],
) -> Float[Array, " p"]:
    """Return the log-likelihood of one of the `drawn` rows after one move, times N and its weight, for each pair."""
    at = lambda i: tree.unravel_like(tree.ravel(center) + moves[i], center)
    chosen = jax.tree.map(lambda x: x.at[number].get(mode="promise_in_bounds"), drawn)
    values = jax.vmap(lambda i, r: posterior.one_log_likelihood(at(i), r))(which, chosen.rows)
    return num_data * chosen.weights * values


def _known(
    posterior: Posterior, center: PyTree, moves: Float[Array, "k d"], top: Point
) -> Float[np.ndarray, " k"]:
    """Return the change of the part that needs no rows, in 64 bits: it is small beside the sum over all rows."""
    _, gradient, hessian = top.known
    move = np.asarray(moves, np.float64)
    expansion = move @ gradient + np.sum((move @ hessian) * move, axis=1) / 2
    return expansion + np.asarray(_priors(posterior, center, moves), np.float64)


@compile_quickly
def _priors(posterior: Posterior, center: PyTree, moves: Float[Array, "k d"]) -> Float[Array, " k"]:
    """Return the change of the log-prior with each move."""
    value = lambda x: posterior.prior_log_density(tree.unravel_like(x, center))
    origin = tree.ravel(center)
    return jax.lax.map(lambda move: value(origin + move) - value(origin), moves)
