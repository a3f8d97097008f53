"""Regressions with effects of groups on simulated rows, and NumPyro's NUTS on the same densities."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

import isotherm as iso
from isotherm.transforms import correlation_factor

FAMILIES = ("normal", "logistic", "poisson")


class Model(NamedTuple):
    """A posterior, its rows, where to start, and the parameters that made the rows."""

    posterior: iso.Posterior
    rows: dict[str, np.ndarray]
    init: dict[str, Any]
    truth: dict[str, np.ndarray]


def crossed(
    family: str,
    levels: np.ndarray,
    sites: np.ndarray | None = None,
    *,
    slope: bool = True,
    truth: dict[str, Any] | None = None,
    seed: int = 0,
    prior_sd: float = 5.0,
) -> Model:
    """Return y ~ a + b x + (1 + x | level) + (1 | site), or without the slopes of levels, or without sites.

    `levels` and `sites` are the numbers of the level of each row. Prior: a, b ~ N(0, prior_sd^2), standard
    deviations half-normal of scale 1, correlations LKJ(2). `truth` replaces parameters that make the rows.
    """
    rng = np.random.default_rng(seed)
    G, q = int(levels.max()) + 1, 2 if slope else 1
    true = {"coefficients": np.array([-0.5, 0.4]), "sd": np.array([0.7, 0.4])[:q], "sigma": np.array(1.0)}
    true |= {"r": np.array([0.3]), "sd_site": np.array(0.5)} | (truth or {})
    S = 0 if sites is None else int(sites.max()) + 1
    root = np.eye(q)
    if slope:
        root = np.linalg.cholesky(np.array([[1, true["r"][0]], [true["r"][0], 1]]) + 1e-9 * np.eye(2))
    true["effect"] = rng.normal(size=(G, q)) @ (true["sd"][:, None] * root).T
    true["site"] = true["sd_site"] * rng.normal(size=S)
    rows = simulated(family, true, levels, sites, rng)

    def log_likelihood(theta: dict[str, jax.Array], row: dict[str, jax.Array]) -> jax.Array:
        eta, y = _predictor(theta, row), row["y"]
        if family == "normal":
            return -0.5 * ((y - eta) / theta["sigma"]) ** 2 - jnp.log(theta["sigma"])
        return y * eta - (jax.nn.softplus(eta) if family == "logistic" else jnp.exp(eta))

    def log_prior(theta: dict[str, jax.Array]) -> jax.Array:
        value = -0.5 * jnp.sum(theta["coefficients"] ** 2) / prior_sd**2 - 0.5 * jnp.sum(theta["sd"] ** 2)
        z = theta["effect"] / theta["sd"]
        if slope:
            factor = correlation_factor(theta["r"], q)
            z = solve_triangular(factor, z.T, lower=True).T
            value += (2 - 1 - G / 2) * 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))
        value += -0.5 * jnp.sum(z**2) - G * jnp.sum(jnp.log(theta["sd"]))
        if sites is not None:
            value += -0.5 * jnp.sum((theta["site"] / theta["sd_site"]) ** 2) - S * jnp.log(theta["sd_site"])
            value += -0.5 * theta["sd_site"] ** 2
        return value - theta["sigma"] if family == "normal" else value

    transforms = {"coefficients": None, "effect": None, "sd": iso.Scale()}
    init = {"coefficients": np.zeros(2), "effect": np.zeros((G, q)), "sd": np.ones(q)}
    groups = {"effect": iso.Group("level", scale="sd", correlations="r" if slope else None)}
    if slope:
        transforms["r"], init["r"] = iso.Correlations(), np.zeros(1)
    if sites is not None:
        transforms |= {"site": None, "sd_site": iso.Scale()}
        init |= {"site": np.zeros(S), "sd_site": np.array(1.0)}
        groups["site"] = iso.Group("site", scale="sd_site")
    if family == "normal":
        transforms["sigma"], init["sigma"] = iso.Scale(), np.array(1.0)
    posterior = iso.Posterior(log_likelihood, log_prior, transforms=transforms, groups=groups)
    start = {name: x.astype(np.float32) for name, x in init.items()}
    return Model(posterior, rows, start, {name: true[name] for name in start})


def simulated(
    family: str,
    true: dict[str, Any],
    levels: np.ndarray,
    sites: np.ndarray | None,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Return rows that parameters `true` make."""
    rows = {"x": rng.normal(size=len(levels)), "level": levels.astype(np.int32)}
    if sites is not None:
        rows["site"] = sites.astype(np.int32)
    eta = np.asarray(_predictor(true, rows))
    rows["y"] = {
        "normal": lambda: eta + true["sigma"] * rng.normal(size=len(eta)),
        "logistic": lambda: rng.random(len(eta)) < 1 / (1 + np.exp(-eta)),
        "poisson": lambda: rng.poisson(np.exp(eta)),
    }[family]()
    return {k: v if v.dtype == np.int32 else v.astype(np.float32) for k, v in rows.items()}


def _predictor(theta: dict[str, Any], row: dict[str, Any]) -> Any:
    effect = theta["effect"][row["level"]]
    eta = theta["coefficients"][0] + theta["coefficients"][1] * row["x"] + effect[..., 0]
    if theta["effect"].shape[1] > 1:
        eta = eta + effect[..., 1] * row["x"]
    return eta + theta["site"][row["site"]] if "site" in row else eta


def by_nuts(
    model: Model, *, num_draws: int, num_warmup: int, num_chains: int, centred: bool, seed: int = 0
) -> dict[str, np.ndarray]:
    """Return draws of NumPyro's NUTS, (chain, draw, ...), in centred or in non-centred coordinates."""
    from numpyro.infer import MCMC, NUTS

    posterior, rows = model.posterior, {k: jnp.asarray(x) for k, x in model.rows.items()}
    transforms = {name: t for name, t in posterior.transforms.items() if t is not None}
    groups = dict(posterior.groups)

    def root(theta: dict[str, jax.Array], name: str) -> jax.Array:
        group = groups[name]
        sd = jnp.atleast_1d(theta[group.scale])
        return (
            jnp.diag(sd)
            if group.correlations is None
            else sd[:, None] * correlation_factor(theta[group.correlations], len(sd))
        )

    def params(free: dict[str, jax.Array]) -> tuple[dict[str, jax.Array], jax.Array]:
        out, volume = dict(free), jnp.zeros(())
        for name, t in transforms.items():
            out[name] = t(free[name])
            volume += jnp.sum(t.log_abs_det_jacobian(free[name], out[name]))
        for name in () if centred else groups:
            L, z = root(out, name), free[name]
            out[name] = (z.reshape(len(z), -1) @ L.T).reshape(z.shape)
            volume += len(z) * jnp.sum(jnp.log(jnp.diagonal(L)))
        return out, volume

    def potential(free: dict[str, jax.Array]) -> jax.Array:
        theta, volume = params(free)
        likelihood = jnp.sum(posterior.row_log_likelihoods(theta, rows))
        return -(likelihood + posterior.prior_log_density(theta) + volume)

    start = {k: jnp.asarray(x) for k, x in model.init.items()}
    start = {k: transforms[k].inv(0.5 * x) if k in transforms else x for k, x in start.items()}
    mcmc = MCMC(
        NUTS(potential_fn=potential),
        num_warmup=num_warmup,
        num_samples=num_draws,
        num_chains=num_chains,
        chain_method="sequential",
        progress_bar=False,
    )
    copies = start if num_chains == 1 else {k: jnp.stack([x] * num_chains) for k, x in start.items()}
    mcmc.run(jax.random.key(seed), init_params=copies)
    found = mcmc.get_samples(group_by_chain=True)
    mapped = jax.lax.map(lambda x: params(x)[0], {k: v.reshape(-1, *v.shape[2:]) for k, v in found.items()})
    return {k: np.asarray(v).reshape(num_chains, num_draws, *v.shape[1:]) for k, v in mapped.items()}
