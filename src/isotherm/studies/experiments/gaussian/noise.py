"""How the noise of the stochastic gradient depends on the parameters and on the batch."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.models.gaussian import exact_posterior, log_likelihood

_POINTS, _BATCHES = 1000, 20_000


def gradient_noise(x: np.ndarray, batch_size: int, *, seed: int) -> dict[str, Any]:
    """Variance of the noisy gradient over the posterior, and with twice the batch.

    `over_posterior` has the 2.5 % and 97.5 % quantiles, over exact posterior draws, of the variance (N^2/n) V
    of each component; `batch_ratio` the variance of simulated batches of n against that of batches of 2n, at
    the posterior mean.
    """
    rng = np.random.default_rng([seed, 2**31])
    exact, N = exact_posterior(x), len(x)
    gamma = exact.marginals["gamma"].rvs(_POINTS, random_state=rng)
    mu = exact.mean + rng.standard_normal(_POINTS) / np.sqrt(exact.kappa * gamma)
    V = {name: g.var(axis=1) for name, g in _row_gradients(mu, gamma, x).items()}
    variance = {name: N**2 / batch_size * v for name, v in V.items()}
    quantiles = {name: np.quantile(v, (0.025, 0.975)) for name, v in variance.items()}
    at_mean = _row_gradients(np.array([exact.mean]), np.array([exact.alpha / exact.beta]), x)
    simulated = {
        name: [_simulate(g[0], n, rng) for n in (batch_size, 2 * batch_size)] for name, g in at_mean.items()
    }
    return {
        "over_posterior": {name: [float(q) for q in qs] for name, qs in quantiles.items()},
        "ratio": {name: float(qs[1] / qs[0]) for name, qs in quantiles.items()},
        "batch_ratio": {name: float(a / b) for name, (a, b) in simulated.items()},
        "mean": {name: float(v.mean()) for name, v in variance.items()},
    }


def _row_gradients(mu: np.ndarray, gamma: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    """Gradients of the log-likelihood of each row at each point, (point, row)."""
    per_row = jax.vmap(jax.grad(log_likelihood), in_axes=(None, 0))
    params = {"mu": jnp.asarray(mu, x.dtype), "gamma": jnp.asarray(gamma, x.dtype)}
    gradients = jax.jit(jax.vmap(per_row, in_axes=(0, None)))(params, x)
    return {name: np.asarray(g, np.float64) for name, g in gradients.items()}


def _simulate(rows: np.ndarray, n: int, rng: np.random.Generator) -> float:
    batches = rng.integers(len(rows), size=(_BATCHES, n))
    return float((len(rows) / n * rows[batches].sum(axis=1)).var())
