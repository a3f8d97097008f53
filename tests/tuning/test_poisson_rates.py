"""Rates without events, whose logarithms have a tail at the limit of the rule: one choice, and the exact moments.

With a prior of Exp(1) on each rate the posterior is known: a gamma distribution of shape 1 + events and rate
1 + exposure. Without events U rises by 4 + exp(-5) over five standard deviations of the log-rate.
"""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, polygamma

import isotherm as iso
from isotherm import tree
from isotherm.sums import precision
from isotherm.tuning.estimator import control
from isotherm.tuning.newton import closer, moved, point_at, whitening
from isotherm.tuning.tails import long_tail
from support.monte_carlo import LIMIT

EVENTS = np.array([1, 2, 3, 5, 10, 20, 50] + 23 * [0])


def log_gamma(shape):
    """The log of a gamma variable with this shape; the one parameter does not depend on the rows."""
    return iso.Posterior(lambda x, row: 0.0 * row * x[0], lambda x: shape * x[0] - jnp.exp(x[0]))


def stopped_at(posterior, rows, theta):
    """Return the point at which Newton's method would have stopped, in coordinates that whiten its Hessian."""
    eye = tree.as_ravelled(np.eye(1), theta)
    point = point_at(posterior, rows, iso.DensePreconditioner(theta, eye, eye))
    return point.turned(*whitening(point.hessian, 0.0, 1e-16))


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "is_long"), [(0.5, True), (1.0, True), (1.5, False), (2.0, False)])
def test_where_newton_stopped_does_not_decide(shape, is_long):
    """Half a standard deviation from the mode the rise of U would be 2.3 or 6.1 for shape 1, where 4.007 is right.

    The mode is then known to 0.01 standard deviations, and the rise to 3.5 times that.
    """
    rows = jnp.zeros(100)
    with precision.float64():
        posterior, plan = precision.widened(log_gamma(shape)), iso.data.Weighted(np.ones(100, int))
        for offset in (-0.5, -0.1, 0.0, 0.1, 0.5):
            theta = jnp.asarray([math.log(shape) + offset / shape**0.5])
            point = stopped_at(posterior, rows, theta)
            tail, passes = long_tail(control(posterior, point, 2), rows, point, plan)
            assert passes < 15
            assert (tail is not None) == is_long
            if tail is not None:
                far = -5 / shape**0.5
                assert tail.rise == pytest.approx(shape * (math.exp(far) - 1 - far), abs=0.035)


@pytest.mark.parametrize(("num_rows", "passes"), [(1000, 0.5), (100, 0.64)])
def test_where_no_tail_is_near_the_first_round_is_all_that_is_spent(num_rows, passes):
    """Both ends of the one coordinate together get the gradients of half of the rows, but at least of 32 each."""
    rows, shape = jnp.zeros(num_rows), 200.0
    with precision.float64():
        posterior, plan = precision.widened(log_gamma(shape)), iso.data.Weighted(np.ones(num_rows, int))
        point = stopped_at(posterior, rows, jnp.asarray([math.log(shape)]))
        tail, spent = long_tail(control(posterior, point, 2), rows, point, plan)
    assert tail is None
    assert spent == pytest.approx(passes)


def test_a_step_that_does_not_lower_u_is_not_taken():
    """Newton's step from 4 standard deviations on the flat side of exp(x) - x leads far beyond the mode."""
    rows = jnp.zeros(10)
    with precision.float64():
        posterior = precision.widened(log_gamma(1.0))
        point = stopped_at(posterior, rows, jnp.asarray([-4.0]))
        same, passes = closer(posterior, rows, point, np.array([0]), near=0.01, tries=3)
        assert same is point
        assert passes == 1
        # Coordinates that do not whiten the Hessian are those of the Fisher information: there is no better mode.
        wide = moved(point.frame, np.array([1.0]))
        unwhitened = point_at(posterior, rows, wide)
        assert closer(posterior, rows, unwhitened, np.array([0]), near=0.01, tries=3) == (unwhitened, 0)


def rates(num_data, *, constrained):
    """Return posterior, data, start and the shapes and rates of the exact posterior, for 30 groups of equal size."""
    group = np.arange(num_data) % len(EVENTS)
    y = (np.arange(num_data) // len(EVENTS) < EVENTS[group]).astype(np.float32)
    data = {"group": group.astype(np.int32), "y": y}
    exposure = np.bincount(group)
    assert (np.bincount(group, y) == EVENTS).all()
    if constrained:
        log_likelihood = lambda r, row: row["y"] * jnp.log(r[row["group"]]) - r[row["group"]]
        posterior = iso.Posterior(log_likelihood, lambda r: -jnp.sum(r), transforms=iso.Positive())
        return posterior, data, jnp.full(len(EVENTS), 0.1), 1.0 + EVENTS, 1.0 + exposure
    log_likelihood = lambda x, row: row["y"] * x[row["group"]] - jnp.exp(x[row["group"]])
    posterior = iso.Posterior(log_likelihood, lambda x: jnp.sum(x - jnp.exp(x)))
    return posterior, data, jnp.full(len(EVENTS), -2.0), 1.0 + EVENTS, 1.0 + exposure


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_every_seed_takes_all_rows():
    posterior, data, start, _, _ = rates(30_000, constrained=False)
    chosen = [iso.warmup(posterior, data, start, seed=seed, progress=False) for seed in range(6)]
    assert all(tuned.gradient.all_rows for tuned in chosen)
    whys = [reason.why for tuned in chosen for reason in tuned.reasons if reason.choice == "gradient"]
    assert all("at -5 sd its density is still exp(-4.0) times" in why for why in whys)


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("seed", [0, 3])
def test_rates_and_log_rates_have_their_exact_moments(constrained, seed):
    """Means and sds of 30 rates and log-rates to five Monte Carlo errors: 6e-7 each, 7e-5 for all 120 of a case.

    From n_eff draws the mean is known to sd / sqrt(n_eff), and the sd to sqrt((kurtosis - 1) / (4 n_eff)) of itself.
    An excess kurtosis is 6 / shape for a rate and polygamma(3) / polygamma(1)^2 for its log. The step
    adds up to 0.001 sd to the mean and 0.005 to the sd (64 chains of 4,000 draws, the 23 groups pooled).
    """
    posterior, data, start, shape, rate = rates(3000, constrained=constrained)
    draws = iso.sample(posterior, data, start, num_chains=16, num_draws=1000, seed=seed, progress=False)
    summary = draws.summary()
    assert summary.verdict.startswith("No fault found")
    found = np.asarray(draws.posterior, np.float64).reshape(-1, len(EVENTS))
    n_eff = np.array([min(row.ess_bulk, row.ess_tail) for row in summary.rows])
    assert n_eff.min() > 3000
    log_rates = np.log(found) if constrained else found
    variance = polygamma(1, shape)
    exact = {
        "log-rate": (
            log_rates,
            digamma(shape) - np.log(rate),
            variance,
            3 + polygamma(3, shape) / variance**2,
        ),
        "rate": (np.exp(log_rates), shape / rate, shape / rate**2, 3 + 6 / shape),
    }
    for name, (x, mean, var, kurtosis) in exact.items():
        z = (x.mean(axis=0) - mean) / var**0.5
        assert np.all(np.abs(z) < LIMIT / n_eff**0.5 + 0.002), name
        ratio = x.std(axis=0) / var**0.5
        assert np.all(np.abs(ratio - 1) < LIMIT * ((kurtosis - 1) / (4 * n_eff)) ** 0.5 + 0.006), name
    # The smallest of 23 x 16,000 log-gamma(1) numbers: below -x with a probability of 23 * 16,000 e^-x = 4e-5.
    assert np.min(log_rates - np.log(shape / rate)) > -23
