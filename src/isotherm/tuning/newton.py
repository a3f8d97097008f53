"""Newton's method with the full Hessian, which finds the mode for up to about a thousand parameters.

It starts on a subset of the rows, continues on larger subsets and ends on all rows. Where U is not convex, steps
go downhill along directions of negative curvature. Steps that do not lower U are damped (Levenberg-Marquardt).
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

_ROWS_PER_PARAMETER, _ROWS = 30, 4_000  # size of the first subset: the larger of the two
_GROWTH = 4  # ratio of the sizes of successive subsets
_FIRST, _LATER = 60, 8  # most evaluations on the first subset, and on each later one
_FLAT = 1e-8  # smallest squared pivot, with the diagonal scaled to 1
_NEAR = 0.1  # converged once a step is this short (rms, in standard deviations)


@dataclasses.dataclass(frozen=True)
class Point:
    """A position with U, its gradient and its Hessian, in float64 over the ravelled parameters.

    `known` holds the value, gradient and Hessian of the log-likelihood alone.
    """

    theta: PyTree[Array]
    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    known: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def finite(self) -> bool:
        """Whether U, its gradient and its Hessian are finite."""
        return all(bool(np.all(np.isfinite(x))) for x in (self.value, self.gradient, self.hessian))


@dataclasses.dataclass(frozen=True)
class Climb:
    """The end of Newton's method: the last point, its distance from the mode (rms, in sd) and the passes it took."""

    point: Point
    distance: float
    passes: float


def climb(posterior: Posterior, data: PyTree, start: PyTree, *, seed: int) -> Climb:
    """Return the end of Newton's method from `start`: the mode, if `distance` is small."""
    num_data = jax.tree.leaves(data)[0].shape[0]
    order = np.random.default_rng(seed).permutation(num_data)
    count, spent, theta, limit = max(_ROWS, _ROWS_PER_PARAMETER * tree.size(start)), 0.0, start, _FIRST
    while count < num_data // 2:
        subset = np.sort(order[:count])
        # The mode of a subset is about one of its standard deviations away from the mode of all rows.
        near = (num_data / count) ** 0.5 / _GROWTH
        evaluate = functools.partial(point_at, posterior, data, scale=num_data / count, rows=subset)
        stage = _optimise(evaluate, theta, limit, near)
        theta, spent = stage.point.theta, spent + stage.passes * count / num_data
        count, limit = count * _GROWTH, _LATER
    last = _optimise(functools.partial(point_at, posterior, data), theta, limit, _NEAR)
    return dataclasses.replace(last, passes=spent + last.passes)


def _optimise(evaluate: Callable[..., Point], theta: PyTree, limit: int, near: float) -> Climb:
    """Return the end of Newton's method with the Hessian, continued with the Fisher information if that fails.

    `evaluate` is `point_at` on some or all rows.
    """
    first = _newton(evaluate, theta, limit, near)
    if first.distance <= near:
        return first
    # Where U has kinks or is far from convex, the Hessian says little about how long a step should be.
    second = _newton(functools.partial(evaluate, fisher=True), first.point.theta, limit, near)
    return Climb(evaluate(second.point.theta), second.distance, first.passes + second.passes + 1)


def point_at(
    posterior: Posterior,
    data: PyTree,
    theta: PyTree,
    *,
    scale: float = 1.0,
    rows: np.ndarray | None = None,
    fisher: bool = False,
) -> Point:
    """Return U and its derivatives at `theta`, by one pass over the rows.

    With `fisher` the Fisher information replaces the rows' Hessian.
    """
    value, gradient, hessian = passes.sums(posterior, data, theta, order=1 if fisher else 2, rows=rows)
    hessian = -passes.fisher(posterior, data, theta, rows=rows) if hessian is None else hessian
    prior = passes.prior_sums(posterior, theta)
    total = [-(scale * a + b) for a, b in zip((value, gradient, hessian), prior, strict=True)]
    return Point(theta, float(total[0]), total[1], total[2], (value, gradient, hessian))


def _newton(evaluate: Callable[..., Point], theta: PyTree, limit: int, near: float) -> Climb:
    current, damping, spent, distance = evaluate(theta), 0.0, 1.0, np.inf
    if not current.finite:
        raise ValueError(
            "The log-density must have finite first and second derivatives at `init`; it does not. "
            "Choose another `init`, or give a sampler."
        )
    while spent < limit:
        step, distance = _step(current, damping)
        if damping == 0 and distance < near:
            break
        moved = tree.ravel(current.theta).astype(float) + jnp.asarray(step)
        proposal = evaluate(tree.unravel_like(moved, current.theta))
        spent += 1
        # A drop in U that rounding may hide counts as neither gain nor loss.
        slack, promised = 1e-6 * abs(current.value), -step @ current.gradient / 2
        gain = (current.value - proposal.value + slack) / (promised + slack)
        if not (gain > 0 and proposal.finite):
            damping = max(4 * damping, 0.3)
            if not damping < 1e8:
                break
            continue
        current, damping = proposal, 0.0 if damping < 0.1 else damping / 4 if gain > 0.5 else damping
    return Climb(current, distance, spent)


def _step(current: Point, damping: float) -> tuple[np.ndarray, float]:
    """Return -(|H| + damping D)^-1 g, with D the diagonal of |H|, and its rms length in the metric of |H|."""
    scale = np.sqrt(np.maximum(np.abs(np.diag(current.hessian)), 1e-30))
    slope, correlation = current.gradient / scale, current.hessian / np.outer(scale, scale)
    if damping == 0 and (root := _root(correlation)) is not None:
        along = np.linalg.solve(root, slope)
        return -np.linalg.solve(root.T, along) / scale, float(np.sqrt(np.mean(along**2)))
    values, vectors = np.linalg.eigh(correlation)
    values = np.maximum(np.abs(values), 1e-10 * np.max(np.abs(values)))
    along = vectors.T @ slope
    step = -(vectors @ (along / (values + damping))) / scale
    return step, float(np.sqrt(np.mean(along**2 / values)))


def _root(correlation: np.ndarray) -> np.ndarray | None:
    """Return the Cholesky factor, far cheaper than eigenvectors; `None` if a direction is flat or negative."""
    try:
        root = np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError:
        return None
    return root if np.min(np.diag(root)) ** 2 > _FLAT else None
