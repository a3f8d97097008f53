"""Posterior means and standard deviations of regression coefficients, known independently of the library.

The columns are orthogonalised in extended precision, X = Q R, with the normal prior as further rows of X. In the
coordinates g = R w the log-likelihood is a sum over rows of f(y, (Q g)_i), and nothing cancels whatever the offsets
and units of the columns are. Results return to the raw coefficients, w = R^-1 g, in extended precision again.

Normal errors have a closed form. For logistic and Poisson regression, draws from the normal approximation at the mode
are weighted by the ratio of the densities. Each group of draws is shifted and scaled to have mean 0 and covariance 1
exactly, so the error of a mean is about sd(weight) / sqrt(draws), a small part of what plain draws would have.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

_ROW_EVALUATIONS = 100_000_000  # draws times rows
_GROUPS = 20  # of draws; their scatter gives the error
_MOST_DRAWS = 200_000
_ROWS_AT_ONCE = 4_000_000  # evaluations held in memory
_LARGEST_ERROR = 0.005  # of a mean in posterior sd, and of an sd relative to itself
_NEWTON_STEPS = 50


@dataclasses.dataclass(frozen=True)
class Exact:
    """Mean and sd of every coefficient, then of log sigma if it is a parameter.

    `error` is the largest standard error, of a mean in posterior sd or of an sd relative to itself. `ess` is the
    effective number of weighted draws. They are 0 and infinite for a closed form.
    """

    mean: np.ndarray
    sd: np.ndarray
    error: float = 0.0
    ess: float = np.inf


def orthogonalise(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Q with orthonormal columns and upper triangular R with X = Q R, in extended precision.

    Modified Gram-Schmidt, every column projected three times.
    """
    q = np.array(x, np.longdouble)
    r = np.zeros((q.shape[1],) * 2, np.longdouble)
    for k in range(q.shape[1]):
        for _ in range(3):
            for j in range(k):
                part = q[:, j] @ q[:, k]
                r[j, k] += part
                q[:, k] -= part * q[:, j]
        r[k, k] = np.sqrt(q[:, k] @ q[:, k])
        q[:, k] /= r[k, k]
    return q, r


def solve_upper(r: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return R^-1 b for upper triangular R, in extended precision."""
    out = np.array(b, np.longdouble)
    for k in reversed(range(len(r))):
        out[k] = (out[k] - r[k, k + 1 :] @ out[k + 1 :]) / r[k, k]
    return out


def moments(x: np.ndarray, y: np.ndarray, likelihood: str, prior_scale: np.ndarray | None = None) -> Exact:
    """Return the exact moments under the prior N(0, prior_scale^2), flat if `None`.

    `likelihood` is "normal" (sigma = 1), "normal, log sigma" (with a flat prior), "logistic" or "poisson".
    """
    rows = np.array(x, np.longdouble)
    if prior_scale is not None:
        rows = np.concatenate([rows, np.diag(1 / np.array(prior_scale, np.longdouble))])
    q, r = orthogonalise(rows)
    y = np.array(y, np.longdouble)
    if likelihood == "normal, log sigma":
        if prior_scale is not None:
            raise ValueError("`prior_scale` must be None if log sigma is a parameter; got an array.")
        return _unknown_scale(q, r, y)
    if likelihood == "normal":
        # The rows of the prior have y = 0, and g is normal with covariance 1.
        return _raw(r, q[: len(y)].T @ y, np.eye(len(r)))
    return weighted(q, r, y.astype(np.float64), likelihood)


def _raw(r: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> Exact:
    """Return the moments of w = R^-1 g from those of g."""
    inverse = solve_upper(r, np.eye(len(r)))
    variance = np.einsum("ij,jk,ik->i", inverse, covariance.astype(np.longdouble), inverse)
    return Exact((inverse @ mean).astype(np.float64), np.sqrt(variance).astype(np.float64))


def _unknown_scale(q: np.ndarray, r: np.ndarray, y: np.ndarray) -> Exact:
    """Normal errors and flat priors: RSS / sigma^2 is chi-squared with k = N - d degrees of freedom."""
    g = q.T @ y
    residual = y - q @ g
    rss, k = residual @ residual, np.longdouble(len(y) - len(r))
    w = _raw(r, g, np.eye(len(r)) * rss / (k - 2))
    # digamma(k/2) and trigamma(k/2) by their asymptotic series; the first terms left out are of order k^-4 and k^-5.
    digamma = np.log(k / 2) - 1 / k - 1 / (3 * k**2)
    trigamma = 2 / k + 2 / k**2 + 4 / (3 * k**3)
    log_sigma = (np.log(rss) - digamma - np.log(np.longdouble(2))) / 2
    return Exact(np.append(w.mean, float(log_sigma)), np.append(w.sd, float(np.sqrt(trigamma) / 2)))


# Value of -log f(y, eta) and its first two derivatives in eta.
_LIKELIHOODS: dict[str, tuple[Callable, Callable, Callable]] = {
    "normal": (lambda y, e: 0.5 * (y - e) ** 2, lambda y, e: e - y, lambda e: np.ones_like(e)),
    "logistic": (
        lambda y, e: np.maximum(e, 0) + np.log1p(np.exp(-np.abs(e))) - y * e,
        lambda y, e: 1 / (1 + np.exp(-e)) - y,
        lambda e: 0.25 / np.cosh(e / 2) ** 2,
    ),
    "poisson": (lambda y, e: np.exp(e) - y * e, lambda y, e: np.exp(e) - y, np.exp),
}


def weighted(q: np.ndarray, r: np.ndarray, y: np.ndarray, likelihood: str) -> Exact:
    """Return moments by importance sampling. The rows of Q beyond those of y are those of the prior."""
    value, slope, curvature = _LIKELIHOODS[likelihood]
    q, prior = q[: len(y)].astype(np.float64), q[len(y) :].astype(np.float64)
    mode = np.zeros(len(r))
    for _ in range(_NEWTON_STEPS):
        eta = q @ mode
        hessian = (q.T * curvature(eta)) @ q + prior.T @ prior
        step = np.linalg.solve(hessian, q.T @ slope(y, eta) + prior.T @ (prior @ mode))
        # Far from the mode a whole step may overshoot; no linear predictor moves by more than 2.
        mode = mode - step * min(1.0, 2 / max(np.abs(q @ step).max(), 1e-300))
    if np.sqrt(step @ hessian @ step) > 1e-6:
        raise ArithmeticError("Newton's method has not found the mode of this design.")
    root = np.linalg.inv(np.linalg.cholesky(hessian)).T  # g = mode + root z, with z normal nearly

    def energy(z: np.ndarray) -> np.ndarray:
        g = mode[:, None] + root @ z.T
        total = 0.5 * np.sum((prior @ g) ** 2, axis=0)
        size = max(1, _ROWS_AT_ONCE // len(z))
        for i in range(0, len(y), size):
            part = slice(i, i + size)
            # At the mode, so that the sums stay small.
            total += np.sum(
                value(y[part, None], q[part] @ g) - value(y[part], q[part] @ mode)[:, None], axis=0
            )
        return total - 0.5 * np.sum((prior @ mode) ** 2)

    draws = min(_MOST_DRAWS, _ROW_EVALUATIONS // len(y))
    groups = [_group(np.random.default_rng(i), energy, draws // _GROUPS, len(mode)) for i in range(_GROUPS)]
    z, w = (np.concatenate(parts) for parts in zip(*groups, strict=True))
    from_z = lambda mean, covariance: _raw(r, mode + root @ mean, root @ covariance @ root.T)
    exact, each = from_z(*_moments(z, w)), [from_z(*_moments(*group)) for group in groups]
    scatter = lambda name: np.std([getattr(e, name) for e in each], axis=0, ddof=1) / exact.sd
    error = max(np.max(scatter("mean")), np.max(scatter("sd"))) / np.sqrt(_GROUPS)
    if not error < _LARGEST_ERROR:
        raise ArithmeticError(f"The moments of this design are known only to {error:.3f} sd.")
    return dataclasses.replace(exact, error=float(error), ess=float(w.sum() ** 2 / np.sum(w**2)))


def _group(rng: np.random.Generator, energy: Callable, draws: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return draws in pairs of opposite sign, scaled to covariance 1, and their weights."""
    z = rng.normal(size=(max(draws // 2, 2 * d), d))
    z = np.concatenate([z, -z])
    z = np.linalg.solve(np.linalg.cholesky(z.T @ z / len(z)), z.T).T
    return z, np.exp(0.5 * np.sum(z**2, axis=1) - energy(z))


def _moments(z: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    w = w / w.sum()
    mean = w @ z
    return mean, (z.T * w) @ z - np.outer(mean, mean)
