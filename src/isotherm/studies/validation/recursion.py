"""Stationary covariances of linear steps x' = F x + noise, x = (theta, p), composed of sub-steps.

A matrix over the parameters has the shape (d, d), or (d, 1, 1) if nothing couples the axes. The recursion then
splits into one small recursion per axis, so that hundreds of dimensions are cheap.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Moves:
    """A linear step x' = F x + G g + w: gradient noise g enters through G, and w has the covariance `white`."""

    F: np.ndarray
    G: np.ndarray
    white: np.ndarray

    def then(self, other: "Moves") -> "Moves":
        """Return this sub-step followed by the other."""
        white = other.F @ self.white @ transposed(other.F) + other.white
        return Moves(other.F @ self.F, other.F @ self.G + other.G, white)

    @property
    def radius(self) -> float:
        """The spectral radius of F."""
        return float(np.max(np.abs(np.linalg.eigvals(self.F))))

    @property
    def relaxation(self) -> float:
        """The relaxation time of the slowest direction, in steps."""
        return float(-1 / np.log(self.radius)) if self.radius < 1 else np.inf


def transposed(x: np.ndarray) -> np.ndarray:
    """Return the transpose of a matrix, or of each matrix in a stack."""
    return np.swapaxes(x, -1, -2)


def drift(inverse_mass: np.ndarray, h: float) -> Moves:
    """Return the sub-step theta' = theta + h M^-1 p."""
    eye, zero = _eye(inverse_mass), np.zeros_like(inverse_mass)
    return _moves(eye, h * inverse_mass, zero, eye, zero)


def friction(keeps: np.ndarray, added: np.ndarray) -> Moves:
    """Return the sub-step p' = `keeps` p + noise of covariance `added`."""
    zero = np.zeros_like(keeps)
    return dataclasses.replace(_moves(_eye(keeps), zero, zero, keeps, zero), white=_lower(added))


def kick(P: np.ndarray, keeps: np.ndarray, pushes: np.ndarray, added: np.ndarray) -> Moves:
    """Return the sub-step p' = `keeps` p + `pushes` (-P theta + g) + noise of covariance `added`."""
    zero = np.zeros_like(P)
    moves = _moves(_eye(P), zero, -pushes @ P, keeps, pushes)
    return dataclasses.replace(moves, white=_lower(added))


def stationary(moves: Moves, noise: np.ndarray, *, carry: float = 0.0, epoch: int = 0) -> np.ndarray:
    """Return the covariance of x under gradient noise of covariance `noise`; NaN if there is no stationary state.

    With an `epoch` it is the mean over the steps of an epoch; the noises of two steps of one epoch then have
    covariance -carry times `noise`.
    """
    F, G = moves.F, moves.G
    if moves.radius >= 1 - 1e-12:
        return np.full_like(F, np.nan)
    injected = G @ noise @ transposed(G)
    if epoch == 0:
        return lyapunov(F, injected + moves.white)
    # x_k = F^k x_0 + sum_j F^(k-1-j) (G g_j + w_j); Cov(g_i, g_j) = -r C for i != j in one epoch.
    power, total = _eye(F), np.zeros_like(G)
    direct, white, after = np.zeros_like(F), np.zeros_like(F), []
    for _ in range(epoch):
        power, total = F @ power, F @ total + G
        direct, white = F @ direct @ F.T + injected, F @ white @ F.T + moves.white
        after.append((power, (1 + carry) * direct - carry * total @ noise @ total.T + white))
    start = lyapunov(*after[-1])
    return np.mean([power @ start @ power.T + W for power, W in after], axis=0)


def lyapunov(F: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the sum of F^k Q F'^k, by doubling, for one recursion or a stack of them."""
    X = Q
    while np.max(np.abs(F)) > 1e-12:
        X = X + F @ X @ transposed(F)
        F = F @ F
    return X


def _moves(tt: np.ndarray, tp: np.ndarray, pt: np.ndarray, pp: np.ndarray, pushes: np.ndarray) -> Moves:
    F = _block([[tt, tp], [pt, pp]])
    return Moves(F, _block([[np.zeros_like(pushes)], [pushes]]), np.zeros_like(F))


def _block(rows: list[list[np.ndarray]]) -> np.ndarray:
    return np.concatenate([np.concatenate(row, axis=-1) for row in rows], axis=-2)


def _lower(x: np.ndarray) -> np.ndarray:
    zero = np.zeros_like(x)
    return _block([[zero, zero], [zero, x]])


def _eye(like: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.eye(like.shape[-1]), like.shape).copy()
