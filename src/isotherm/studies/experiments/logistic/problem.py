"""MNIST 7 v 9 projected to 100 dimensions, and a reference posterior by Hamiltonian Monte Carlo."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from isotherm.data import load
from isotherm.draws.convergence import r_hats
from isotherm.models import logistic_regression

DIMENSION = 100
SHOWN = (1, 4)  # the paper's dimensions 2 and 5
_STEP, _LEAPS, _WARM_UP = 0.25, 8, 100  # of HMC; the step is in the metric of the Hessian at the mode


@dataclasses.dataclass(frozen=True)
class Problem:
    """Training and test rows."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def rows(self) -> dict[str, np.ndarray]:
        """The training rows in the form that the posterior takes."""
        return {"x": self.x, "y": self.y}

    def test_log_likelihood(self, w: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "..."]:
        """Return the mean of log p(y|x, w) over the test rows."""
        scores = np.asarray(w, np.float64) @ self.x_test.T.astype(np.float64)
        return np.asarray(-np.logaddexp(0, -self.y_test * scores).mean(axis=-1))


@functools.cache
def problem(seed: int) -> Problem:
    """Return the problem: pixels in [0, 1] times an unscaled 784 x 100 matrix of N(0, 1) numbers, labels ±1."""
    digits = load("mnist-7v9")
    projection = np.random.default_rng(seed).normal(size=(digits.x_train.shape[1], DIMENSION))
    project = lambda x: (x @ projection).astype(np.float32)
    return Problem(
        project(digits.x_train),
        digits.y_train.astype(np.float32),
        project(digits.x_test),
        digits.y_test.astype(np.float32),
    )


def mode(p: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode, by Newton's method in float64, and the Hessian of U at the mode."""
    x, y, w = p.x.astype(np.float64), p.y.astype(np.float64), np.zeros(DIMENSION)
    for _ in range(30):
        q = 1 / (1 + np.exp(y * (x @ w)))
        hessian = (x * (q * (1 - q))[:, None]).T @ x + np.eye(DIMENSION)
        w = w + np.linalg.solve(hessian, x.T @ (y * q) - w)
    return w, hessian


def largest_noise(p: Problem, batch_size: int) -> float:
    """Return the largest eigenvalue of the gradient noise covariance at the mode; s is h^2 times this."""
    w, _ = mode(p)
    q = 1 / (1 + np.exp(p.y * (p.x.astype(np.float64) @ w)))
    rows = (p.y * q)[:, None] * p.x
    return float(np.linalg.eigvalsh(len(rows) ** 2 / batch_size * np.cov(rows.T))[-1])


def reference(runs: int, draws: int, seed: int) -> dict[str, Any]:
    """Return the posterior moments from independent runs of full-data HMC, and how well the runs agree."""
    p = problem(seed)
    x, accepted = hamiltonian(p, runs, draws, jax.random.fold_in(jax.random.key(seed), 1))
    flat = x.reshape(-1, DIMENSION)
    mean, sd = flat.mean(axis=0), flat.std(axis=0, ddof=1)
    means = x.mean(axis=1) / sd
    return {
        "mean": mean.tolist(),
        "covariance": np.cov(flat.T).tolist(),
        "cloud": np.round(flat[:: max(1, len(flat) // 400), list(SHOWN)], 5).tolist(),
        "accepted": accepted,
        "rhat": float(np.max(r_hats(np.moveaxis(x, 2, 0)))),
        "largest_difference": float(np.max(means.max(axis=0) - means.min(axis=0))),
        "standard_error": float(np.sqrt(np.mean(means.var(axis=0, ddof=1) / runs))),
        "test_log_likelihood": float(p.test_log_likelihood(mean)),
        "runs": runs,
        "draws": draws,
    }


def hamiltonian(p: Problem, runs: int, draws: int, key: Key[Array, ""]) -> tuple[np.ndarray, float]:
    """Return draws (run, draw, d) and the acceptance rate. Starts have twice the posterior standard deviation."""
    posterior = logistic_regression()
    w_mode, hessian = mode(p)
    values, vectors = np.linalg.eigh(hessian)
    root = jnp.asarray(vectors / np.sqrt(values), jnp.float32)
    centre, rows = jnp.asarray(w_mode, jnp.float32), jax.tree.map(jnp.asarray, p.rows)
    log_density = lambda u: posterior.log_density(centre + root @ u, rows)
    value_and_gradient = jax.value_and_grad(log_density)

    def move(carry: tuple[Array, Array, Array], key: Key[Array, ""]) -> tuple[Any, Any]:
        u, value, gradient = carry
        keys = jax.random.split(key, 3)
        h = _STEP * jax.random.uniform(keys[0], (), minval=0.7, maxval=1.3)
        r = jax.random.normal(keys[1], u.shape)
        log_joint = value - 0.5 * jnp.sum(r * r)
        new, slope, new_value = u, gradient, value
        for _ in range(_LEAPS):
            r = r + h / 2 * slope
            new = new + h * r
            new_value, slope = value_and_gradient(new)
            r = r + h / 2 * slope
        accept = jnp.log(jax.random.uniform(keys[2])) < new_value - 0.5 * jnp.sum(r * r) - log_joint
        carry = jax.tree.map(
            lambda a, b: jnp.where(accept, a, b), (new, new_value, slope), (u, value, gradient)
        )
        return carry, (centre + root @ carry[0], accept)

    def run(key: Key[Array, ""]) -> tuple[Array, Array]:
        start, rest = jax.random.split(key)
        u = 2 * jax.random.normal(start, (DIMENSION,))
        carry = (u, *value_and_gradient(u))
        moves = lambda carry, i: move(carry, jax.random.fold_in(rest, i))
        positions, accepted = jax.lax.scan(moves, carry, jnp.arange(_WARM_UP + draws))[1]
        return positions[_WARM_UP:], accepted[_WARM_UP:]

    positions, accepted = jax.jit(jax.vmap(run))(jax.random.split(key, runs))
    return np.asarray(positions, np.float64), float(jnp.mean(accepted))
