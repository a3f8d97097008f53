"""A regression with many rows in each group, written centred and non-centred, beside exact standard deviations.

python benchmarks/centred.py
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import isotherm as iso

GROUPS, ROWS, COLUMNS = 60, 50_000, 5
SLOPE = np.array([0.2, -0.1, 0.0, 0.3, 0.05])


def made() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, groups and counts."""
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=(ROWS, COLUMNS)), rng.integers(0, GROUPS, ROWS)
    effect = 0.5 * rng.normal(1, 0.5, GROUPS)
    return x, group, rng.poisson(np.exp(effect[group] + x @ SLOPE))


def model(x, group, y, centred):
    """Poisson regression with an intercept for each group."""
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.HalfCauchy(1.0))
    with numpyro.plate("groups", GROUPS):
        z = numpyro.sample("z", dist.Normal(mean, spread) if centred else dist.Normal(0, 1))
    effect = z if centred else mean + spread * z
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([COLUMNS]).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Poisson(jnp.exp(effect[group] + x @ slope)), obs=y)


def exact(x: np.ndarray, group: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Standard deviations of mean and spread, from normal likelihoods of the groups' effects on a grid."""
    total = np.bincount(group, weights=y)
    effect = np.log(total / np.bincount(group, weights=np.exp(x @ SLOPE)))
    m, s = np.meshgrid(np.linspace(0.2, 0.8, 601), np.linspace(0.02, 0.6, 581), indexing="ij")
    log_density = -0.5 * m**2 - np.log1p(s**2)
    for value, error in zip(effect, total**-0.5, strict=True):
        variance = s**2 + error**2
        log_density += -0.5 * np.log(variance) - 0.5 * (value - m) ** 2 / variance
    p = np.exp(log_density - log_density.max())
    p /= p.sum()
    sd = lambda grid: float(((p * grid**2).sum() - (p * grid).sum() ** 2) ** 0.5)
    return sd(m), sd(s)


if __name__ == "__main__":
    x, group, y = made()
    print(
        "| | passes of a chain | sd of `mean` | sd of `spread` | `draws.summary()` | `iso.diagnose(draws)` |"
    )
    print("|---|---|---|---|---|---|")
    print("| exact | | {:.4f} | {:.4f} | | |".format(*exact(x, group, y)))
    for centred in (True, False):
        draws = iso.interop.numpyro.posterior(model, (x, group, y, centred)).sample(
            num_draws=1000, progress=False
        )
        summary = draws.summary()
        spreads = " | ".join(f"{summary[name].sd:.4f}" for name in ("mean", "spread"))
        verdicts = f"{summary.verdict} | {iso.diagnose(draws, progress=False).verdict}"
        print(
            f"| {'' if centred else 'non-'}centred | {draws.record.data_passes:,.1f} | {spreads} | {verdicts} |"
        )
