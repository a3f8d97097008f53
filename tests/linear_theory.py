"""Exact stationary moments of the Euler schemes on a Gaussian target with constant gradient noise.

There the step is a linear recursion x' = F x + eta, so its stationary covariance solves
X = F X F' + Cov(eta): what the *scheme* should give at its finite step, with no bias left to argue about.
"""

import dataclasses

import numpy as np
from scipy import linalg, optimize


@dataclasses.dataclass(frozen=True)
class Linear:
    """U = theta' P theta / 2, diagonal mass m, noisy force of covariance C, temperature T."""

    P: np.ndarray
    m: np.ndarray
    C: np.ndarray
    T: float = 1.0


@dataclasses.dataclass(frozen=True)
class Stationary:
    """Covariance of theta, kinetic temperature and, with a thermostat, the mean of xi."""

    covariance: np.ndarray
    kinetic: float
    xi: float | None = None


def sghmc(model: Linear, h: float, A: float, C_hat: np.ndarray) -> Stationary:
    """SGHMC with the estimate `C_hat` (zero: none): damping A, noise h^2 C + 2 h T (A M - h C_hat / 2 T)."""
    d = len(model.m)
    added = 2 * h * A * model.T * np.diag(model.m) - h**2 * C_hat
    return _solve(model, h, A * np.eye(d), h**2 * model.C + added)


def sgld(model: Linear, h: float, C_hat: np.ndarray) -> np.ndarray:
    """SGLD (`C_hat` zero) and modified SGLD: the covariance of theta. The mass plays no part."""
    d = len(model.m)
    added = 2 * h * model.T * np.eye(d) - h**2 * C_hat
    return linalg.solve_discrete_lyapunov(np.eye(d) - h * model.P, h**2 * model.C + added)


def frozen(model: Linear, h: float, A: float, *, xi: float, C_hat: np.ndarray) -> Stationary:
    """SGNHT (`C_hat` zero) and CCAdL with an infinite thermal mass: damping xi + (h / 2 T) C_hat M^-1."""
    d = len(model.m)
    noise = h**2 * model.C + 2 * h * A * model.T * np.diag(model.m)
    damping = xi * np.eye(d) + h / (2 * model.T) * C_hat / model.m
    return dataclasses.replace(_solve(model, h, damping, noise), xi=xi)


def thermostatted(model: Linear, h: float, A: float, C_hat: np.ndarray) -> Stationary:
    """The same with xi at the mean that makes the kinetic temperature T, which a thermostat enforces exactly.

    Left out is that xi fluctuates, with variance T / mu: that moves the moments by terms of order h T / mu (0
    for the SDE, where xi and the rest are independent), so use it with a large mu.
    """

    def excess(xi: float) -> float:
        return frozen(model, h, A, xi=xi, C_hat=C_hat).kinetic - model.T

    # h xi < 1 keeps clear of the unstable branch.
    return frozen(model, h, A, xi=optimize.brentq(excess, 0.1 * A, 0.9 / h), C_hat=C_hat)


def _solve(model: Linear, h: float, damping: np.ndarray, noise: np.ndarray) -> Stationary:
    """theta' = theta + h M^-1 p, p' = p - h damping p - h P theta' + eta."""
    d, P = len(model.m), model.P
    drift = np.hstack([np.eye(d), h * np.diag(1 / model.m)])
    F = np.vstack([drift, np.hstack([np.zeros((d, d)), np.eye(d) - h * damping]) - h * P @ drift])
    X = linalg.solve_discrete_lyapunov(F, linalg.block_diag(np.zeros((d, d)), noise))
    return Stationary(X[:d, :d], float(np.trace(X[d:, d:] / model.m[:, None])) / d)
