"""Newton's method with the full Hessian, which finds the mode for up to about a thousand parameters.

It starts on a few of the rows, continues on more and ends on all of them. Every evaluation is made in coordinates
theta = center + L v, with L from the curvature at the last one, so that the Hessian is near the identity and nothing
cancels, however the columns of the data are scaled and correlated. Where U is not convex, steps go downhill along
directions of negative curvature. Steps that do not lower U are damped (Levenberg-Marquardt).
"""

import dataclasses
import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.posterior import Posterior
from isotherm.preconditioner import DensePreconditioner, in_coordinates
from isotherm.sums.fold import Part, largest_part, num_rows
from isotherm.sums.totals import Second, derivatives, prior_derivatives

_ROWS_PER_PARAMETER, _ROWS = 30, 4_000  # size of the first part of the rows: the larger of the two
_GROWTH = 4  # ratio of the sizes of successive parts
_FIRST, _LATER = 60, 8  # most evaluations on the first part and on all rows, and on the parts between them
_NEAR = 0.1  # converged once a step is this short (rms, in standard deviations)
_RESOLVED = 1e-4  # largest error of a Hessian's smallest eigenvalue, by its condition number and the rounding
_WHITE = 0.1  # largest difference from the identity of a Hessian that counts as whitened
_REFINEMENTS = 2  # most evaluations that only improve the coordinates


@dataclasses.dataclass(frozen=True)
class Point:
    """U with its gradient and its Hessian with respect to v, at v = 0 of the coordinates `frame`.

    Numbers are float64. `known` holds value, gradient and Hessian of the log-likelihood alone.
    """

    frame: DensePreconditioner
    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    known: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def theta(self) -> PyTree[Array]:
        """The parameters."""
        return self.frame.center

    @property
    def finite(self) -> bool:
        """Whether U, its gradient and its Hessian are finite."""
        return all(bool(np.all(np.isfinite(x))) for x in (self.value, self.gradient, self.hessian))

    def turned(self, by: np.ndarray, inverse: np.ndarray) -> "Point":
        """Return the same point in coordinates w with v = `by` w."""
        value, gradient, hessian = self.known
        return Point(
            frame=turned(self.frame, by, inverse),
            value=self.value,
            gradient=by.T @ self.gradient,
            hessian=by.T @ self.hessian @ by,
            known=(value, by.T @ gradient, by.T @ hessian @ by),
        )


@dataclasses.dataclass(frozen=True)
class Climb:
    """The end of Newton's method: the last point, its distance from the mode (rms, in sd) and the passes it took."""

    point: Point
    distance: float
    passes: float


def climb(posterior: Posterior, data: PyTree, start: PyTree, *, key: Key[Array, ""]) -> Climb:
    """Return the end of Newton's method from `start`: the mode, if `distance` is small.

    The end is in coordinates whose rounding does not spoil its Hessian.
    """
    N, frame, spent = num_rows(data), _unit(start), 0.0
    count, limit = max(_ROWS, _ROWS_PER_PARAMETER * tree.size(start)), _FIRST
    while count < N // 2 and count <= largest_part(data):
        # The mode of a part is about one of its standard deviations away from the mode of all rows.
        near = (N / count) ** 0.5 / _GROWTH
        evaluate = functools.partial(point_at, posterior, data, part=Part(key, count))
        stage = _optimise(evaluate, frame, limit, near)
        frame, spent = stage.point.frame, spent + stage.passes * count / N
        count, limit = count * _GROWTH, _LATER
    evaluate = functools.partial(point_at, posterior, data)
    last = _refined(evaluate, _optimise(evaluate, frame, _FIRST, _NEAR))
    return dataclasses.replace(last, passes=spent + last.passes)


def point_at(
    posterior: Posterior,
    data: PyTree,
    frame: DensePreconditioner,
    *,
    part: Part | None = None,
    second: Second = "hessian",
) -> Point:
    """Return U and its derivatives at the center of `frame`, by one pass over the rows.

    With `part`, sums over these random rows stand for all. With `second="fisher"` the Fisher information replaces the
    rows' Hessian.
    """
    density, zero = in_coordinates(posterior, frame), tree.put_zeros_like(frame.center)
    value, gradient, hessian = derivatives(density, data, zero, second=second, part=part)
    assert hessian is not None
    scale = 1.0 if part is None else num_rows(data) / part.count
    prior = prior_derivatives(density, zero)
    total = [-(scale * a + b) for a, b in zip((value, gradient, hessian), prior, strict=True)]
    return Point(frame, float(total[0]), total[1], total[2], (value, gradient, hessian))


def closer(
    posterior: Posterior, data: PyTree, point: Point, index: np.ndarray, *, near: float, tries: int
) -> tuple[Point, int]:
    """Return a point closer to the mode, in coordinates that whiten its Hessian, and the passes it took.

    Newton's steps are repeated until the coordinates at `index` move by less than `near` standard deviations, at most
    `tries` times. `point` itself is returned if its coordinates do not whiten its Hessian, as where that does not
    describe the posterior, and if a step does not lower U.
    """
    if not np.allclose(point.hessian, np.eye(len(point.gradient)), atol=_WHITE):
        return point, 0
    T, eps = float(posterior.temperature), _eps(point.frame)
    for spent in range(tries):
        if np.max(np.abs(point.gradient[index])) < near * T**0.5:
            return point, spent
        proposal = point_at(posterior, data, moved(point.frame, -point.gradient))
        if not (proposal.finite and proposal.value <= point.value + 10 * eps * abs(point.value)):
            return point, spent + 1
        point = proposal.turned(*whitening(proposal.hessian, 0.0, eps))
    return point, tries


def turned(frame: DensePreconditioner, by: np.ndarray, inverse: np.ndarray) -> DensePreconditioner:
    """Return the coordinates w with v = `by` w; `inverse` is the inverse of `by`."""
    root = np.asarray(frame.root, np.float64) @ by
    back = inverse @ np.asarray(frame.inverse, np.float64)
    as_array = lambda x: tree.as_ravelled(x, frame.center)
    return DensePreconditioner(frame.center, as_array(root), as_array(back))


def moved(frame: DensePreconditioner, v: np.ndarray) -> DensePreconditioner:
    """Return coordinates with their center at `v`."""
    theta = tree.flat(frame.center) + np.asarray(frame.root, np.float64) @ v
    return DensePreconditioner(tree.put_like(theta, frame.center), frame.root, frame.inverse)


def _unit(start: PyTree) -> DensePreconditioner:
    eye = tree.as_ravelled(np.eye(tree.size(start)), start)
    return DensePreconditioner(start, eye, eye)


def _optimise(evaluate: Callable[..., Point], frame: DensePreconditioner, limit: int, near: float) -> Climb:
    """Return the end of Newton's method with the Hessian, continued with the Fisher information if that fails.

    `evaluate` is `point_at` on some or all rows.
    """
    first = _newton(evaluate, frame, limit, near)
    if first.distance <= near:
        return first
    # Where U has kinks or is far from convex, the Hessian says little about how long a step should be.
    second = _newton(functools.partial(evaluate, second="fisher"), first.point.frame, limit, near)
    return Climb(evaluate(second.point.frame), second.distance, first.passes + second.passes + 1)


def _newton(evaluate: Callable[..., Point], frame: DensePreconditioner, limit: int, near: float) -> Climb:
    current, spent, damping = evaluate(frame), 1.0, 0.0
    distance = np.inf
    eps = _eps(frame)
    while spent < limit and current.finite:
        root, inverse = whitening(current.hessian, damping, eps)
        step = -root.T @ current.gradient  # in the new coordinates
        if damping == 0:
            distance = float(np.sqrt(np.mean(step**2)))
            if distance < near:
                break
        proposal = evaluate(moved(turned(current.frame, root, inverse), step))
        spent += 1
        # A drop in U that rounding may hide counts as neither gain nor loss.
        slack, promised = 10 * eps * abs(current.value), float(step @ step) / 2
        gain = (current.value - proposal.value + slack) / (promised + slack)
        if not (gain > 0 and proposal.finite):
            damping = max(4 * damping, 0.3)
            if not damping < 1e8:
                break
            continue
        current, damping = proposal, 0.0 if damping < 0.1 else damping / 4 if gain > 0.5 else damping
    return Climb(current, distance, spent)


def _refined(evaluate: Callable[..., Point], end: Climb) -> Climb:
    """Return the end in coordinates in which its Hessian is known well, by further passes if need be."""
    point, spent = end.point, 0
    for _ in range(_REFINEMENTS):
        if not point.finite or _condition(point.hessian) * _eps(point.frame) < _RESOLVED:
            break
        by = whitening(point.hessian, 0.0, _eps(point.frame))
        point, spent = evaluate(turned(point.frame, *by)), spent + 1
    distance = end.distance
    if spent and point.finite:
        step = whitening(point.hessian, 0.0, _eps(point.frame))[0].T @ point.gradient
        distance = float(np.sqrt(np.mean(step**2)))
    return Climb(point, distance, end.passes + spent)


def whitening(matrix: np.ndarray, damping: float, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return W with W W' = (|matrix| + damping D)^-1, where D is the diagonal of |matrix|, and its inverse.

    Without damping W is D^-1/2 R^-1/2, with R scaled to a unit diagonal: the root whose columns are closest to the
    axes. Eigenvalues of R that rounding to `eps` hides are set to the smallest that it does not.
    """
    scale = np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1e-300))
    scale = np.where(scale > 1e-150, scale, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    values = np.abs(values)
    values = np.maximum(values, 30 * len(values) * eps * np.max(values)) + damping
    root = (vectors / np.sqrt(values)) @ vectors.T
    inverse = (vectors * np.sqrt(values)) @ vectors.T
    return root / scale[:, None], inverse * scale[None, :]


def _condition(matrix: np.ndarray) -> float:
    """Return the condition number of a matrix after scaling its diagonal to 1."""
    scale = np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1e-300))
    values = np.abs(np.linalg.eigvalsh(matrix / np.outer(scale, scale)))
    return float(np.max(values) / max(float(np.min(values)), 1e-300))


def _eps(frame: DensePreconditioner) -> float:
    """Return the rounding error of the numbers in which rows are evaluated."""
    return float(jnp.finfo(frame.root.dtype).eps)
