"""A posterior that is known exactly, and the covariance of its minibatch gradient noise."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm import tree
from isotherm.posterior import Posterior

_NOISE_DRAWS = 256  # posterior draws over which the covariance of the gradient noise is averaged


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """A posterior with its exact moments; vectors are the ravelled parameters.

    - `mean`, `covariance`: of the posterior at its temperature.
    - `gradient`: grad U at an array of positions (..., d), in closed form.
    - `draw`: exact draws, (count, d).
    - `mass`: the diagonal of M, which gives the stiffest direction a frequency of about 1.
    - `gaussian`: whether U is quadratic, so that the linear recursion of a scheme is exact.
    - `noise_draws`: draws over which the noise covariance is averaged; 1 if it does not depend on the parameters.
    - `noise_varies`: whether the noise changes by as much as its size across the posterior.
    - `like`: an example of the parameters, which gives their structure.
    - `width`: the factor by which variances grow at T times the temperature; T itself for a Gaussian.
    - `patience`: how many times longer a run must be than for the Gaussian of the same covariance.
    """

    name: str
    posterior: Posterior
    data: PyTree[np.ndarray]
    batch_size: int
    mean: np.ndarray
    covariance: np.ndarray
    gradient: Callable[[np.ndarray], np.ndarray]
    draw: Callable[[np.random.Generator, int], np.ndarray]
    mass: np.ndarray
    gaussian: bool
    like: PyTree[Array]
    noise_draws: int = _NOISE_DRAWS
    noise_varies: bool = False
    width: Callable[[np.ndarray], np.ndarray] = lambda ratio: ratio
    patience: float = 1.0

    @property
    def dimension(self) -> int:
        """N_d."""
        return len(self.mean)

    @property
    def num_data(self) -> int:
        """N."""
        return jax.tree.leaves(self.data)[0].shape[0]

    @property
    def temperature(self) -> float:
        """1/beta."""
        return float(self.posterior.temperature)

    @property
    def precision(self) -> np.ndarray:
        """P of the Gaussian with the posterior's covariance: U = theta' P theta / 2 at temperature T."""
        return self.temperature * np.linalg.inv(self.covariance)

    def unravel(self, x: np.ndarray) -> PyTree[Array]:
        """Return one vector (d,), or a stack (chains, d), in the structure of the parameters."""
        vectors = jnp.asarray(x, jnp.float32)
        if vectors.ndim == 1:
            return tree.unravel_like(vectors, self.like)
        return jax.vmap(lambda v: tree.unravel_like(v, self.like))(vectors)

    @functools.cached_property
    def row_covariance(self) -> np.ndarray:
        """The covariance of one row's gradient over all rows (divisor N - 1), averaged over the posterior."""
        return self.row_covariance_for(self.covariance)

    def row_covariance_for(self, covariance: np.ndarray) -> np.ndarray:
        """Return the same, averaged over draws rescaled to another covariance, as a biased sampler would see it."""
        positions = self.mean[None]
        if self.noise_draws > 1:
            draws = self.draw(np.random.default_rng(0), self.noise_draws)
            # Standardised by their sample moments, so that averages of quadratic noise are exact.
            draws = (draws - draws.mean(axis=0)) @ np.linalg.inv(_root(np.cov(draws.T, bias=True))).T
            positions = self.mean + draws @ _root(covariance).T
        covariances = _row_covariances(self.posterior, self.unravel(positions), self.data)
        mean = np.mean(np.asarray(covariances, np.float64), axis=0)
        # Single precision leaves rounding errors where theory has exact zeros.
        scale = np.sqrt(np.diag(mean))
        return np.where(np.abs(mean) < 1e-5 * np.outer(scale, scale), 0.0, mean)


def _root(covariance: np.ndarray) -> np.ndarray:
    return np.linalg.cholesky(np.atleast_2d(covariance))


@eqx.filter_jit
def _row_covariances(posterior: Posterior, positions: PyTree, data: PyTree) -> Float[Array, "k d d"]:
    def at(position: PyTree) -> Array:
        gradient = jax.grad(posterior.one_log_likelihood)
        rows = jax.vmap(lambda row: tree.ravel(gradient(position, row)))(data)
        rows = rows - jnp.mean(rows, axis=0, keepdims=True)
        return rows.T @ rows / (rows.shape[0] - 1)

    return jax.lax.map(at, positions)
