"""Posteriors of few rows: a step uses all of them, and the draws are right."""

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from support.monte_carlo import LIMIT

START = {"m": jnp.zeros(()), "s": jnp.zeros(())}
POSTERIOR = iso.Posterior(
    lambda p, row: -0.5 * ((row - p["m"]) * jnp.exp(-p["s"])) ** 2 - p["s"],
    lambda p: -0.5 * (p["m"] / 2) ** 2 - 0.5 * p["s"] ** 2,
)


def rows(num_data):
    return np.random.default_rng(num_data).normal(size=num_data).astype(np.float32)


def quadrature(y):
    """Return mean, sd and kurtosis of the mean m and of the log-sd s of normal rows, by sums over a grid."""
    m, s = np.meshgrid(np.linspace(-12, 12, 1201), np.linspace(-5, 5, 1001), indexing="ij")
    log_density = -0.5 * (m / 2) ** 2 - 0.5 * s**2 - len(y) * s
    for value in y.astype(np.float64):
        log_density -= 0.5 * ((value - m) * np.exp(-s)) ** 2
    p = np.exp(log_density - log_density.max())
    p /= p.sum()
    moments = {}
    for name, x in (("m", m), ("s", s)):
        mean = np.sum(p * x)
        sd = np.sum(p * (x - mean) ** 2) ** 0.5
        moments[name] = mean, sd, np.sum(p * (x - mean) ** 4) / sd**4
    return moments


@pytest.mark.slow
@pytest.mark.parametrize(("num_data", "all_rows"), [(5, True), (255, True), (256, False)])
@pytest.mark.usefixtures("quick_compilation")
def test_all_rows_are_used_where_a_batch_would_be_over_an_eighth(num_data, all_rows):
    """The smallest batch has 32 rows, which is enough for this posterior."""
    tuned = iso.warmup(POSTERIOR, rows(num_data), START, progress=False)
    (why,) = (reason.why for reason in tuned.reasons if reason.choice == "gradient")
    assert tuned.gradient.all_rows == all_rows
    assert tuned.batch_size == (num_data if all_rows else 32)
    assert (f"batches would have 32 of {num_data} rows" in why) == (all_rows and num_data > 32)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_a_batch_that_is_given_is_used_for_few_rows():
    tuned = iso.warmup(POSTERIOR, rows(60), START, batch_size=30, progress=False)
    assert tuned.batch_size == 30
    assert not tuned.gradient.all_rows


@pytest.mark.slow
@pytest.mark.parametrize("num_data", [3, 5, 10, 40])
def test_few_rows_are_sampled_correctly(num_data):
    """Mean and sd against quadrature, to five Monte Carlo errors: 6e-7 each, 1e-5 for all sixteen.

    From n_eff draws the mean is known to sd / sqrt(n_eff), and the sd to sqrt((kurtosis - 1) / (4 n_eff)) of itself.
    The step adds a bias of up to 0.012 to the sd (256 chains of 2,000 draws) and 0.005 sd to the mean.
    """
    y = rows(num_data)
    draws = iso.sample(POSTERIOR, y, START, num_chains=32, num_draws=1000, progress=False)
    summary = draws.summary()
    for name, (mean, sd, kurtosis) in quadrature(y).items():
        row, x = summary[name], np.asarray(draws.posterior[name], np.float64)
        n_eff = min(row.ess_bulk, row.ess_tail)
        assert n_eff > 5000
        assert abs(x.mean() - mean) / sd < LIMIT / n_eff**0.5 + 0.005
        assert abs(x.std() / sd - 1) < LIMIT * ((kurtosis - 1) / (4 * n_eff)) ** 0.5 + 0.012
