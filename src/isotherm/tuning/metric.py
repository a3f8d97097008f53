"""Coordinates in which the posterior is nearly isotropic, from its curvature at the mode.

The curvature is the Hessian of U. If the Hessian is not positive definite, or does not predict how the gradient
changes over a standard deviation (as with Laplace errors, whose second derivative is zero), the curvature is the
Fisher information of the rows plus the curvature of the prior.
"""

import dataclasses

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.posterior import Posterior
from isotherm.preconditioner import DensePreconditioner
from isotherm.sums import passes
from isotherm.tuning.newton import Climb, point_at

_AGREES = 3.0  # the Hessian is used if the gradient changes at most this many times as much as it predicts
_NORMAL = 10.0  # the same for the Fisher information; beyond it the posterior is not nearly normal
_FLAT = 1e-9  # eigenvalues below this share of the largest count as flat, with the diagonal scaled to 1


@dataclasses.dataclass(frozen=True)
class NotNormal:
    """The posterior is not nearly normal around one mode; `why` gives the evidence."""

    why: str


@dataclasses.dataclass(frozen=True)
class Metric:
    """Coordinates, their description, the largest and smallest curvature measured in them, and the passes it took."""

    preconditioner: DensePreconditioner
    kind: str
    note: str
    stiffest: float
    slowest: float
    passes: float


def find_metric(posterior: Posterior, data: PyTree, top: Climb, *, key: Key[Array, ""]) -> Metric | NotNormal:
    """Return coordinates for a posterior with its mode at `top`, or why it is not nearly normal."""
    hessian = top.point.hessian
    flat = _flat_directions(hessian)
    condition = f"condition number {_condition(hessian):.3g}"
    if not flat:
        preconditioner = whitened(hessian, top.point.theta)
        growth, stiffest, slowest = _change_over_one_sd(posterior, data, top, preconditioner, key=key)
        note = f"Hessian of all rows at the mode, {condition}"
        if growth <= _AGREES:
            return Metric(preconditioner, "dense, Hessian", note, stiffest, slowest, 1.0)
        why = f"over a standard deviation the gradient changes {growth:.2g} times as much as the Hessian predicts"
    else:
        why = f"the Hessian is not positive in {flat} of {len(hessian)} directions"
    # The Hessian of U less the contribution of the rows, which leaves that of the prior.
    prior = np.linalg.eigh(hessian + top.point.known[2])
    prior_part = (prior.eigenvectors * np.maximum(prior.eigenvalues, 0)) @ prior.eigenvectors.T
    fisher = passes.fisher(posterior, data, top.point.theta) + prior_part
    preconditioner = whitened(fisher, top.point.theta)
    growth, stiffest, slowest = _change_over_one_sd(posterior, data, top, preconditioner, key=key)
    note = f"Fisher information of all rows plus curvature of the prior, since {why}"
    cost = 3.0 - (flat > 0)
    if growth <= _NORMAL:
        return Metric(preconditioner, "dense, Fisher", note, max(stiffest, growth), slowest, cost)
    return NotNormal(
        f"{why}, and the gradient changes {growth:.2g} times as much as the Fisher information predicts"
    )


def whitened(curvature: np.ndarray, center: PyTree[Array]) -> DensePreconditioner:
    """Return coordinates with L = K^-1/2 for a curvature K = D R D, where R has a unit diagonal.

    L is D^-1 R^-1/2, the root for which v_j is closest to parameter j.
    """
    scale = np.sqrt(np.maximum(np.abs(np.diag(curvature)), 1e-30))
    values, vectors = np.linalg.eigh(curvature / np.outer(scale, scale))
    values = np.maximum(values, _FLAT * values[-1])
    root = (vectors / np.sqrt(values)) @ vectors.T / scale[:, None]
    inverse = (vectors * np.sqrt(values)) @ vectors.T * scale[None, :]
    return DensePreconditioner(center, tree.as_ravelled(root, center), tree.as_ravelled(inverse, center))


def _flat_directions(hessian: np.ndarray) -> int:
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1e-30))
    values = np.linalg.eigvalsh(hessian / np.outer(scale, scale))
    return int(np.sum(values < _FLAT * np.max(np.abs(values))))


def _condition(hessian: np.ndarray) -> float:
    values = np.abs(np.linalg.eigvalsh(hessian))
    return float(values[-1] / max(values[0], 1e-300))


def _change_over_one_sd(
    posterior: Posterior,
    data: PyTree,
    top: Climb,
    preconditioner: DensePreconditioner,
    *,
    key: Key[Array, ""],
) -> tuple[float, float, float]:
    """Return the gradient's change per unit of v at one random point, and the extreme curvatures at that point."""
    center, root = preconditioner.center, np.asarray(preconditioner.root, np.float64)
    # NumPy, so that nothing is compiled.
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    v = float(posterior.temperature) ** 0.5 * rng.standard_normal(len(root))
    theta = np.asarray(tree.ravel(center), np.float64) + root @ v
    point = point_at(posterior, data, tree.unravel_like(tree.as_ravelled(theta, center), center))
    change = root.T @ (point.gradient - top.point.gradient)
    if not np.all(np.isfinite(point.hessian)) or not np.all(np.isfinite(change)):
        return np.inf, 1.0, 1.0
    growth = np.linalg.norm(change) / np.linalg.norm(v)
    values = np.linalg.eigvalsh(root.T @ point.hessian @ root)
    return float(growth), max(1.0, float(values[-1])), float(np.clip(values[0], 0.1, 1.0))
