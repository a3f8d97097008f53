"""Thinning to a precision: chains whose autocorrelation is known."""

import numpy as np
import pytest

import isotherm as iso
from isotherm.prediction.thinning import thinned
from isotherm.tables.forecasting import forecast
from support.made_forecast import made_forecast, table
from support.made_run import CHAINS, LENGTH

pytestmark = pytest.mark.usefixtures("quick_compilation")


def autoregressive(rho, rows=5):
    """Return chains end to end, (draw, row), whose integrated autocorrelation time is (1 + rho) / (1 - rho)."""
    rng = np.random.default_rng(0)
    x = np.empty((CHAINS, LENGTH, rows))
    x[:, 0] = rng.normal(size=(CHAINS, rows))
    for t in range(1, LENGTH):
        x[:, t] = rho * x[:, t - 1] + (1 - rho**2) ** 0.5 * rng.normal(size=(CHAINS, rows))
    return x.reshape(-1, rows)


def test_independent_draws_are_thinned_to_one_over_the_square_of_the_precision():
    """The least effective size of five rows is within 30 % of the number of draws."""
    found = thinned(made_forecast("linear"), autoregressive(0.0), 0.08)
    count = found.num_chains * found.num_draws
    assert count + CHAINS >= 1 / 0.08**2
    assert count < 1.4 / 0.08**2
    assert found.num_chains == CHAINS


def test_correlated_draws_are_thinned_less():
    draws = made_forecast("linear")
    used = [thinned(draws, autoregressive(rho), 0.09).num_draws for rho in (0.0, 0.5)]
    assert used[0] < used[1] < LENGTH
    with pytest.warns(iso.IsothermWarning, match=r"all 800 are used, which give 0\.\d+\. Sample more draws"):
        assert thinned(draws, autoregressive(0.95), 0.09) is draws


def test_predictions_use_the_draws_that_the_precision_takes():
    """Means from the thinned draws are within five of the errors that were asked for."""
    draws, new = made_forecast("logistic"), table(50, seed=1)
    whole, few = forecast(draws, new), forecast(draws, new, precision=0.08)
    assert few.expected.num_draws < whole.expected.num_draws
    assert np.all(np.abs(few.expected.mean - whole.expected.mean) < 5 * 0.08 * whole.expected.sd)
    with pytest.raises(ValueError, match=r"`precision` must be a share of the posterior sd, .*; got 2\.0"):
        forecast(draws, new, precision=2.0)
