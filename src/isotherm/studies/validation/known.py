"""The targets of the validation table. A new one needs a function and a line in `TARGETS`.

In several targets the rows only add gradient noise: their log-likelihoods sum to zero, so the posterior is the
prior, and the spread of the rows sets the size of the noise.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from scipy import special

from isotherm.models.gaussian import exact_posterior, gaussian
from isotherm.posterior import Posterior
from isotherm.studies.validation.targets import Target


def _quadratic(
    name: str,
    posterior: Posterior,
    data: object,
    batch_size: int,
    precision: np.ndarray,
    mean: np.ndarray,
    *,
    mass: np.ndarray | None = None,
    noise_draws: int = 256,
    noise_varies: bool = False,
) -> Target:
    """Return a target with U = (theta - mean)' precision (theta - mean) / 2 + constant."""
    covariance = float(posterior.temperature) * np.linalg.inv(precision)
    root = np.linalg.cholesky(covariance)
    stiffest = np.linalg.eigvalsh(precision)[-1]
    return Target(
        name=name,
        posterior=posterior,
        data=data,
        batch_size=batch_size,
        mean=mean,
        covariance=covariance,
        gradient=lambda x: (x - mean) @ precision,
        draw=lambda rng, k: mean + rng.standard_normal((k, len(mean))) @ root.T,
        mass=np.full(len(mean), stiffest) if mass is None else mass,
        gaussian=True,
        like=jnp.zeros(len(mean)),
        noise_draws=noise_draws,
        noise_varies=noise_varies,
    )


def _gaussian(name: str, temperature: float, mass: np.ndarray) -> Target:
    """Return a correlated Gaussian prior. Row i adds the force a_i + B_i (theta - m); the rows' forces cancel."""
    rng, d, N = np.random.default_rng(11), 4, 200
    spectrum = np.array([1.0, 0.6, 0.35, 0.2])
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    precision, mean = (rotation * spectrum) @ rotation.T, np.array([1.0, -2.0, 0.5, 3.0])
    noise_axes = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.array([0.08, 0.05, 0.025, 0.008])
    a = rng.standard_normal((N, d)) @ noise_axes.T
    # B_i = v_i w_i' + w_i v_i', along the axes of the noise.
    v, w = rng.standard_normal((2, N, d)) @ noise_axes.T
    B = 3.0 * (v[:, :, None] * w[:, None, :] + w[:, :, None] * v[:, None, :])
    a, B = a - a.mean(axis=0), B - B.mean(axis=0)
    rows = {"a": a.astype(np.float32), "B": B.astype(np.float32)}
    P, m = jnp.asarray(precision, jnp.float32), jnp.asarray(mean, jnp.float32)

    def log_likelihood(theta, row):  # noqa: ANN001
        return row["a"] @ (theta - m) + 0.5 * (theta - m) @ row["B"] @ (theta - m)

    def log_prior(theta):  # noqa: ANN001
        return -0.5 * (theta - m) @ P @ (theta - m)

    posterior = Posterior(log_likelihood, log_prior, temperature=temperature)
    return _quadratic(name, posterior, rows, 20, precision, mean, mass=mass, noise_varies=True)


def correlated_gaussian() -> Target:
    """A correlated Gaussian at temperature 1 with unit mass; the anisotropic noise depends on the parameters."""
    return _gaussian("gaussian", 1.0, np.ones(4))


def cold_gaussian() -> Target:
    """The same Gaussian at temperature 0.5 with unequal masses, which expose a misplaced T or M."""
    return _gaussian("gaussian-cold", 0.5, np.array([2.0, 0.7, 1.2, 1.5]))


def normal_gamma() -> Target:
    """The first model of the CCAdL paper: mean and precision of 100 normal numbers."""
    x = np.random.default_rng(12).standard_normal(100).astype(np.float32)
    exact = exact_posterior(x)
    a, b, k, m = exact.alpha, exact.beta, exact.kappa, exact.mean

    def gradient(theta: np.ndarray) -> np.ndarray:  # leaves are sorted by name: gamma, mu
        g, mu = theta[..., 0], theta[..., 1]
        by_gamma = -(a - 0.5) / g + b + k * (mu - m) ** 2 / 2
        return np.stack([by_gamma, k * g * (mu - m)], axis=-1)

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        g = rng.gamma(a, 1 / b, count)
        return np.stack([g, m + rng.standard_normal(count) / np.sqrt(k * g)], axis=-1)

    return Target(
        name="normal-gamma",
        posterior=gaussian(),
        data=x,
        batch_size=10,
        mean=np.array([a / b, m]),
        covariance=np.diag([a / b**2, b / ((a - 1) * k)]),
        gradient=gradient,
        draw=draw,
        mass=np.full(2, 100.0),
        gaussian=False,
        like={"mu": jnp.zeros(()), "gamma": jnp.zeros(())},
    )


def _regression(name: str, mix: Callable[[np.ndarray], np.ndarray]) -> Target:
    rng, N, d, tau = np.random.default_rng(13), 1000, 6, 4.0
    x = mix(rng.standard_normal((N, d)))
    y = x @ rng.standard_normal(d) + rng.standard_normal(N)
    precision = x.T @ x + tau * np.eye(d)
    posterior = Posterior(
        lambda w, row: -0.5 * (row["y"] - row["x"] @ w) ** 2, lambda w: -0.5 * tau * jnp.sum(w**2)
    )
    rows = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    return _quadratic(name, posterior, rows, 50, precision, np.linalg.solve(precision, x.T @ y))


def whitened_regression() -> Target:
    """Linear regression on orthogonal features: noise and curvature are nearly proportional to the identity."""

    def mix(z: np.ndarray) -> np.ndarray:
        return np.linalg.qr(z)[0] * np.sqrt(len(z))

    return _regression("regression", mix)


def ill_conditioned_regression() -> Target:
    """Linear regression on correlated features: their scales span a factor of 5, the curvature a factor of 25."""

    def mix(z: np.ndarray) -> np.ndarray:
        rotation = np.linalg.qr(np.random.default_rng(14).standard_normal((z.shape[1],) * 2))[0]
        return (z * np.geomspace(1.0, 1 / 5, z.shape[1])) @ rotation

    return _regression("regression-ill", mix)


def poisson() -> Target:
    """Log-rates of three kinds of counts under gamma priors: skewed where counts are low."""
    shape, rate, N = 1.0, 0.5, 40
    rates = np.array([0.15, 0.6, 2.0])
    x = np.random.default_rng(15).poisson(rates, (N, 3)).astype(np.float32)
    a, b = shape + x.sum(axis=0, dtype=np.float64), rate + N
    posterior = Posterior(
        lambda t, row: jnp.sum(row * t - jnp.exp(t)),
        # A gamma density of the rate, times the Jacobian of the logarithm.
        lambda t: jnp.sum(shape * t - rate * jnp.exp(t)),
    )
    return Target(
        name="poisson",
        posterior=posterior,
        data=x,
        batch_size=4,
        mean=special.digamma(a) - np.log(b),
        covariance=np.diag(special.polygamma(1, a)),
        gradient=lambda t: -a + b * np.exp(t),
        draw=lambda rng, k: np.log(rng.gamma(a, 1 / b, (k, 3))),
        mass=a,
        gaussian=False,
        like=jnp.zeros(3),
        noise_draws=1,
    )


def heavy_tailed() -> Target:
    """Two independent two-piece Student densities, rotated by half a radian; the noise has other principal axes.

    Each density is 2 / (l + r) t(x / l) for x < 0 and 2 / (l + r) t(x / r) for x > 0.
    """
    nu, left, right = 10.0, np.array([0.8, 1.0]), np.array([1.6, 0.7])
    c, s = np.cos(0.5), np.sin(0.5)
    rotation = np.array([[c, -s], [s, c]])
    # E|t| and E t^2 of Student's t.
    first = 2 * np.sqrt(nu) / ((nu - 1) * special.beta(nu / 2, 0.5))
    second = nu / (nu - 2)
    mean = (right - left) * first
    variance = (left**3 + right**3) / (left + right) * second - mean**2

    rng, N = np.random.default_rng(16), 200
    rows = rng.standard_normal((N, 2)) * np.array([0.07, 0.02]) @ np.array([[1.0, 0.4], [-0.4, 1.0]])
    rows = (rows - rows.mean(axis=0)).astype(np.float32)

    def log_prior(theta):  # noqa: ANN001
        x = theta @ jnp.asarray(rotation, theta.dtype)
        scale = jnp.where(x < 0, jnp.asarray(left, x.dtype), jnp.asarray(right, x.dtype))
        return -0.5 * (nu + 1) * jnp.sum(jnp.log1p((x / scale) ** 2 / nu))

    def gradient(theta: np.ndarray) -> np.ndarray:
        x = theta @ rotation
        scale = np.where(x < 0, left, right)
        return ((nu + 1) * x / (nu * scale**2 + x**2)) @ rotation.T

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        side = rng.random((count, 2)) < left / (left + right)
        size = np.abs(rng.standard_t(nu, (count, 2)))
        return np.where(side, -left * size, right * size) @ rotation.T

    return Target(
        name="heavy-tailed",
        posterior=Posterior(lambda theta, row: row @ theta, log_prior),
        data=rows,
        batch_size=20,
        mean=rotation @ mean,
        covariance=(rotation * variance) @ rotation.T,
        gradient=gradient,
        draw=draw,
        mass=np.ones(2),
        gaussian=False,
        like=jnp.zeros(2),
        noise_draws=1,
        # The density to the power 1 / T is a Student density again, with (nu + 1) / T - 1 degrees of freedom.
        width=lambda ratio: (nu - 2) / np.maximum((nu + 1) / ratio - 3, 0.1),
        patience=5.0,  # the force fades in the tails, where chains linger
    )


def many_dimensions() -> Target:
    """400 independent Gaussian parameters of different scales; their noise variances span a factor of 100."""
    d, N = 400, 800
    rng = np.random.default_rng(17)
    rows = rng.standard_normal((N, d))
    rows = np.linalg.qr(rows - rows.mean(axis=0))[0]  # orthogonal columns, each of mean zero
    rows = (rows * np.sqrt(N) * np.geomspace(1.0, 0.1, d)[rng.permutation(d)] * 0.03).astype(np.float32)
    precision = np.diag(rng.uniform(0.3, 1.0, d))
    P = jnp.asarray(np.diag(precision), jnp.float32)
    posterior = Posterior(lambda theta, row: row @ theta, lambda theta: -0.5 * jnp.sum(P * theta**2))
    return _quadratic("many", posterior, rows, 40, precision, np.zeros(d), mass=np.ones(d), noise_draws=1)


TARGETS: dict[str, Callable[[], Target]] = {
    "gaussian": correlated_gaussian,
    "gaussian-cold": cold_gaussian,
    "normal-gamma": normal_gamma,
    "regression": whitened_regression,
    "regression-ill": ill_conditioned_regression,
    "poisson": poisson,
    "heavy-tailed": heavy_tailed,
    "many": many_dimensions,
}
