"""Coordinates in which the posterior is nearly round, from its curvature at the mode.

The curvature is the Hessian of U. Where that is not positive, or does not tell how the gradient changes over a
standard deviation (as with errors of Laplace's distribution, whose second derivative is zero), it is the Fisher
information of the rows and the curvature of the prior.
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
from isotherm.tuning.record import NotNormal, as_leaf

_AGREES = 3.0  # times as large may the change of the gradient be as the Hessian says
_NORMAL = 10.0  # times as large, by the Fisher information, and the posterior is nothing like a normal one
_FLAT = 1e-9  # of the largest eigenvalue, on the scale of the diagonal: below it a direction counts as flat


@dataclasses.dataclass(frozen=True)
class Metric:
    """Coordinates, in words as well, and the largest and smallest curvature that was met in them."""

    preconditioner: DensePreconditioner
    kind: str
    note: str
    stiffest: float
    slowest: float
    passes: float


def find_metric(posterior: Posterior, data: PyTree, top: Climb, *, key: Key[Array, ""]) -> Metric | NotNormal:
    """The coordinates for a posterior with its mode at `top`, if it is nearly normal there."""
    hessian = top.point.hessian
    flat = _flat_directions(hessian)
    condition = f"condition number {_condition(hessian):.3g}"
    if not flat:
        preconditioner = whitened(hessian, top.point.theta)
        grows, stiffest, slowest = _stretch(posterior, data, top, preconditioner, key=key)
        note = f"Hessian of all rows at the mode, {condition}"
        if grows <= _AGREES:
            return Metric(preconditioner, "dense, Hessian", note, stiffest, slowest, 1.0)
        why = f"over a standard deviation the gradient changes {grows:.2g} times as much as the Hessian says"
    else:
        why = f"the Hessian is not positive in {flat} directions"
    # The Hessian of the log-prior is what the rows leave of the whole.
    prior = np.linalg.eigh(hessian + top.point.known[2])
    prior_part = (prior.eigenvectors * np.maximum(prior.eigenvalues, 0)) @ prior.eigenvectors.T
    fisher = passes.fisher(posterior, data, top.point.theta) + prior_part
    preconditioner = whitened(fisher, top.point.theta)
    grows, stiffest, slowest = _stretch(posterior, data, top, preconditioner, key=key)
    note, cost = f"Fisher information of all rows and prior: {why}", 3.0 - (flat > 0)
    if grows <= _NORMAL:
        return Metric(preconditioner, "dense, Fisher", note, max(stiffest, grows), slowest, cost)
    return NotNormal(f"{why}, and {grows:.2g} times as much as the Fisher information says")


def whitened(curvature: np.ndarray, center: PyTree[Array]) -> DensePreconditioner:
    """L = K^-1/2 for a curvature K = D R D with unit diagonal R, as D^-1 R^-1/2: v_j is nearest to parameter j."""
    scale = np.sqrt(np.maximum(np.abs(np.diag(curvature)), 1e-30))
    values, vectors = np.linalg.eigh(curvature / np.outer(scale, scale))
    values = np.maximum(values, _FLAT * values[-1])
    root = (vectors / np.sqrt(values)) @ vectors.T / scale[:, None]
    inverse = (vectors * np.sqrt(values)) @ vectors.T * scale[None, :]
    return DensePreconditioner(center, as_leaf(root, center), as_leaf(inverse, center))


def _flat_directions(hessian: np.ndarray) -> int:
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1e-30))
    values = np.linalg.eigvalsh(hessian / np.outer(scale, scale))
    return int(np.sum(values < _FLAT * np.max(np.abs(values))))


def _condition(hessian: np.ndarray) -> float:
    values = np.abs(np.linalg.eigvalsh(hessian))
    return float(values[-1] / max(values[0], 1e-300))


def _stretch(
    posterior: Posterior,
    data: PyTree,
    top: Climb,
    preconditioner: DensePreconditioner,
    *,
    key: Key[Array, ""],
) -> tuple[float, float, float]:
    """At one point of the posterior: how the gradient has changed, over v; largest and smallest curvature."""
    center, root = preconditioner.center, np.asarray(preconditioner.root, np.float64)
    # With numpy, for which nothing is compiled.
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    v = float(posterior.temperature) ** 0.5 * rng.standard_normal(len(root))
    theta = np.asarray(tree.ravel(center), np.float64) + root @ v
    there = point_at(posterior, data, tree.unravel_like(as_leaf(theta, center), center))
    change = root.T @ (there.gradient - top.point.gradient)
    if not np.all(np.isfinite(there.hessian)) or not np.all(np.isfinite(change)):
        return np.inf, 1.0, 1.0
    grows = np.linalg.norm(change) / np.linalg.norm(v)
    values = np.linalg.eigvalsh(root.T @ there.hessian @ root)
    return float(grows), max(1.0, float(values[-1])), float(np.clip(values[0], 0.1, 1.0))
