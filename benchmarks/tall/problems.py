"""Posteriors of tall data: the arguments of `iso.sample`."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm.models import logistic_regression
from isotherm.studies.experiments.logistic import problem as logistic_problem

Problem = tuple[iso.Posterior, dict[str, np.ndarray], object]


def _with_ones(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1)


def _logistic(x: np.ndarray, y: np.ndarray) -> Problem:
    data = {"x": np.asarray(x, np.float32), "y": np.asarray(y, np.float32)}
    return logistic_regression(), data, jnp.zeros(x.shape[1])


def a9a() -> Problem:
    """Income above 50,000: 32,561 rows, 123 binary features and an intercept."""
    d = iso.data.load("a9a")
    return _logistic(_with_ones(d.x_train), d.y_train)


def covertype() -> Problem:
    """Lodgepole pine against the six other cover types: 581,012 rows, 54 features and an intercept."""
    d = iso.data.load("covertype")
    x, y = np.concatenate([d.x_train, d.x_test]), np.concatenate([d.y_train, d.y_test])
    return _logistic(_with_ones(x), np.where(y == 1, 1, -1))


def mnist() -> Problem:
    """Sevens against nines, projected to 100 dimensions, as in section 4.2 of the CCAdL paper."""
    p = logistic_problem.problem(0)
    return _logistic(p.x, p.y)


def _design(num_data: int, d: int, seed: int) -> tuple[np.random.Generator, np.ndarray]:
    """Return correlated features and a column of ones, made in pieces so that ten million rows fit into memory."""
    rng, x = np.random.default_rng(seed), np.ones((num_data, d), np.float32)
    for rows in _pieces(num_data):
        z = rng.normal(size=(len(x[rows]), d)).astype(np.float32)
        z[:, 1:] += 0.5 * z[:, :-1]
        x[rows, : d - 1] = z[:, : d - 1]
    return rng, x


def _pieces(num_data: int, length: int = 100_000) -> list[slice]:
    return [slice(i, i + length) for i in range(0, num_data, length)]


def synthetic(num_data: int = 1_000_000) -> Problem:
    """Logistic regression with 100 correlated features."""
    rng, x = _design(num_data, 100, 1)
    w = rng.normal(size=100) / 10
    odds = np.concatenate([-x[rows] @ w for rows in _pieces(num_data)])
    return _logistic(x, np.where(rng.random(num_data) < 1 / (1 + np.exp(odds)), 1, -1))


def rare() -> Problem:
    """Rare events, with a skewed posterior: 200,000 rows, about 60 of them positive, 20 features."""
    rng, x = _design(200_000, 20, 2)
    w = np.append(rng.normal(size=19) / 3, -9.0)
    y = np.where(rng.random(len(x)) < 1 / (1 + np.exp(-x @ w)), 1, -1)
    posterior = iso.Posterior(
        lambda w, rows: -jax.nn.softplus(-rows["y"] * (rows["x"] @ w)),
        lambda w: -0.5 * jnp.sum((w / 5) ** 2),
        batched=True,
    )
    return posterior, {"x": x, "y": y.astype(np.float32)}, jnp.zeros(20)


def poisson() -> Problem:
    """Counts with an exposure: 200,000 rows, 20 features."""
    rng, x = _design(200_000, 20, 3)
    exposure = rng.uniform(0.2, 2.0, len(x)).astype(np.float32)
    y = rng.poisson(exposure * np.exp(0.3 * x @ rng.normal(size=20) / np.sqrt(20) - 1))

    def log_likelihood(params: dict, rows: dict) -> jax.Array:
        eta = rows["x"] @ params["w"]
        return rows["y"] * eta - rows["exposure"] * jnp.exp(eta)

    prior = lambda params: -0.5 * jnp.sum(params["w"] ** 2)
    data = {"x": x, "y": y.astype(np.float32), "exposure": exposure}
    return iso.Posterior(log_likelihood, prior, batched=True), data, {"w": jnp.zeros(20)}


def _regression(log_density: Callable, noise: Callable) -> Problem:
    rng, x = _design(200_000, 30, 4)
    y = (x @ rng.normal(size=30) + 2.0 * noise(rng, len(x))).astype(np.float32)
    log_likelihood = lambda params, rows: (
        log_density((rows["y"] - rows["x"] @ params["w"]) * jnp.exp(-params["log_sigma"]))
        - params["log_sigma"]
    )
    prior = lambda params: -0.5 * (jnp.sum((params["w"] / 10) ** 2) + params["log_sigma"] ** 2)
    init = {"w": jnp.zeros(30), "log_sigma": jnp.zeros(())}
    return iso.Posterior(log_likelihood, prior, batched=True), {"x": x, "y": y}, init


def linear() -> Problem:
    """Linear regression with an unknown scale: 200,000 rows, 30 features."""
    return _regression(lambda z: -0.5 * z**2, lambda rng, n: rng.normal(size=n))


def student() -> Problem:
    """The same with Student-t errors of four degrees of freedom."""
    return _regression(lambda z: -2.5 * jnp.log1p(z**2 / 4), lambda rng, n: rng.standard_t(4, size=n))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    f.__name__: f for f in (a9a, covertype, mnist, synthetic, rare, poisson, linear, student)
}
