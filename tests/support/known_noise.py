"""Chains on a Gaussian target whose gradient noise is known exactly, and estimates with standard errors.

    target = GaussianTarget(np.diag([1.0, 4.0]))
    result = run(target, constant(np.diag([30.0, 5.0])), iso.SGNHT(0.05, 1.0), seed=1)
    result.variance.value, result.variance.se

The noise is given by a *root* B(theta), a (d, k) matrix: the force is -grad U + B R with R standard normal,
so C = B B' exactly, and the contrasts are sqrt(k) times the columns of B, whose mean of z z' is C exactly. A
sampler with `iso.Dense(averaging=1.0)` therefore applies C(theta_t) itself; with the default averaging 1/t it
applies the mean of C along the chain, which is the same only if C is constant.

Chains are independent, so the standard error of a grand mean is the spread of the means of chains over sqrt(chains),
whatever the autocorrelation. All chains start at the mean of the target.
"""

import dataclasses
import warnings
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

import isotherm as iso
from support.estimate import Estimate, assert_agrees, extrapolated

Root = Callable[[Float[Array, " d"]], Float[Array, "d k"]]


class GaussianTarget(eqx.Module):
    """U = (theta - mean)' precision (theta - mean) / 2 over the ravelled parameters, shaped like `like`."""

    precision: Float[Array, "d d"] = eqx.field(converter=lambda x: jnp.asarray(x, float))
    mean: Float[Array, " d"] | None = None
    like: PyTree = None

    def __post_init__(self) -> None:
        d = self.precision.shape[0]
        self.mean = jnp.zeros(d) if self.mean is None else jnp.asarray(self.mean, float)
        self.like = jnp.zeros(d) if self.like is None else jax.tree.map(jnp.asarray, self.like)

    @property
    def covariance(self) -> np.ndarray:
        """The covariance at temperature 1."""
        return np.linalg.inv(np.asarray(self.precision, np.float64))

    def unravel(self, vector: Float[Array, " d"]) -> PyTree:
        """Return a vector of parameters in the structure of `like`."""
        return ravel_pytree(self.like)[1](vector)

    def force(self, theta: Float[Array, " d"]) -> Float[Array, " d"]:
        """-grad U."""
        return -self.precision @ (theta - self.mean)

    def log_density(self, position: PyTree) -> Float[Array, ""]:
        """-U."""
        d = ravel_pytree(position)[0] - self.mean
        return -0.5 * d @ self.precision @ d

    def posterior(self, temperature: float = 1.0) -> iso.Posterior:
        """Return a posterior whose prior is the density; the rows of `ROWS` carry no information."""
        return iso.Posterior(_flat_likelihood, self.log_density, temperature=temperature)


__all__ = [
    "ROWS",
    "Estimate",
    "GaussianTarget",
    "KnownNoise",
    "Result",
    "assert_agrees",
    "constant",
    "extrapolated",
    "run",
    "run_extrapolated",
    "summarise",
]

ROWS = np.zeros(2, np.float32)


def _flat_likelihood(position: PyTree, row: Float[Array, ""]) -> Float[Array, ""]:
    del position
    return 0.0 * row


class KnownNoise(iso.extend.Gradient):
    """The exact force of `target` plus normal noise of covariance `scale` B(theta) B(theta)'."""

    target: GaussianTarget
    root: Root = eqx.field(static=True)
    scale: Float[Array, ""] = eqx.field(converter=lambda x: jnp.asarray(x, float), default=1.0)

    all_rows = True

    def __call__(self, position, batch, *, needs, key) -> iso.extend.GradientEstimate:
        del batch
        theta, unravel = ravel_pytree(position)
        B = jnp.sqrt(self.scale) * self.root(theta)
        k = B.shape[1]
        force = unravel(self.target.force(theta) + B @ jax.random.normal(key, (k,)))
        contrasts = None if not needs.contrasts else jax.vmap(unravel)(np.sqrt(k) * B.T)
        return iso.extend.GradientEstimate(force, contrasts, jnp.zeros(()))


def constant(C: np.ndarray) -> Root:
    """Return the root of a constant covariance. Reuse it and vary `noise_scale` to compile once."""
    root = np.linalg.cholesky(np.asarray(C, np.float64)) if np.any(C) else np.zeros_like(C, float)
    return lambda theta: jnp.asarray(root, theta.dtype)


@dataclasses.dataclass(frozen=True)
class Result:
    """Estimates of one run. `mean`, `variance`, `configurational` are along `directions`, others are scalars.

    `variance` is about the mean of the target, and `configurational` is E[(q.(theta - mean)) (q.grad U(theta))] with
    the exact gradient at the kept draws, so both are unbiased however short the chain. `kinetic`, `xi_mean` and
    `xi_variance` are `None` if the sampler has no momentum or no thermostat. `chains` is the number of chains.
    """

    mean: Estimate
    variance: Estimate
    configurational: Estimate
    kinetic: Estimate | None
    xi_mean: Estimate | None
    xi_variance: Estimate | None
    chains: int
    draws: iso.Draws


def run(
    target: GaussianTarget,
    root: Root,
    sampler: iso.extend.Sampler,
    *,
    seed: int,
    noise_scale: float = 1.0,
    num_chains: int = 256,
    num_draws: int = 1000,
    thinning: int = 4,
    burn_in: int = 1000,
    directions: np.ndarray | None = None,
) -> Result:
    """Sample under noise `noise_scale` B B'; `directions` are orthonormal columns, the axes by default.

    Warnings at the start are not shown: theory is compared at steps where the scheme is known to be biased.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "At the start", iso.IsothermWarning)
        draws = iso.sample(
            target.posterior(),
            ROWS,
            target.unravel(target.mean),
            sampler=sampler,
            batch_size=len(ROWS),
            num_draws=num_draws,
            thinning=thinning,
            burn_in=burn_in,
            num_chains=num_chains,
            seed=seed,
            gradient=KnownNoise(target, root, noise_scale),
            progress=False,
        )
    return summarise(draws, target, directions)


def summarise(draws: iso.Draws, target: GaussianTarget, directions: np.ndarray | None = None) -> Result:
    """Return the estimates of `run` from any draws of a Gaussian target."""
    leaves = [np.asarray(x, np.float64) for x in jax.tree.leaves(draws.posterior)]
    theta = np.concatenate([x.reshape(*x.shape[:2], -1) for x in leaves], axis=2)
    P, m = np.asarray(target.precision, np.float64), np.asarray(target.mean, np.float64)
    Q = np.eye(len(m)) if directions is None else np.asarray(directions, np.float64)
    d = theta - m
    along, gradient = d @ Q, d @ P @ Q
    kinetic, xi = draws.stats.get("kinetic_temperature"), draws.stats.get("xi")
    return Result(
        mean=Estimate.of(along.mean(axis=1)).map(1.0, m @ Q),
        variance=Estimate.of((along**2).mean(axis=1)),
        configurational=Estimate.of((along * gradient).mean(axis=1)),
        kinetic=None if kinetic is None else Estimate.of(np.mean(kinetic, axis=1, dtype=np.float64)),
        xi_mean=None if xi is None else Estimate.of(np.mean(xi, axis=1, dtype=np.float64)),
        xi_variance=None
        if xi is None
        else Estimate.of(np.mean((xi - xi.mean(dtype=np.float64)) ** 2, axis=1, dtype=np.float64)),
        chains=draws.num_chains,
        draws=draws,
    )


def run_extrapolated(
    target: GaussianTarget,
    root: Root,
    make: Callable[[float], iso.extend.Sampler],
    *,
    step_size: float,
    diffusion: float,
    seed: int,
    num_chains: int = 256,
    num_draws: int = 1000,
    thinning: int = 3,
    burn_in: int = 400,
    directions: np.ndarray | None = None,
) -> Result:
    """Return estimates without first-order bias: 2 x(h/2) - x(h) from two runs (`seed`, `seed + 1`).

    Both runs discretise one SDE: h C = `diffusion` B B' is the same at h = `step_size` and at h/2, and so are
    the times of the draws. The remaining bias is of second order in h. `draws` are those of the finer run.
    """
    shared = {"num_chains": num_chains, "num_draws": num_draws, "directions": directions}
    h = step_size
    coarse = run(
        target,
        root,
        make(h),
        seed=seed,
        noise_scale=diffusion / h,
        thinning=thinning,
        burn_in=burn_in,
        **shared,
    )
    fine = run(
        target,
        root,
        make(h / 2),
        seed=seed + 1,
        noise_scale=2 * diffusion / h,
        thinning=2 * thinning,
        burn_in=2 * burn_in,
        **shared,
    )
    names = ("mean", "variance", "configurational", "kinetic", "xi_mean", "xi_variance")
    pairs = {name: (getattr(coarse, name), getattr(fine, name)) for name in names}
    estimates = {k: None if c is None else extrapolated(c, f) for k, (c, f) in pairs.items()}
    return Result(**estimates, chains=num_chains, draws=fine.draws)
