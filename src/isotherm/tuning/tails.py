"""Whether the posterior reaches much farther along a coordinate than its curvature at the mode says.

There the noise of control variates, and of plain minibatches too, is another than around the mode, and chains are
held back or driven out: as with the logarithm of a variance that may as well be zero.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.gradients.control_variate import ControlVariate
from isotherm.posterior import Posterior
from isotherm.preconditioner import DensePreconditioner
from isotherm.sums import passes
from isotherm.tuning.newton import Climb, point_at
from isotherm.tuning.record import as_leaf

_FAR = 5.0  # standard deviations
_DROP = 4.0  # rise of U there, in units of T; that of a normal distribution is 12.5
_ERRORS = 4.0  # standard errors
_ROWS = (32, 2**15)  # that are drawn for each place
_MORE = 4  # times as many rows, for another look to be worth it
_AGAIN, _ALL = 32, 3  # places that are looked at again, and with all rows
_PAIRS, _NUMBERS = 2**15, 2**22  # of a place and a row at a time, and numbers in them
_REACH = 4.5  # rise of U, in units of T, to which chains come now and then
_NEARER, _TRIES = 0.7, 8  # on the way back from beyond that


@dataclasses.dataclass(frozen=True)
class Tail:
    """Number of the coordinate, how far out, how little U rises there; the stiffest place on the other side."""

    index: int
    far: float
    rise: float
    stiffest: float

    @property
    def slowest(self) -> float:
        """The curvature of a normal distribution that rises as little there."""
        return max(2 * self.rise / self.far**2, 0.1)


def long_tail(
    expanded: ControlVariate,
    data: PyTree,
    top: Climb,
    preconditioner: DensePreconditioner,
    tickets: np.ndarray,
) -> tuple[Tail | None, float]:
    """The longest tail along a coordinate, if one is far longer than normal, and the passes that it took to know.

    None is told where the rise of U would drown in the rounding of the rows.
    `expanded` is of order 2 around the mode, so that of a normal posterior hardly anything is left to estimate.
    """
    posterior, center = expanded.expanded, preconditioner.center
    assert expanded.posterior is not None
    T, size, num_data = float(posterior.temperature), tree.size(center), len(tickets)
    if not passes.holds(float(top.point.known[0]), T, center):
        return None, 0.0
    root, spent = np.asarray(preconditioner.root, np.float64), 0.0
    index, sign = np.repeat(np.arange(size), 2), np.tile([-1.0, 1.0], size)
    moves = as_leaf((sign * _FAR * T**0.5)[:, None] * root[:, index].T, center)
    known = _known(expanded.posterior, center, moves, top)
    draw, places = np.random.default_rng(0), np.arange(2 * size)
    m = 0
    while (count := int(np.clip(num_data // (2 * len(places)), *_ROWS))) >= _MORE * m:
        rest, error = _rests(posterior, data, center, moves, places, tickets, count, draw)
        spent, m = spent + len(places) * count / num_data, count
        rise = -(rest + known[places])
        near = np.argsort(rise)[:_AGAIN]
        near = near[rise[near] - _ERRORS * error[near] < _DROP * T]
        if len(near) == 0:
            return None, spent
        places = places[near]
    found = []
    for place in places[:_ALL]:
        theta = tree.unravel_like(tree.ravel(center) + moves[place], center)
        value, _, _ = passes.sums(posterior, data, theta, order=1)
        rise = -float(value) - known[place]
        found.append((rise / T if math.isfinite(rise) else math.inf, int(index[place]), float(sign[place])))
    rise, i, side = min(found)
    spent += len(found)
    if not rise < _DROP:
        return None, spent
    stiffest, tries = _wall(expanded.posterior, data, top, root, i, -side)
    return Tail(i, side * _FAR, rise, stiffest), spent + tries


def _wall(
    posterior: Posterior, data: PyTree, top: Climb, root: np.ndarray, index: int, side: float
) -> tuple[float, int]:
    """The largest curvature about as far out on this side as chains come, and the passes that it took to know."""
    T, center, far = float(posterior.temperature), top.point.theta, 3.0
    for tries in range(1, _TRIES + 1):
        move = as_leaf(side * far * T**0.5 * root[:, index], center)
        there = point_at(posterior, data, tree.unravel_like(tree.ravel(center) + move, center))
        if there.finite and there.value - top.point.value < _REACH * T:
            return float(np.linalg.eigvalsh(root.T @ there.hessian @ root)[-1]), tries
        far *= _NEARER
    return 1.0, _TRIES


def _rests(
    posterior: Posterior,
    data: PyTree,
    center: PyTree,
    moves: Float[Array, "k d"],
    places: np.ndarray,
    tickets: np.ndarray,
    count: int,
    draw: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """What is left of the log-likelihood after some of the moves, by rows drawn with these tickets, and its error."""
    ends = np.cumsum(tickets)
    rows = np.searchsorted(ends, draw.integers(ends[-1], size=count), side="right")
    which, row = np.repeat(places, count), np.tile(rows, len(places))
    # In pieces of one length, so that one program serves all looks.
    width = sum(int(np.prod(x.shape[1:])) for x in jax.tree.leaves(data))
    length, parts = max(1, min(_PAIRS, _NUMBERS // max(width, moves.shape[1]))), []
    length = min(length, 2 ** math.ceil(math.log2(len(row))))
    for begin in range(0, len(row), length):
        own = slice(begin, begin + length)
        pair = [jnp.asarray(np.resize(x[own], length), jnp.int32) for x in (which, row)]
        parts.append(np.asarray(_pairs(posterior, center, moves, data, *pair), np.float64))
    rest = np.concatenate(parts)[: len(row)].reshape(len(places), count) * (ends[-1] / tickets[rows])
    mean, error = rest.mean(axis=1), rest.std(axis=1) / count**0.5
    return np.where(np.isfinite(mean), mean, -np.inf), np.where(np.isfinite(error), error, 0.0)


@compile_quickly
def _pairs(
    posterior: Posterior,
    center: PyTree,
    moves: Float[Array, "k d"],
    data: PyTree,
    which: Int[Array, " p"],
    row: Int[Array, " p"],
) -> Float[Array, " p"]:
    """The log-likelihood of one row after one move, for each pair."""
    at = lambda i: tree.unravel_like(tree.ravel(center) + moves[i], center)
    return jax.vmap(lambda i, r: posterior.one_log_likelihood(at(i), r))(which, passes.picked(data, row))


def _known(
    posterior: Posterior, center: PyTree, moves: Float[Array, "k d"], top: Climb
) -> Float[np.ndarray, " k"]:
    """What the part that needs no rows changes by: in 64 bits, as it is small beside the sum over all rows."""
    _, gradient, hessian = top.point.known
    move = np.asarray(moves, np.float64)
    expansion = move @ gradient + np.sum((move @ hessian) * move, axis=1) / 2
    return expansion + np.asarray(_priors(posterior, center, moves), np.float64)


@compile_quickly
def _priors(posterior: Posterior, center: PyTree, moves: Float[Array, "k d"]) -> Float[Array, " k"]:
    """What the log-prior changes by with each move."""
    value = lambda x: posterior.prior_log_density(tree.unravel_like(x, center))
    origin = tree.ravel(center)
    return jax.lax.map(lambda move: value(origin + move) - value(origin), moves)
