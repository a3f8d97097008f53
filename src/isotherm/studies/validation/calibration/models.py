"""The models of the calibration: how to simulate parameters and data, and fixed sampler settings."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm.covariance import Dense
from isotherm.posterior import Posterior
from isotherm.samplers import CCAdL, Sampler

_NEWTON_STEPS = 8

Simulated = tuple[PyTree[np.ndarray], PyTree[np.ndarray]]


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A model to calibrate: `simulate` draws parameters and data, `start` returns a point estimate from the data."""

    name: str
    quantities: tuple[str, ...]
    posterior: Posterior
    sampler: Sampler
    batch_size: int
    burn_in: int
    thinning: int
    simulate: Callable[[np.random.Generator], Simulated]
    start: Callable[[PyTree[np.ndarray]], PyTree[np.ndarray]]


@functools.cache
def logistic_regression() -> Model:
    """Logistic regression: 200 rows, an intercept and two slopes with N(0, 1) priors; s is at most about 0.008."""
    N, d = 200, 3

    def simulate(rng: np.random.Generator) -> Simulated:
        w = rng.normal(size=d)
        x = np.concatenate([np.ones((N, 1)), rng.normal(size=(N, d - 1))], axis=1)
        y = rng.random(N) < 1 / (1 + np.exp(-x @ w))
        return w, {"x": x.astype(np.float32), "y": y.astype(np.float32)}

    def start(data: PyTree[np.ndarray]) -> np.ndarray:
        x, y = data["x"].astype(np.float64), data["y"]
        w = np.zeros(d)
        for _ in range(_NEWTON_STEPS):  # Newton steps from zero to the mode
            p = 1 / (1 + np.exp(-x @ w))
            w = w + np.linalg.solve((x.T * p * (1 - p)) @ x + np.eye(d), x.T @ (y - p) - w)
        return w.astype(np.float32)

    return Model(
        name="logistic regression",
        quantities=("intercept", "slope 1", "slope 2", "log-likelihood"),
        posterior=Posterior(
            lambda w, row: jax.nn.log_sigmoid((2 * row["y"] - 1) * (row["x"] @ w)),
            lambda w: -jnp.sum(w**2) / 2,
        ),
        # The stiffest direction has frequency 7: near critical damping, and 0.04 radians per step.
        sampler=CCAdL(step_size=0.006, friction=6.0, covariance=Dense()),
        batch_size=50,
        burn_in=300,
        thinning=150,
        simulate=simulate,
        start=start,
    )


@functools.cache
def normal_mean_and_precision() -> Model:
    """24 normal numbers with mean ~ N(0, 1) and log-precision ~ N(0, 1/4).

    The posterior is skewed and the noise depends on both parameters; s is 0.006 times the precision.
    """
    N = 24

    def log_likelihood(t: PyTree[Array], x: Float[Array, ""]) -> Float[Array, ""]:
        return t["log_precision"] / 2 - jnp.exp(t["log_precision"]) * (x - t["mean"]) ** 2 / 2

    def simulate(rng: np.random.Generator) -> Simulated:
        mean, log_precision = rng.normal(), rng.normal() / 2
        x = mean + np.exp(-log_precision / 2) * rng.normal(size=N)
        return {"log_precision": np.asarray(log_precision), "mean": np.asarray(mean)}, x.astype(np.float32)

    def start(x: np.ndarray) -> dict[str, np.ndarray]:
        return {"log_precision": np.asarray(-np.log(x.var(ddof=1))), "mean": np.asarray(x.mean())}

    return Model(
        name="normal mean and precision",
        quantities=("log-precision", "mean", "log-likelihood"),
        posterior=Posterior(log_likelihood, lambda t: -(t["mean"] ** 2) / 2 - 2 * t["log_precision"] ** 2),
        sampler=CCAdL(step_size=0.008, friction=5.0, covariance=Dense()),
        batch_size=6,
        burn_in=300,
        thinning=150,
        simulate=simulate,
        start=start,
    )
