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
from isotherm.tuning.estimator import control
from isotherm.tuning.newton import Point, closer, moved, point_at

_FAR = 5.0  # distance probed, in standard deviations
# A tail is long if U rises by less than this, in units of T; for a normal it is 12.5. No common posterior is near the
# limit: the log of a gamma variable has 4.01 for shape 1 (a rate without events; 44 % of what `heating` measures is
# then beyond the distance that it probes), 4.66 for shape 3/2 and 5.13 for shape 2.
_DROP = 4.33
_CLOSE, _STEPS = 0.01, 3  # the mode along suspect coordinates is found to this, in sd; most steps spent on it
_ERRORS = 4.0  # standard errors allowed for an estimated rise
_ROWS = (32, 2**15)  # fewest and most rows drawn for each point
_MORE = 4  # another round must draw at least this many times as many rows
_AGAIN, _ALL = 32, 16  # most points of later rounds, and of a pass over all rows
# Pairs of point and row at a time, and numbers in them: on a CPU, and on a GPU, where starting a program costs more.
_PAIRS, _PAIRS_ELSEWHERE = (2**15, 2**22), (2**19, 2**25)
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

    `point` may be off the mode by x standard deviations. Along a tail the scale then differs by a factor of about
    1 + x/2, and the rise of U by about (5/2 + 1) x T. Coordinates that this leaves in doubt are judged at a better
    mode, and with all rows. So the outcome does not depend on where Newton's method stopped or on the rows drawn.
    """
    density, rest, zero = expanded.density, expanded.expanded, expanded.anchor
    T, size, num_data = float(density.temperature), len(point.gradient), num_rows(data)
    if not holds(float(point.known[0]), T, zero):
        return None, 0.0
    spent = 0.0
    index, sign = np.repeat(np.arange(size), 2), np.tile([-1.0, 1.0], size)
    moves = _moves(index, sign * _FAR * T**0.5, zero)
    known, doubt = (
        _known(density, zero, moves, point),
        (_FAR / 2 + 1) * T**0.5 * np.abs(point.gradient)[index],
    )
    rng, points = np.random.default_rng(0), np.arange(2 * size)
    last_count = 0
    while (count := int(np.clip(num_data // (2 * len(points)), *_ROWS))) >= _MORE * last_count:
        left, error = _log_likelihoods(rest, data, zero, moves, points, plan, count, rng)
        spent, last_count = spent + len(points) * count / num_data, count
        rise = -(left + known[points])
        suspects = np.argsort(rise)[:_AGAIN]
        lowest = rise - _ERRORS * error - doubt[points]
        suspects = suspects[lowest[suspects] < _DROP * T]
        if len(suspects) == 0:
            return None, spent
        points = points[suspects]
    posterior = expanded.posterior
    assert posterior is not None
    point, passes = closer(posterior, data, point, index[points], near=_CLOSE, tries=_STEPS)
    spent, better = spent + passes, control(posterior, point, 2)
    for some in np.split(points, range(_ALL, len(points), _ALL)):
        rises, spent = _rises(better, data, point, moves[some]) / T, spent + 1
        k = int(np.argmin(rises))
        if rises[k] < _DROP:
            i, side = int(index[some[k]]), float(sign[some[k]])
            stiffest, tries = _wall(posterior, data, point, i, -side)
            return Tail(i, side * _FAR, float(rises[k]), stiffest), spent + tries
    return None, spent


def _rises(
    expanded: ControlVariate, data: PyTree, point: Point, moves: Float[Array, "k d"]
) -> Float[np.ndarray, " k"]:
    """Return the rise of U with each move, from all rows; infinite outside the support."""
    zero = expanded.anchor
    values, _ = values_and_gradients(
        expanded.expanded, data, jax.vmap(lambda x: tree.unravel_like(x, zero))(moves)
    )
    rise = -values - _known(expanded.density, zero, moves, point)
    return np.where(np.isfinite(rise), rise, math.inf)


def holds(total: float, change: float, theta: PyTree) -> bool:
    """Return whether a change of a sum over rows exceeds the error of rounding each row as the parameters are."""
    return abs(total) * float(jnp.finfo(tree.ravel(theta).dtype).eps) / 4 < change


def _moves(index: np.ndarray, distance: np.ndarray, zero: PyTree) -> Float[Array, "k d"]:
    """Return moves along single coordinates."""
    moves = np.zeros((len(index), tree.size(zero)))
    moves[np.arange(len(index)), index] = distance
    return tree.as_ravelled(moves, zero)


def _wall(posterior: Posterior, data: PyTree, top: Point, index: int, side: float) -> tuple[float, int]:
    """Return the largest curvature about as far out on this side as chains get, and the passes it took."""
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
    most, numbers = _PAIRS if jax.default_backend() == "cpu" else _PAIRS_ELSEWHERE
    length, parts = max(1, min(most, numbers // max(width, moves.shape[1]))), []
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
