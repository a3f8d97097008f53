"""What a scheme should give at its finite step: the exact moments of its linear recursion.

On a Gaussian target a step is linear, x' = F x + eta with x = (theta, p), so its stationary covariance solves
X = F X F' + Cov(eta). This holds for noise that depends on theta too, with the mean of its covariance. It is
written here from the equations and shares no code with the samplers.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import optimize

from isotherm.covariance import Covariance, Dense, Diagonal
from isotherm.samplers import SGHMC, SGLD, SGNHT, CCAdL, ModifiedSGLD, Sampler


@dataclasses.dataclass(frozen=True)
class Linear:
    """U = theta' P theta / 2, diagonal mass m, noisy force of mean covariance C, temperature T.

    `carry` is r where the noises of two steps of one epoch have covariance -r C, and `epoch` its steps; both
    are 0 for white noise.
    """

    P: np.ndarray
    m: np.ndarray
    C: np.ndarray
    T: float = 1.0
    carry: float = 0.0
    epoch: int = 0


@dataclasses.dataclass(frozen=True)
class Stationary:
    """Covariance of theta and, where there is one, of M^-1/2 p; its mean eigenvalue; the mean of xi.

    `clipped` counts directions in which the added noise would need a negative variance; `relaxation` is the
    number of steps in which the slowest direction forgets where it was.
    """

    covariance: np.ndarray
    momentum: np.ndarray | None = None
    xi: float | None = None
    clipped: int = 0
    relaxation: float = np.nan

    @property
    def kinetic(self) -> float:
        """The kinetic temperature."""
        if self.momentum is None:
            raise AttributeError("dynamics without a momentum have no kinetic temperature")
        return float(np.trace(self.momentum)) / len(self.momentum)

    @property
    def finite(self) -> bool:
        """Whether there is a stationary state at all."""
        return bool(np.all(np.isfinite(self.covariance)))


def predict(sampler: Sampler, model: Linear) -> Stationary | None:
    """The stationary moments of `sampler`, whose hyper-parameters are numbers; `None` where none are derived.

    The sampler's own estimate tends to C, of which it sees what its kind of covariance keeps.
    """
    C_hat = _kept(getattr(sampler, "covariance", None), model.C)
    if C_hat is None:
        return None
    h = number(sampler.step_size)
    match sampler:
        case SGLD():
            return sgld(model, h, C_hat)
        case ModifiedSGLD():
            return sgld(model, h, C_hat, first_order=sampler.form == "first-order")
        case SGHMC(scheme="euler"):
            return sghmc(model, h, number(sampler.friction), C_hat)
        case SGNHT(scheme="euler") | CCAdL(scheme="euler"):
            mu = number(len(model.m) if sampler.thermal_mass is None else sampler.thermal_mass)
            return thermostatted(model, h, number(sampler.friction), C_hat, mu=mu)
    return None


def number(hyper: Any) -> float:
    """A hyper-parameter that is no schedule."""
    return float(hyper)


def _kept(covariance: Covariance | None, C: np.ndarray) -> np.ndarray | None:
    match covariance:
        case None:
            return np.zeros_like(C)
        case Diagonal():
            return np.diag(np.diag(C))
        case Dense():
            return C
    return None


def sgld(model: Linear, h: float, C_hat: np.ndarray, *, first_order: bool = False) -> Stationary:
    """SGLD (`C_hat` zero) and modified SGLD: theta' = (I - h P) theta + noise. The mass plays no part."""
    eye = np.eye(len(model.P))
    if first_order:
        root, clipped = eye - h / (4 * model.T) * C_hat, 0
        added = 2 * h * model.T * root @ root
    else:
        remainder, clipped = _positive(eye - h / (2 * model.T) * C_hat)
        added = 2 * h * model.T * remainder
    F = eye - h * model.P
    X = _stationary(F, eye, h**2 * model.C, added, model)
    return Stationary(X, clipped=clipped, relaxation=_relaxation(F))


def sghmc(model: Linear, h: float, A: float, C_hat: np.ndarray) -> Stationary:
    """SGHMC with the estimate `C_hat` (zero: none): damping A, noise h^2 C + 2 h T (A M - h C_hat / 2 T)."""
    root = np.sqrt(model.m)
    white = C_hat / np.outer(root, root)
    remainder, clipped = _positive(np.eye(len(root)) - h / (2 * A * model.T) * white)
    added = 2 * h * A * model.T * remainder * np.outer(root, root)
    return dataclasses.replace(_momentum(model, h, A * np.eye(len(root)), added), clipped=clipped)


def frozen(model: Linear, h: float, A: float, *, xi: float, C_hat: np.ndarray) -> Stationary:
    """SGNHT (`C_hat` zero) and CCAdL with an infinite thermal mass: damping xi + (h / 2 T) C_hat M^-1."""
    damping = xi * np.eye(len(model.m)) + h / (2 * model.T) * C_hat / model.m
    added = 2 * h * A * model.T * np.diag(model.m)
    return dataclasses.replace(_momentum(model, h, damping, added), xi=xi)


def thermostatted(model: Linear, h: float, A: float, C_hat: np.ndarray, *, mu: float = np.inf) -> Stationary:
    """The same with xi at the mean that makes the kinetic temperature T, which a thermostat enforces exactly.

    That xi fluctuates, with variance T / mu, is left out of the moments: where the target is preserved xi and
    the rest are independent, and they move by terms of order h T / mu; where it is not, departures soften by
    terms of order T / mu. The mean of xi itself is lower by h T / (2 mu): xi has just felt the p that it damps,
    Cov(xi, p'M^-1 p) = h N_d T^2 / mu, half of which its variance takes back in E[(1 - h xi)^2].
    """

    def excess(xi: float) -> float:
        state = frozen(model, h, A, xi=xi, C_hat=C_hat)
        return state.kinetic - model.T if state.finite else np.inf

    # From strong friction downwards, still below 1/h where the recursion turns over, to the first xi that is hot.
    grid = np.linspace(0.9, -0.9, 37) / h
    values = np.array([excess(xi) for xi in grid])
    cold = np.flatnonzero(values <= 0)
    hot = np.flatnonzero(values[cold[0] :] > 0) if len(cold) else []
    if not len(hot):
        return Stationary(np.full_like(model.P, np.nan), np.full_like(model.P, np.nan), np.nan)
    last = cold[0] + hot[0]
    xi = number(optimize.bisect(excess, grid[last], grid[last - 1], xtol=1e-10 / h))
    return dataclasses.replace(frozen(model, h, A, xi=xi, C_hat=C_hat), xi=xi - h * model.T / (2 * mu))


def _positive(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T, int(np.sum(values < 0))


def _momentum(model: Linear, h: float, damping: np.ndarray, added: np.ndarray) -> Stationary:
    """theta' = theta + h M^-1 p, p' = p - h damping p - h P theta' + eta."""
    d, P, m = len(model.m), model.P, model.m
    if model.epoch == 0 and all(_is_diagonal(x) for x in (P, model.C, damping, added)):
        return _momentum_by_axis(model, h, np.diag(damping), np.diag(added))
    drift = np.hstack([np.eye(d), h * np.diag(1 / m)])
    F = np.vstack([drift, np.hstack([np.zeros((d, d)), np.eye(d) - h * damping]) - h * P @ drift])
    G = np.vstack([np.zeros((d, d)), np.eye(d)])
    X = _stationary(F, G, h**2 * model.C, added, model)
    root = np.sqrt(m)
    return Stationary(X[:d, :d], X[d:, d:] / np.outer(root, root), relaxation=_relaxation(F))


def _momentum_by_axis(model: Linear, h: float, damping: np.ndarray, added: np.ndarray) -> Stationary:
    """`_momentum` where nothing couples the axes: as many recursions of two numbers, for many dimensions."""
    P, m, one = np.diag(model.P), model.m, np.ones(len(model.m))
    F = np.array([[one, h / m], [-h * P, one - h * damping - h**2 * P / m]]).transpose(2, 0, 1)
    if np.max(np.abs(np.linalg.eigvals(F))) >= 1 - 1e-12:
        return Stationary(np.full_like(model.P, np.nan), np.full_like(model.P, np.nan))
    Q = np.zeros((len(m), 2, 2))
    Q[:, 1, 1] = h**2 * np.diag(model.C) + added
    X = _lyapunov(F, Q)
    return Stationary(np.diag(X[:, 0, 0]), np.diag(X[:, 1, 1] / m), relaxation=_relaxation(F))


def _is_diagonal(x: np.ndarray) -> bool:
    return not np.any(x - np.diag(np.diag(x)))


def _stationary(
    F: np.ndarray, G: np.ndarray, noise: np.ndarray, added: np.ndarray, model: Linear
) -> np.ndarray:
    """The covariance of x' = F x + G (gradient noise + added noise), a mean over the epoch where there is one."""
    if np.max(np.abs(np.linalg.eigvals(F))) >= 1 - 1e-12:
        return np.full_like(F, np.nan)
    if model.epoch == 0:
        return _lyapunov(F, G @ (noise + added) @ G.T)
    # x_k = F^k x_0 + sum_j F^(k-1-j) G (g_j + white); Cov(g_i, g_j) = -r C for i != j in one epoch.
    r, size = model.carry, len(F)
    power, total = np.eye(size), np.zeros_like(G)
    own, white, after = np.zeros((size, size)), np.zeros((size, size)), []
    for _ in range(model.epoch):
        power, total = F @ power, F @ total + G
        own, white = F @ own @ F.T + G @ noise @ G.T, F @ white @ F.T + G @ added @ G.T
        after.append((power, (1 + r) * own - r * total @ noise @ total.T + white))
    start = _lyapunov(*after[-1])
    return np.mean([power @ start @ power.T + W for power, W in after], axis=0)


def _relaxation(F: np.ndarray) -> float:
    radius = np.max(np.abs(np.linalg.eigvals(F)))
    return float(-1 / np.log(radius)) if radius < 1 else np.inf


def _lyapunov(F: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """The sum of F^k Q F'^k by doubling, for one recursion or a stack of them."""
    X = Q
    while np.max(np.abs(F)) > 1e-12:
        X = X + F @ X @ np.swapaxes(F, -1, -2)
        F = F @ F
    return X
