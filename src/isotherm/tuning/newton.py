"""The way to the mode, for up to about a thousand parameters: Newton's method with the whole Hessian.

First on some of the rows, then on more, at last on all of them. Where U is not convex, directions of negative
curvature are followed downhill, and steps that do not help are shortened (Levenberg-Marquardt).
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.posterior import Posterior
from isotherm.sums import passes

_ROWS_PER_PARAMETER, _ROWS = 30, 4_000  # of the first rows
_GROWTH = 4  # times as many rows each time
_FIRST, _LATER = 60, 8  # evaluations at most
_FLAT = 1e-8  # of a squared pivot, on the scale of the diagonal
_NEAR = 0.1  # rms length of a step, in standard deviations, at which one is there


@dataclasses.dataclass(frozen=True)
class Point:
    """A place with U, its gradient and its Hessian there, in float64 over the ravelled parameters.

    `known` are value, gradient and Hessian of the log-likelihood alone.
    """

    theta: PyTree[Array]
    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    known: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def finite(self) -> bool:
        """Whether all of it is."""
        return all(bool(np.all(np.isfinite(x))) for x in (self.value, self.gradient, self.hessian))


@dataclasses.dataclass(frozen=True)
class Climb:
    """Where it ended: the last point, its distance from the mode by Newton's step (rms, in sd), and the cost."""

    point: Point
    distance: float
    passes: float


def climb(posterior: Posterior, data: PyTree, start: PyTree, *, seed: int) -> Climb:
    """To the mode of U from `start`."""
    num_data = jax.tree.leaves(data)[0].shape[0]
    order = np.random.default_rng(seed).permutation(num_data)
    some, spent, at, limit = max(_ROWS, _ROWS_PER_PARAMETER * tree.size(start)), 0.0, start, _FIRST
    while some < num_data // 2:
        part = np.sort(order[:some])
        # The mode of these rows is as far from that of all of them as their standard deviation is long.
        near = (num_data / some) ** 0.5 / _GROWTH
        look = functools.partial(point_at, posterior, data, scale=num_data / some, rows=part)
        stage = _arrive(look, at, limit, near)
        at, spent = stage.point.theta, spent + stage.passes * some / num_data
        some, limit = some * _GROWTH, _LATER
    last = _arrive(functools.partial(point_at, posterior, data), at, limit, _NEAR)
    return dataclasses.replace(last, passes=spent + last.passes)


def _arrive(look: Callable[..., Point], theta: PyTree, limit: int, near: float) -> Climb:
    """By the Hessian; where that does not lead to the mode, from there on by the Fisher information.

    `look` is `point_at` for some rows or all.
    """
    first = _descend(look, theta, limit, near)
    if first.distance <= near:
        return first
    # The Hessian of what has a kink, or is far from convex, says little about how far to go.
    second = _descend(functools.partial(look, fisher=True), first.point.theta, limit, near)
    return Climb(look(second.point.theta), second.distance, first.passes + second.passes + 1)


def point_at(
    posterior: Posterior,
    data: PyTree,
    theta: PyTree,
    *,
    scale: float = 1.0,
    rows: np.ndarray | None = None,
    fisher: bool = False,
) -> Point:
    """Everything at `theta`, with the Fisher information in place of the rows' Hessian if asked for: one pass."""
    value, gradient, hessian = passes.sums(posterior, data, theta, order=1 if fisher else 2, rows=rows)
    hessian = -passes.fisher(posterior, data, theta, rows=rows) if hessian is None else hessian
    prior = passes.prior_sums(posterior, theta)
    total = [-(scale * a + b) for a, b in zip((value, gradient, hessian), prior, strict=True)]
    return Point(theta, float(total[0]), total[1], total[2], (value, gradient, hessian))


def _descend(look: Callable[..., Point], theta: PyTree, limit: int, near: float) -> Climb:
    here, damping, spent, distance = look(theta), 0.0, 1.0, np.inf
    if not here.finite:
        raise ValueError(
            "The log-density must have finite first and second derivatives where the warm-up starts; it has not. "
            "Start somewhere else, or give a sampler."
        )
    while spent < limit:
        step, distance = _step(here, damping)
        if damping == 0 and distance < near:
            break
        moved = tree.ravel(here.theta).astype(float) + jnp.asarray(step)
        there = look(tree.unravel_like(moved, here.theta))
        spent += 1
        # Of a drop that rounding hides, nothing can be said.
        slack, promised = 1e-6 * abs(here.value), -step @ here.gradient / 2
        gain = (here.value - there.value + slack) / (promised + slack)
        if not (gain > 0 and there.finite):
            damping = max(4 * damping, 0.3)
            if not damping < 1e8:
                break
            continue
        here, damping = there, 0.0 if damping < 0.1 else damping / 4 if gain > 0.5 else damping
    return Climb(here, distance, spent)


def _step(here: Point, damping: float) -> tuple[np.ndarray, float]:
    """-(|H| + damping D)^-1 g, with D the diagonal of |H|, and its rms length in the metric of |H|."""
    scale = np.sqrt(np.maximum(np.abs(np.diag(here.hessian)), 1e-30))
    slope, correlation = here.gradient / scale, here.hessian / np.outer(scale, scale)
    if damping == 0 and (root := _root(correlation)) is not None:
        along = np.linalg.solve(root, slope)
        return -np.linalg.solve(root.T, along) / scale, float(np.sqrt(np.mean(along**2)))
    values, vectors = np.linalg.eigh(correlation)
    values = np.maximum(np.abs(values), 1e-10 * np.max(np.abs(values)))
    along = vectors.T @ slope
    step = -(vectors @ (along / (values + damping))) / scale
    return step, float(np.sqrt(np.mean(along**2 / values)))


def _root(correlation: np.ndarray) -> np.ndarray | None:
    """Cholesky's factor, many times cheaper than eigenvectors; `None` where there are flat or negative directions."""
    try:
        root = np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError:
        return None
    return root if np.min(np.diag(root)) ** 2 > _FLAT else None
