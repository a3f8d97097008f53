"""A normal sample with unknown mean and precision, whose posterior is known exactly."""

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from isotherm.posterior import Posterior

Params = dict[str, Float[Array, ""]]
Marginal = Any  # a frozen distribution of `scipy.stats`, whose classes have no common type with `pdf`

_LOG_2_PI = math.log(2 * math.pi)


def log_likelihood(params: Params, x: Float[Array, ""]) -> Float[Array, ""]:
    """Return log N(x | mu, precision gamma)."""
    return _normal(x, params["mu"], params["gamma"])


def log_prior(params: Params) -> Float[Array, ""]:
    """Return log N(mu | 0, precision gamma) + log Gamma(gamma | 1, 1)."""
    return _normal(params["mu"], 0.0, params["gamma"]) - params["gamma"]


def _normal(x: Array | float, mean: Array | float, precision: Array) -> Array:
    # log sqrt(gamma) and not log(gamma) / 2, whose gradient 1/gamma is finite for gamma < 0 too: a chain that left
    # the support would go on unnoticed. The gradient of the root is NaN for gamma < 0, and the chain stops.
    return jnp.log(jnp.sqrt(precision)) - precision * (x - mean) ** 2 / 2 - _LOG_2_PI / 2


def gaussian() -> Posterior:
    r"""Return the posterior of `{"mu", "gamma"}` given a vector of numbers.

    $$x_i \sim N(\mu, \gamma^{-1}), \qquad \mu \mid \gamma \sim N(0, \gamma^{-1}), \qquad
      \gamma \sim \mathrm{Gamma}(1, 1).$$

    gamma is sampled without a transform: a step to gamma <= 0 ends the chain.
    """
    return Posterior(log_likelihood, log_prior)


@dataclasses.dataclass(frozen=True)
class NormalGamma:
    r"""The normal-gamma distribution.

    $\mu \mid \gamma \sim N(m, (\kappa\gamma)^{-1})$ and $\gamma \sim \mathrm{Gamma}(\alpha, \beta)$. beta is a rate:
    the mean of gamma is alpha / beta.
    """

    mean: float
    kappa: float
    alpha: float
    beta: float

    @property
    def marginals(self) -> dict[str, Marginal]:
        """Student's t for mu and a gamma distribution for gamma, as `scipy.stats` distributions."""
        from scipy import stats

        scale = math.sqrt(self.beta / (self.alpha * self.kappa))
        return {
            "mu": stats.t(2 * self.alpha, loc=self.mean, scale=scale),
            "gamma": stats.gamma(self.alpha, scale=1 / self.beta),
        }

    def log_density(self, mu: np.ndarray | float, gamma: np.ndarray | float) -> np.ndarray | float:
        """Return the log of the joint density."""
        from scipy import stats

        normal: Any = stats.norm(self.mean, 1 / np.sqrt(self.kappa * gamma))
        return normal.logpdf(mu) + self.marginals["gamma"].logpdf(gamma)


def exact_posterior(x: np.ndarray) -> NormalGamma:
    """Return the exact posterior of `gaussian()` given the numbers `x`."""
    x = np.asarray(x, np.float64)
    N, mean = len(x), float(x.mean())
    return NormalGamma(
        mean=N * mean / (N + 1),
        kappa=1.0 + N,
        alpha=1 + N / 2,
        beta=1 + float(np.sum((x - mean) ** 2)) / 2 + N * mean**2 / (2 * (1 + N)),
    )
