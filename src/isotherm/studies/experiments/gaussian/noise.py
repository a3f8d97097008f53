"""How the stochastic gradient noise depends on the parameters and on the batch size."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.models.gaussian import exact_posterior, log_likelihood

_POINTS, _BATCHES = 1000, 20_000


def gradient_noise(x: np.ndarray, batch_size: int, *, seed: int) -> dict[str, Any]:
    """Return the variance of the noisy gradient over the posterior, and its change with the batch size.

    - `over_posterior`: the 2.5 % and 97.5 % quantiles, over exact posterior draws, of the variance (N^2/n) V
      of each component; `ratio` and `mean` are their ratio and the mean.
    - `batch_ratio`: the variance with simulated batches of n rows divided by that with batches of 2n rows, at
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
    """Return the gradients of the log-likelihood of each row at each point, as arrays (point, row)."""
    per_row = jax.vmap(jax.grad(log_likelihood), in_axes=(None, 0))
    params = {"mu": jnp.asarray(mu, x.dtype), "gamma": jnp.asarray(gamma, x.dtype)}
    gradients = jax.jit(jax.vmap(per_row, in_axes=(0, None)))(params, x)
    return {name: np.asarray(g, np.float64) for name, g in gradients.items()}


def _simulate(rows: np.ndarray, n: int, rng: np.random.Generator) -> float:
    batches = rng.integers(len(rows), size=(_BATCHES, n))
    return float((len(rows) / n * rows[batches].sum(axis=1)).var())
