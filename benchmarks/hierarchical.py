"""Multilevel NumPyro models from the default start, beside NumPyro's NUTS.

python benchmarks/hierarchical.py [schools] [crossed] [slopes] [poisson] [poisson_python] [--rows N] [--groups G]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size

import isotherm as iso

Made = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]  # model, arguments, and those it always has


def schools(non_centred: bool = False) -> Made:
    """Eight schools: one row each, with a known standard error."""

    def model(school, error, y):
        mean, spread = numpyro.sample("mean", dist.Normal(0, 5)), numpyro.sample("spread", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            effect = numpyro.sample("effect", dist.Normal(0, 1) if non_centred else dist.Normal(mean, spread))
        effect = mean + spread * effect if non_centred else effect
        with numpyro.plate("rows", y.shape[0]):
            numpyro.sample("y", dist.Normal(effect[school], error), obs=y)

    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
    error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)
    return model, (np.arange(8, dtype=np.int32), error, y), {}


def schools_non_centred() -> Made:
    """The same, written non-centred."""
    return schools(non_centred=True)


def crossed(students: int = 60, items: int = 12) -> Made:
    """Answers of students to items: abilities and difficulties."""

    def model(student, item, y):
        mean = numpyro.sample("mean", dist.Normal(0, 2))
        of_students = numpyro.sample("sd_students", dist.HalfNormal(2))
        of_items = numpyro.sample("sd_items", dist.HalfNormal(2))
        with numpyro.plate("students", students):
            ability = numpyro.sample("ability", dist.Normal(0, of_students))
        with numpyro.plate("items", items):
            difficulty = numpyro.sample("difficulty", dist.Normal(0, of_items))
        with numpyro.plate("rows", y.shape[0]):
            logits = mean + ability[student] - difficulty[item]
            numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)

    rng = np.random.default_rng(1)
    student, item = (x.ravel().astype(np.int32) for x in np.mgrid[:students, :items])
    eta = 0.5 + rng.normal(size=students)[student] - 0.7 * rng.normal(size=items)[item]
    return model, (student, item, (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(np.int32)), {}


def slopes(groups: int = 30, rows: int = 300) -> Made:
    """Intercepts and slopes that vary together."""

    def model(group, x, y):
        sd = numpyro.sample("sd", dist.HalfNormal(2).expand([2]).to_event(1))
        root = numpyro.sample("root", dist.LKJCholesky(2, 2.0))
        mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
        sigma = numpyro.sample("sigma", dist.HalfNormal(2))
        with numpyro.plate("groups", groups):
            law = dist.MultivariateNormal(mean, scale_tril=sd[:, None] * root)
            b = numpyro.sample("b", law)
        with numpyro.plate("rows", y.shape[0]):
            numpyro.sample("y", dist.Normal(b[group, 0] + b[group, 1] * x, sigma), obs=y)

    rng = np.random.default_rng(2)
    group, x = np.arange(rows, dtype=np.int32) % groups, rng.normal(size=rows).astype(np.float32)
    b = rng.multivariate_normal([1.0, -0.5], [[0.64, 0.2], [0.2, 0.25]], groups)
    y = b[group, 0] + b[group, 1] * x + rng.normal(size=rows)
    return model, (group, x, y.astype(np.float32)), {}


def counts(rows: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, groups and counts."""
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=(rows, 3)).astype(np.float32), rng.integers(0, groups, rows).astype(np.int32)
    eta = 0.5 + 0.4 * rng.normal(size=groups)[group] + x @ np.array([0.2, -0.1, 0.3])
    return x, group, rng.poisson(np.exp(eta)).astype(np.int32)


def poisson(rows: int, groups: int) -> Made:
    """A Poisson regression with an intercept for each region."""

    def model(x, region, y):
        mean, spread = numpyro.sample("mean", dist.Normal(0, 1)), numpyro.sample("spread", dist.HalfNormal(1))
        slope = numpyro.sample("slope", dist.Normal(0, 1).expand([3]).to_event(1))
        with numpyro.plate("regions", groups):
            effect = numpyro.sample("effect", dist.Normal(mean, spread))
        with numpyro.plate("rows", y.shape[0]):
            numpyro.sample("y", dist.Poisson(jnp.exp(effect[region] + x @ slope)), obs=y)

    return model, counts(rows, groups), {}


def poisson_python(rows: int, groups: int) -> tuple[iso.Posterior, dict[str, Any], dict[str, Any]]:
    """The same in plain Python."""
    x, region, y = counts(rows, groups)

    def log_likelihood(q, row):
        eta = q["effect"][row["region"]] + row["x"] @ q["slope"]
        return row["y"] * eta - jnp.exp(eta)

    def log_prior(q):
        z = (q["effect"] - q["mean"]) / q["spread"]
        others = q["mean"] ** 2 + q["spread"] ** 2 + jnp.sum(q["slope"] ** 2)
        return -0.5 * (jnp.sum(z**2) + others) - groups * jnp.log(q["spread"])

    transforms = {"effect": None, "mean": None, "slope": None, "spread": iso.Scale()}
    group = iso.Group("region", scale="spread", location="mean")
    posterior = iso.Posterior(log_likelihood, log_prior, transforms=transforms, groups={"effect": group})
    init = {
        "effect": np.zeros(groups, np.float32),
        "mean": 0.0,
        "slope": np.zeros(3, np.float32),
        "spread": 1.0,
    }
    return posterior, {"x": x, "region": region, "y": y.astype(np.float32)}, init


def nuts(
    model: Callable[..., Any], args: tuple[Any, ...], *, draws: int, minutes: float
) -> tuple[dict, float]:
    """Draws of NUTS by site, of as many of four chains as begin within the time, and the seconds they took."""
    began, chains = time.perf_counter(), []
    args = tuple(jnp.asarray(x) for x in args)
    for chain in range(4):
        if chains and time.perf_counter() - began > 60 * minutes * chain / (chain + 1):
            break
        kernel = numpyro.infer.NUTS(model, target_accept_prob=0.95)
        mcmc = numpyro.infer.MCMC(kernel, num_warmup=draws, num_samples=draws, progress_bar=False)
        mcmc.run(jax.random.key(chain), *args)
        chains.append(jax.device_get(mcmc.get_samples()))
    seconds = time.perf_counter() - began
    return {name: np.stack([chain[name] for chain in chains]) for name in chains[0]}, seconds


def table(
    draws: iso.Draws, seconds: float, truth: dict[str, np.ndarray] | None, truth_seconds: float
) -> None:
    """Print each dense site beside NUTS, and the worst of all levels."""
    summary = draws.summary()
    rows = {row.name: row for row in summary.rows}
    print(
        f"{draws.record.setup_passes + draws.record.data_passes:,.0f} passes, {seconds:.0f} s: {summary.verdict}"
    )
    print(f"least effective draws {min(row.ess_bulk for row in summary.rows):,.0f}")
    if truth is None:
        return
    chains = len(next(iter(truth.values())))
    least = min(float(np.min(effective_sample_size(x))) for n, x in truth.items() if n != "root")
    print(f"NUTS: {chains} chains, {truth_seconds:.0f} s, least effective draws {least:,.0f}")
    ratios, errors = [], []
    for name, x in truth.items():
        mean, sd = x.mean(axis=(0, 1)), x.std(axis=(0, 1))
        ess = np.asarray(effective_sample_size(x))
        for index in np.ndindex(mean.shape):
            row = rows[name + (f"[{','.join(map(str, index))}]" if index else "")]
            if not sd[index] > 1e-6:
                continue
            error = (sd[index] ** 2 / ess[index] + row.mcse**2) ** 0.5
            ratios.append(row.sd / sd[index])
            errors.append((row.mean - mean[index]) / error)
            if mean.size <= 4:
                pair = f"{mean[index]:.3f} ± {sd[index]:.3f} | {row.mean:.3f} ± {row.sd:.3f}"
                print(f"| {row.name} | {pair} | {errors[-1]:+.2f} |")
    share = f"{np.min(ratios):.3f} to {np.max(ratios):.3f}, median {np.median(ratios):.3f}"
    print(f"largest difference of means {np.max(np.abs(errors)):.2f} Monte Carlo errors; sds {share}")


def main() -> None:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser()
    names = ("schools", "schools_non_centred", "crossed", "slopes", "poisson", "poisson_python")
    parser.add_argument("parts", nargs="*", default=list(names[:-1]))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument(
        "--draws", type=int, default=1000, help="of NUTS, per chain, after as many of warm-up"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="for NUTS; 0 leaves it out")
    chosen = parser.parse_args()
    for part in chosen.parts:
        sizes = (chosen.rows, chosen.groups) if part.startswith("poisson") else ()
        made, began = globals()[part](*sizes), time.perf_counter()
        print(f"\n## {part} {sizes or ''}", flush=True)
        if part == "poisson_python":
            draws = iso.sample(*made, progress=False)
        else:
            draws = iso.interop.numpyro.posterior(made[0], made[1]).sample(progress=False)
        seconds = time.perf_counter() - began
        print(draws.setup, flush=True)
        truth, took = None, 0.0
        if chosen.minutes and part != "poisson_python":
            truth, took = nuts(made[0], made[1], draws=chosen.draws, minutes=chosen.minutes)
        table(draws, seconds, truth, took)


if __name__ == "__main__":
    main()
