"""Coordinates in which the posterior is nearly isotropic, from its curvature at the mode.

The curvature is the Hessian of U. If the Hessian is not positive definite, or does not predict how the gradient
changes over a standard deviation (as with Laplace errors, whose second derivative is zero), the curvature is the
Fisher information of the rows plus the curvature of the prior.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.posterior import Posterior
from isotherm.preconditioner import DensePreconditioner, in_coordinates
from isotherm.sums.fold import Part, largest_part, num_rows
from isotherm.sums.totals import derivatives, prior_derivatives, prior_gradients, values_and_gradients
from isotherm.tuning.newton import Climb, Point, turned, whitening

_AGREES = 3.0  # the Hessian is used if the gradient changes at most this many times as much as it predicts
_NORMAL = 10.0  # the same for the Fisher information; beyond it the posterior is not nearly normal
_FLAT = 1e-3  # in coordinates where curvatures should be 1: those below this count as flat
_ROWS, _ROWS_PER_PARAMETER = 2048, 5  # random rows by which gradients are compared: the sum of both
_MOVES = 4  # random points at which they are compared with those at the mode


@dataclasses.dataclass(frozen=True)
class Metric:
    """Coordinates, their description, the least that their largest curvature is known to be, and the passes it took.

    `point` is the mode in these coordinates.
    """

    point: Point
    kind: str
    note: str
    stiffest: float
    passes: float

    @property
    def preconditioner(self) -> DensePreconditioner:
        """The coordinates."""
        return self.point.frame


@dataclasses.dataclass(frozen=True)
class NotNormal:
    """The posterior is not nearly normal around one mode; `why` gives the evidence."""

    why: str


def find_metric(posterior: Posterior, data: PyTree, top: Climb, *, key: Key[Array, ""]) -> Metric | NotNormal:
    """Return coordinates for a posterior with its mode at `top`, or why it is not nearly normal."""
    if not top.point.finite:
        return NotNormal("the log-density or a derivative of it is not finite near `init`")
    flat = _flat_directions(top.point.hessian)
    condition = f"condition number {_condition(top.point):.3g}"
    if not flat:
        point = _whitened(top.point, top.point.hessian)
        growth, spent = _growth(posterior, data, point, key=key)
        note = f"Hessian of all rows at the mode, {condition}"
        if growth <= _AGREES:
            return Metric(point, "dense, Hessian", note, 1.0, spent)
        why = f"over a standard deviation the gradient changes {growth:.2g} times as much as the Hessian predicts"
    else:
        spent = 0.0
        why = f"the Hessian is not positive in {flat} of {len(top.point.hessian)} directions"
    density = in_coordinates(posterior, top.point.frame)
    zero = tree.put_zeros_like(top.point.theta)
    prior = np.linalg.eigh(-prior_derivatives(density, zero)[2])
    prior_part = (prior.eigenvectors * np.maximum(prior.eigenvalues, 0)) @ prior.eigenvectors.T
    information = derivatives(density, data, zero, second="fisher")[2]
    assert information is not None
    point = _whitened(top.point, prior_part - information)
    growth, more = _growth(posterior, data, point, key=key)
    note = f"Fisher information of all rows plus curvature of the prior, since {why}"
    if growth <= _NORMAL:
        return Metric(point, "dense, Fisher", note, max(1.0, growth), spent + 1 + more)
    return NotNormal(
        f"{why}, and the gradient changes {growth:.2g} times as much as the Fisher information predicts"
    )


def _whitened(point: Point, curvature: np.ndarray) -> Point:
    """Return the point in coordinates in which `curvature`, given in its present ones, is the identity."""
    eps = float(jnp.finfo(point.frame.root.dtype).eps)
    return point.turned(*whitening(curvature, 0.0, eps))


def _flat_directions(hessian: np.ndarray) -> int:
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1e-300))
    values = np.linalg.eigvalsh(hessian / np.outer(scale, scale))
    return int(np.sum(values < _FLAT * 1e-6 * np.max(np.abs(values))))


def _condition(point: Point) -> float:
    """Return the condition number of the Hessian with respect to the parameters, by way of its inverse root."""
    by = whitening(point.hessian, 0.0, 1e-16)
    values = np.linalg.svd(np.asarray(turned(point.frame, *by).root, np.float64), compute_uv=False)
    return float((values[0] / max(values[-1], 1e-300)) ** 2)


def _growth(posterior: Posterior, data: PyTree, point: Point, *, key: Key[Array, ""]) -> tuple[float, float]:
    """Return the gradient's change over random moves in v, divided by the moves (rms), and the passes it took.

    It is 1 if the posterior is normal, and is estimated from some of the rows.
    """
    T, N, size = float(posterior.temperature), num_rows(data), len(point.gradient)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))  # NumPy, so that nothing is compiled
    v = np.vstack([np.zeros(size), T**0.5 * rng.standard_normal((_MOVES, size))])
    count = min(largest_part(data), _ROWS + _ROWS_PER_PARAMETER * size)
    density = in_coordinates(posterior, point.frame)
    points = tree.put_like(v, point.theta)
    _, rows = values_and_gradients(density, data, points, part=Part(key, count))
    gradients = N / count * rows + prior_gradients(density, points)[1]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite: far from normal
        change = np.linalg.norm(gradients[1:] - gradients[0], axis=1) / np.linalg.norm(v[1:], axis=1)
        growth = float(np.sqrt(np.mean(change**2)))
    return growth if math.isfinite(growth) else math.inf, count / N
