"""Noise that grows with the distance from the mode: how much it heats a coordinate, and batches that prevent it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.sums import precision
from isotherm.tuning.estimator import Estimator, control
from isotherm.tuning.heating import _NODES, heating
from isotherm.tuning.metric import find_metric
from isotherm.tuning.newton import climb

SIZES = (40_000, 300, 40, 3)  # rows in each group; half of the first are events, and none of the others
PRIOR = 3.0


def groups(sizes=SIZES):
    """Return a posterior of one log-odds for each group, which are independent, and its data."""
    group = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    y = ((group == 0) & (np.arange(len(group)) % 2 == 0)).astype(np.float32)
    log_likelihood = lambda theta, row: row["y"] * theta[row["g"]] - jax.nn.softplus(theta[row["g"]])
    posterior = iso.Posterior(log_likelihood, lambda theta: -0.5 * jnp.sum((theta / PRIOR) ** 2))
    return posterior, {"g": group, "y": y}, jnp.zeros(len(sizes))


def exact(rows, events):
    """Return mean and sd of the log-odds of a group, by quadrature."""
    x = np.linspace(-30, 30, 200_001)
    log_p = events * x - rows * np.logaddexp(0, x) - 0.5 * (x / PRIOR) ** 2
    p = np.exp(log_p - log_p.max())
    mean = np.sum(p * x) / p.sum()
    return mean, np.sqrt(np.sum(p * (x - mean) ** 2) / p.sum())


@pytest.mark.slow
def test_the_heating_of_a_group_is_that_of_its_rows():
    """By hand for a group of three: E[(v^2 / Var v - 1) C(v)] over its posterior, C being that of one row drawn."""
    posterior, data, start = groups((40_000, 3))
    rows = jax.tree.map(jnp.asarray, data)
    with precision.float64():
        start = precision.widened(start)
        top = climb(precision.widened(posterior), rows, start, key=jax.random.key(0))
        point = find_metric(precision.widened(posterior), rows, top, key=jax.random.key(1)).point
        tickets = np.where(data["g"] == 1, 2000, 1)
        plan = iso.data.Weighted(tickets)
        found, passes = heating(control(precision.widened(posterior), point, 2), rows, plan)
    assert 0 < passes < 40
    center, scale = np.asarray(point.theta)[1], np.asarray(point.frame.root)[1, 1]
    p = lambda x: 1 / (1 + np.exp(-x))
    v = np.insert(_NODES, 0, 0.0)
    x = center + scale * v
    rest = -(p(x) - p(center) - p(center) * (1 - p(center)) * (x - center)) * scale
    total = tickets.sum()
    # Three rows with tickets of 2,000 each. The variance of one draw is its mean square less the square of its mean.
    noise = 3 * rest**2 * total / 2000 - (3 * rest) ** 2
    log_p = -3 * np.logaddexp(0, x) - 0.5 * (x / PRIOR) ** 2
    w = np.exp(log_p - log_p[0])
    w = np.minimum(w, 1) / np.minimum(w, 1).sum()
    square = (v - w @ v) ** 2
    # 1,000 draws have six tickets in 46: a second moment of 130 hits, to within five standard errors.
    assert found == pytest.approx(np.sum(w * (square / (w @ square) - 1) * noise), rel=5 / 130**0.5)


def test_batches_are_large_enough_for_the_heating():
    quiet = Estimator(2, iso.WithReplacement(), 0.0, 1.0, 0.0, 0.15, 1.0, (), 10**6)
    hot = Estimator(2, iso.WithReplacement(), 0.0, 1.0, 10.0, 0.15, 1.0, (), 10**6)
    assert quiet.batch_size(0.5, 1.0) == 32
    n = hot.batch_size(0.5, 1.0)
    assert n == 128  # 0.5 x 10 / (2 x 0.02) = 125
    assert hot.largest_step(n, 1.0) >= 0.5
    assert hot.largest_step(n // 2, 1.0) == pytest.approx(64 * 2 * 0.02 / 10)


@pytest.mark.slow
def test_groups_without_events_have_the_right_spread():
    """Their spread was up to a third too large, without an alarm, when only the mean noise was limited."""
    draws = iso.sample(*groups(), num_draws=4000, progress=False)
    summary = draws.summary()
    assert summary.verdict.startswith("No fault found")
    found = np.asarray(draws.posterior).reshape(-1, len(SIZES))
    for k, rows in enumerate(SIZES):
        mean, sd = exact(rows, rows // 2 if k == 0 else 0)
        ess = summary.rows[k].ess_bulk
        kurtosis = np.mean((found[:, k] - mean) ** 4) / sd**4
        # The variance may be 2 % too large by heating, and by the step size; four standard errors are added.
        assert found[:, k].std() / sd == pytest.approx(1, abs=0.02 + 4 * np.sqrt((kurtosis - 1) / ess) / 2)
        assert (found[:, k].mean() - mean) / sd == pytest.approx(0, abs=0.02 + 4 / ess**0.5)
