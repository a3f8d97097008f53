"""Regressions on columns as they are: far from zero, nearly equal, in any units. Draws against the closed form."""

import importlib
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from support.monte_carlo import LIMIT

FOLDER = Path(__file__).parents[2] / "benchmarks" / "raw_columns"


@pytest.fixture(scope="module")
def benchmark():
    """Return a function that imports a file of the benchmark, whose files import each other by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module
        for name in ("exact", "designs"):
            sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seed", "data", "chains"),
    [
        ("lat, lon, lat x lon", 0, "float32", "float32"),
        ("2000 ± 10", 2, "float32", "float32"),
        ("1e6 ± 1", 1, "float64", "float64"),
    ],
)
def test_draws_agree_with_the_closed_form(benchmark, name, seed, data, chains):
    """Normal errors of known sd: mean and sd of each coefficient, to five Monte Carlo errors (6e-7 each).

    From n_eff draws of a normal variable the mean is known to sd / sqrt(n_eff) and the sd to sqrt(1 / (2 n_eff)) of
    itself. The step has no bias for a normal posterior. JAX is set to float32, whatever the type of the data.
    """
    design = benchmark("designs").case(name, "normal", seed)
    exact = benchmark("exact").moments(design.x, design.y, "normal")
    assert design.x.dtype == data
    draws = iso.sample(*design.problem(), num_chains=16, num_draws=500, progress=False)
    arithmetic = draws.record.arithmetic
    assert arithmetic.dtype == chains
    assert arithmetic.rounding < 0.02
    assert arithmetic.force_error < 0.03
    summary = draws.summary()
    assert summary.verdict.startswith("No fault found"), summary.verdict
    x = np.asarray(draws.posterior["w"], np.float64)
    for k in range(x.shape[2]):
        row = summary[f"w[{k}]"]
        n_eff = min(row.ess_bulk, row.ess_tail)
        assert n_eff > 3000
        assert abs(x[..., k].mean() - exact.mean[k]) < LIMIT * exact.sd[k] / n_eff**0.5
        assert abs(x[..., k].std() / exact.sd[k] - 1) < LIMIT * (1 / (2 * n_eff)) ** 0.5


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_rows_that_float32_would_spoil_stay_in_float64():
    """Numbers next to 1e8 are 8 apart in float32. The user's JAX is set to float32, and stays so."""
    rows = 1e8 + np.random.default_rng(0).normal(size=200)
    posterior = iso.Posterior(lambda m, row: -0.5 * (row - m) ** 2)
    setup = iso.warmup(posterior, rows, jnp.asarray(9.9e7), progress=False)
    assert setup.arithmetic.dtype == "float64"
    assert setup.problem.data.dtype == np.float64
    assert abs(float(setup.problem.init) - rows.mean()) < 1e-6
    assert jnp.asarray(rows).dtype == jnp.float32
    # What float32 holds stays in it.
    few = iso.warmup(posterior, rows - 1e8, jnp.asarray(0.0), progress=False)
    assert few.arithmetic.dtype == "float32"
    assert few.problem.data.dtype == np.float32
