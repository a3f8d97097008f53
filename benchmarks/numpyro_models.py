"""NumPyro models through `iso.interop.numpyro`: differences from NumPyro's NUTS, and the diagnosis.

    python benchmarks/numpyro_models.py --out out/numpyro
    python benchmarks/numpyro_models.py --rows 400 --only linear,logistic,poisson,groups,mixture,student \\
        --reference benchmarks/references/numpyro.json    # the reference of the tests

A z-score is the difference of two posterior means over its Monte Carlo error. The largest among all parameters and
deterministic sites of a model is reported. Needs the extra `numpyro`.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions.transforms import OrderedTransform
from numpyro.infer import MCMC, NUTS

import isotherm as iso


def linear(x, y):
    """Linear regression with an unknown scale."""
    w = numpyro.sample("w", dist.Normal(0, 2).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    numpyro.deterministic("signal_to_noise", jnp.sqrt(jnp.sum(w**2)) / sigma)
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ w, sigma), obs=y)


def logistic(x, y):
    """Logistic regression."""
    bias = numpyro.sample("bias", dist.Normal(0, 3))
    w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=bias + x @ w), obs=y)


def poisson(x, exposure, y):
    """Counts with an exposure."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Poisson(exposure * rate * jnp.exp(x @ w)), obs=y)


def groups(group, x, y, num_groups):
    """An intercept for each group, drawn from a common distribution."""
    mu = numpyro.sample("mu", dist.Normal(0, 3))
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    with numpyro.plate("groups", num_groups):
        intercept = numpyro.sample("intercept", dist.Normal(mu, tau))
    numpyro.deterministic("range", jnp.max(intercept) - jnp.min(intercept))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(intercept[group] + slope * x, 1.0), obs=y)


def mixture(y):
    """Two components with ordered means; the component of a row is summed out."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(2)))
    apart = dist.TransformedDistribution(dist.Normal(0, 2).expand([2]).to_event(1), OrderedTransform())
    mean = numpyro.sample("mean", apart)
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("data", y.shape[0]):
        component = dist.Normal(mean, scale)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(probs=share), component), obs=y)


def student(x, y):
    """Regression with heavy tails: unknown degrees of freedom."""
    w = numpyro.sample("w", dist.Normal(0, 2).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1))
    freedom = numpyro.sample("freedom", dist.Gamma(2, 0.1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.StudentT(freedom, x @ w, sigma), obs=y)


def horseshoe(x, y):
    """Regression on twenty columns, three of which matter, under a horseshoe prior."""
    tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
    with numpyro.plate("columns", x.shape[1]):
        width = numpyro.sample("width", dist.HalfCauchy(1))
        z = numpyro.sample("z", dist.Normal(0, 1))
    w = numpyro.deterministic("w", z * width * tau)
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ w, sigma), obs=y)


def _columns(rng: np.random.Generator, rows: int, columns: int = 3) -> np.ndarray:
    return rng.normal(size=(rows, columns)).astype(np.float32)


def arguments(name: str, rows: int) -> tuple:
    """Return rows drawn from a model, and its other arguments."""
    rng = np.random.default_rng(1)
    x, w = _columns(rng, rows), np.array([1.0, -0.5, 0.25])
    single = lambda y: np.asarray(y, np.float32)
    if name == "linear":
        return x, single(x @ w + 0.7 * rng.normal(size=rows))
    if name == "logistic":
        return x, (rng.random(rows) < 1 / (1 + np.exp(-(x @ w - 0.5)))).astype(np.int32)
    if name == "poisson":
        exposure = single(rng.uniform(0.5, 2, rows))
        return x, exposure, rng.poisson(1.5 * exposure * np.exp(0.3 * x @ w)).astype(np.int32)
    if name == "groups":
        group, slope = rng.integers(0, 6, rows).astype(np.int32), x[:, 0]
        return group, slope, single(rng.normal(1, 1, 6)[group] + 0.5 * slope + rng.normal(size=rows)), 6
    if name == "mixture":
        first = rng.random(rows) < 0.3
        return (single(np.where(first, -1.5, 1.5) + 0.8 * rng.normal(size=rows)),)
    if name == "student":
        return x, single(x @ w + 0.5 * rng.standard_t(4, rows))
    x = _columns(rng, rows, 20)
    return x, single(x[:, :3] @ [2.0, -1.0, 0.5] + rng.normal(size=rows))


MODELS = {f.__name__: f for f in (linear, logistic, poisson, groups, mixture, student, horseshoe)}


def nuts(name: str, args: tuple, *, draws: int, warmup: int) -> dict[str, np.ndarray]:
    """Return the draws of four chains by NUTS, by site."""
    kernel = NUTS(MODELS[name], target_accept_prob=0.9 if name == "horseshoe" else 0.8)
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *args)
    return {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}


def means(draws: dict[str, np.ndarray]) -> dict[str, tuple[list[float], list[float]]]:
    """Return posterior means and their Monte Carlo errors, by site, from arrays (chain, draw, ...)."""
    from arviz_stats.base import array_stats

    by_site = {}
    for site, x in draws.items():
        x = x.reshape(*x.shape[:2], -1).astype(np.float64)
        size = array_stats.ess(x, method="mean", chain_axis=0, draw_axis=1)
        by_site[site] = x.mean(axis=(0, 1)).tolist(), (x.std(axis=(0, 1)) / np.sqrt(size)).tolist()
    return by_site


def z_scores(draws: iso.Draws, exact: dict[str, tuple[list[float], list[float]]]) -> dict[str, float]:
    """Return the largest z-score of each site, over all parameters and deterministic sites."""
    estimates = means({**draws.flat(), **draws.derived})
    parts = {site: np.array([estimates[site], exact[site]]) for site in estimates}
    score = lambda a, b: float(np.max(np.abs(a[0] - b[0]) / np.hypot(a[1], b[1])))
    return {site: score(*x) for site, x in parts.items()}


def judge(name: str, rows: int) -> dict:
    """Return the record of one model."""
    args = arguments(name, rows)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = iso.interop.numpyro.posterior(MODELS[name], args).sample(progress=False)
        seconds, began = time.perf_counter() - began, time.perf_counter()
        exact = nuts(name, args, draws=2000, warmup=1000)
        nuts_seconds = time.perf_counter() - began
        diagnosis = iso.diagnose(draws, progress=False)
    scores = z_scores(draws, means(exact))
    worst = max(scores, key=scores.__getitem__)
    ratio = [x.std() / exact[site].std() for site, x in draws.flat().items() if x.ndim == 2]
    return {
        "model": name,
        "rows": rows,
        "largest_z": round(scores[worst], 2),
        "of": worst,
        "sd_ratio": [round(float(f(ratio)), 3) for f in (min, max)] if ratio else None,
        "ess": round(min(row.ess_bulk for row in diagnosis.summary.rows)),
        "seconds": round(seconds, 1),
        "nuts_seconds": round(nuts_seconds, 1),
        "ok": diagnosis.ok,
        "verdict": diagnosis.verdict,
    }


def write_reference(path: Path, names: list[str], rows: int) -> None:
    """Write the means of long runs of NUTS, with their errors."""
    exact = {name: means(nuts(name, arguments(name, rows), draws=5000, warmup=1000)) for name in names}
    path.write_text(json.dumps({"rows": rows, "means": exact}, indent=1) + "\n")


def main() -> None:
    """Print and write a record per model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(MODELS), help="models, separated by commas")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--reference", type=Path, help="only write NUTS's means to this file, for the tests")
    parser.add_argument("--out", type=Path, default=Path("out/numpyro"))
    options = parser.parse_args()
    if options.reference is not None:
        write_reference(options.reference, options.only.split(","), options.rows)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    table = []
    for name in options.only.split(","):
        table.append(judge(name, options.rows))
        print(json.dumps(table[-1]), flush=True)
        (options.out / "numpyro.json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
