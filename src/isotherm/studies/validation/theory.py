"""The exact stationary moments of a scheme at a finite step, from its linear recursion.

On a Gaussian target a step is linear, x' = F x + eta with x = (theta, p), so its stationary covariance solves
X = F X F' + Cov(eta). This also holds for noise that depends on theta, with the mean of its covariance. The
recursions are written from the equations and share no code with the samplers.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize

from isotherm.samplers import SGHMC, SGLD, SGNHT, CCAdL, ModifiedSGLD, Sampler
from isotherm.studies.validation.kept import inverted, kept
from isotherm.studies.validation.recursion import Moves, drift, friction, kick, stationary, transposed


@dataclasses.dataclass(frozen=True)
class Linear:
    """A Gaussian target: U = theta' P theta / 2, diagonal mass m, force noise of mean covariance C, temperature T.

    In reshuffled epochs of `epoch` steps the noises of two steps have covariance -r C, where r is `carry`. Both
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
    """Stationary moments of a scheme.

    - `covariance`: of theta.
    - `momentum`: the covariance of M^-1/2 p, or `None` without a momentum.
    - `xi`: the mean of xi, or `None` without a thermostat.
    - `clipped`: the number of directions in which the added noise would need a negative variance.
    - `relaxation`: the relaxation time of the slowest direction, in steps.
    """

    covariance: np.ndarray
    momentum: np.ndarray | None = None
    xi: float | None = None
    clipped: int = 0
    relaxation: float = np.nan

    @property
    def kinetic(self) -> float:
        """The kinetic temperature: the mean eigenvalue of `momentum`."""
        if self.momentum is None:
            raise AttributeError("dynamics without a momentum have no kinetic temperature")
        return float(np.trace(self.momentum)) / len(self.momentum)

    @property
    def finite(self) -> bool:
        """Whether there is a stationary state."""
        return bool(np.all(np.isfinite(self.covariance)))


def predict(sampler: Sampler, model: Linear) -> Stationary | None:
    """Return the stationary moments of `sampler`, or `None` if none are derived for it.

    Its hyper-parameters must be numbers. Its estimate of the noise is taken at its limit: the part of C that its
    kind of covariance keeps.
    """
    C_hat = kept(sampler.covariance, model.C, model.m)
    if C_hat is None:
        return None
    h = number(sampler.step_size)
    match sampler:
        case SGLD():
            return sgld(model, h, C_hat)
        case ModifiedSGLD():
            return sgld(model, h, C_hat, first_order=sampler.form == "first-order")
        case SGHMC(scheme="euler" | "symmetric"):
            symmetric = sampler.scheme == "symmetric"
            return sghmc(model, h, number(sampler.friction), C_hat, symmetric=symmetric)
        case SGNHT() | CCAdL() if sampler.scheme in _STEPS:
            mu = number(len(model.m) if sampler.thermal_mass is None else sampler.thermal_mass)
            step = partial(_STEPS[sampler.scheme], inverse_of=inverted(sampler.covariance))
            return thermostatted(model, h, number(sampler.friction), C_hat, mu=mu, step=step)
    return None


def number(hyper: Any) -> float:
    """Return a hyper-parameter that is not a schedule as a float."""
    return float(hyper)


def sgld(model: Linear, h: float, C_hat: np.ndarray, *, first_order: bool = False) -> Stationary:
    """Return the moments of SGLD (`C_hat` zero) or modified SGLD: theta' = (I - h P) theta + noise, without mass."""
    eye = np.eye(len(model.P))
    if first_order:
        root, clipped = eye - h / (4 * model.T) * C_hat, 0
        added = 2 * h * model.T * root @ root
    else:
        remainder, clipped = _positive(eye - h / (2 * model.T) * C_hat)
        added = 2 * h * model.T * remainder
    moves = Moves(eye - h * model.P, h * eye, added)
    X = stationary(moves, model.C, carry=model.carry, epoch=model.epoch)
    return Stationary(X, clipped=clipped, relaxation=moves.relaxation)


def sghmc(model: Linear, h: float, A: float, C_hat: np.ndarray, *, symmetric: bool = False) -> Stationary:
    """Return the moments of SGHMC: damping A, noise h^2 C + 2 h T (A M - h C_hat / 2 T).

    `C_hat` is zero without an estimate. The symmetric scheme is half a drift, a kick with the damping at its
    midpoint, and half a drift.
    """
    root = np.sqrt(model.m)
    remainder, clipped = _positive(np.eye(len(root)) - h / (2 * A * model.T) * C_hat / np.outer(root, root))
    added = 2 * h * A * model.T * remainder * np.outer(root, root)
    P, C, inverse_mass, added, eye = _shaped(model, added)
    half = h * A / 2
    if symmetric:
        scale = 1 / (1 + half)
        kicked = kick(P, scale * (1 - half) * eye, scale * h * eye, scale**2 * added)
        moves = drift(inverse_mass, h / 2).then(kicked).then(drift(inverse_mass, h / 2))
    else:
        moves = drift(inverse_mass, h).then(kick(P, (1 - 2 * half) * eye, h * eye, added))
    X = stationary(moves, C, carry=model.carry, epoch=model.epoch)
    return dataclasses.replace(_finished(X, model, moves), clipped=clipped)


def frozen(model: Linear, h: float, A: float, *, xi: float, C_hat: np.ndarray) -> Stationary:
    """Return the moments of SGNHT (`C_hat` zero) or CCAdL, scheme `"euler"`, at a fixed xi."""
    return dataclasses.replace(euler(model, h, A, xi, C_hat)[0], xi=xi)


def euler(
    model: Linear,
    h: float,
    A: float,
    xi: float,
    C_hat: np.ndarray,
    *,
    midpoint: bool = False,
    inverse_of: Any = None,
) -> tuple[Stationary, float]:
    """Return the moments of the paper's step at a fixed xi, and the temperature that drives its thermostat."""
    del inverse_of
    added = 2 * h * A * model.T * np.diag(model.m)
    P, C, inverse_mass, added, eye = _shaped(model, added)
    C_hat = C_hat if P.ndim == 2 else np.diag(C_hat)[:, None, None]
    keeps = (1 - h * xi) * eye - h**2 / (2 * model.T) * C_hat @ inverse_mass
    moves = drift(inverse_mass, h).then(kick(P, keeps, h * eye, added))
    X = stationary(moves, C, carry=model.carry, epoch=model.epoch)
    state = _finished(X, model, moves)
    if not midpoint:
        return state, state.kinetic
    # Cov(p', p) = F_p X; the covariance of (p + p') / 2 is a quarter of the sum of all four.
    k = P.shape[-1]
    cross = (moves.F @ X)[..., k:, k:]
    mean = (2 * X[..., k:, k:] + cross + transposed(cross)) / 4
    return state, _temperature(mean, model)


def symmetric(
    model: Linear,
    h: float,
    A: float,
    xi: float,
    C_hat: np.ndarray,
    *,
    inverse_of: Callable[[np.ndarray], np.ndarray],
) -> tuple[Stationary, float]:
    """Return the same for A O A and the midpoint kick. Its thermostat averages the temperature before and after O."""
    keeps = np.exp(-xi * h)
    spread = 2 * h if xi == 0 else -np.expm1(-2 * xi * h) / xi
    P, C, inverse_mass, added, eye = _shaped(model, A * model.T * spread * np.diag(model.m))
    C_hat = C_hat if P.ndim == 2 else np.diag(C_hat)[:, None, None]
    S = h**2 / model.T * C_hat @ inverse_mass
    inverse = np.linalg.inv(eye + inverse_of(S) / 4)
    damped = drift(inverse_mass, h / 2).then(friction(keeps * eye, added))
    kicked = kick(P, eye - inverse @ S / 2, h * inverse, np.zeros_like(P))
    moves = damped.then(drift(inverse_mass, h / 2)).then(kicked)
    X = stationary(moves, C, carry=model.carry, epoch=model.epoch)
    state, k = _finished(X, model, moves), P.shape[-1]
    after = (damped.F @ X @ transposed(damped.F) + damped.white)[..., k:, k:]
    return state, (state.kinetic + _temperature(after, model)) / 2


_STEPS: dict[str, Callable[..., tuple[Stationary, float]]] = {
    "euler": euler,
    "euler-midpoint": partial(euler, midpoint=True),
    "symmetric": symmetric,
}


def thermostatted(
    model: Linear,
    h: float,
    A: float,
    C_hat: np.ndarray,
    *,
    mu: float = np.inf,
    step: Callable[..., tuple[Stationary, float]] = euler,
) -> Stationary:
    """Return the moments of `step` at the mean xi for which the kinetic temperature is T, as a thermostat enforces.

    The moments ignore that xi fluctuates, with variance T / mu. If the scheme preserves the target, xi is
    independent of the rest and the moments change by terms of order h T / mu; if not, departures shrink by terms
    of order T / mu. Under Euler the mean of xi is lower by h T / (2 mu): xi has just responded to the p that it
    damps, Cov(xi, p'M^-1 p) = h N_d T^2 / mu, and the variance of xi in E[(1 - h xi)^2] offsets half of that. The
    symmetric scheme has no such term.
    """

    def excess(xi: float) -> float:
        state, driving = step(model, h, A, xi, C_hat)
        return driving - model.T if state.finite else np.inf

    # Scan from strong friction, below 1/h where Euler's damping changes sign, down to the first xi that is too hot.
    grid = np.linspace(0.9, -0.9, 37) / h
    values = np.array([excess(xi) for xi in grid])
    cold = np.flatnonzero(values <= 0)
    hot = np.flatnonzero(values[cold[0] :] > 0) if len(cold) else []
    if not len(hot):
        return Stationary(np.full_like(model.P, np.nan), np.full_like(model.P, np.nan), np.nan)
    last = cold[0] + hot[0]
    xi = number(optimize.bisect(excess, grid[last], grid[last - 1], xtol=1e-10 / h))
    explicit = getattr(step, "func", step) is not symmetric
    shift = h * model.T / (2 * mu) if explicit else 0.0
    return dataclasses.replace(step(model, h, A, xi, C_hat)[0], xi=xi - shift)


def _positive(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T, int(np.sum(values < 0))


def _shaped(model: Linear, added: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return P, C, M^-1, the added noise and the identity, split by axis if nothing couples the axes."""
    matrices = (model.P, model.C, np.diag(1 / model.m), added, np.eye(len(model.m)))
    if model.epoch == 0 and all(not np.any(x - np.diag(np.diag(x))) for x in matrices):
        return tuple(np.diag(x)[:, None, None] for x in matrices)
    return matrices


def _finished(X: np.ndarray, model: Linear, moves: Moves) -> Stationary:
    if X.ndim == 3:
        theta, p = np.diag(X[:, 0, 0]), np.diag(X[:, 1, 1])
    else:
        d = len(model.m)
        theta, p = X[:d, :d], X[d:, d:]
    root = np.sqrt(model.m)
    return Stationary(theta, p / np.outer(root, root), relaxation=moves.relaxation)


def _temperature(covariance: np.ndarray, model: Linear) -> float:
    """Return tr(Cov(p) M^-1) / N_d."""
    diagonal = np.diagonal(covariance, axis1=-2, axis2=-1).reshape(-1)
    return float(np.mean(diagonal / model.m))
