"""Posteriors with longer tails than their curvature suggests: the warm-up detects them, and draws are right."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import tree
from isotherm.preconditioner import in_coordinates
from isotherm.tuning import tails
from isotherm.tuning.estimator import control
from isotherm.tuning.metric import find_metric
from isotherm.tuning.newton import climb
from isotherm.tuning.probe import Probe
from isotherm.tuning.tails import long_tail


def tail_of(posterior, data, start):
    top = climb(posterior, data, start, key=jax.random.key(2))
    metric = find_metric(posterior, data, top, key=jax.random.key(0))
    density, spread = in_coordinates(posterior, metric.preconditioner), float(posterior.temperature) ** 0.5
    rows = Probe(density, data, tree.zeros_like(start), spread).all_rows(key=jax.random.key(1))
    expanded = control(posterior, metric.point, 2)
    tail, passes = long_tail(expanded, data, metric.point, rows.plan(2))
    assert 0 <= passes < 15
    return tail, float(np.asarray(top.point.theta).ravel()[0]), metric


def log_gamma(shape, temperature=1.0):
    """The log of a gamma variable, about which the rows say nothing, and a parameter that they determine."""
    return iso.Posterior(
        lambda p, row: -0.5 * (row - p[1]) ** 2,
        lambda p: shape * p[0] - jnp.exp(p[0]),
        temperature=temperature,
    )


ROWS = jnp.asarray(np.random.default_rng(0).normal(size=2000), jnp.float32)


@pytest.mark.slow
def test_a_long_tail_comes_with_its_rise_and_the_wall_on_the_other_side(quick_compilation):
    tail, mode, _ = tail_of(log_gamma(0.5), ROWS, jnp.asarray([math.log(0.5), 0.0]))
    assert mode == pytest.approx(math.log(0.5), abs=0.05)
    far = -5 / 0.5**0.5
    assert (tail.index, tail.far) == (0, -5.0)
    assert tail.rise == pytest.approx(0.5 * (math.exp(far) - 1 - far), abs=0.02)
    assert tail.slowest == pytest.approx(2 * tail.rise / 25, rel=1e-6)
    # The curvature, e^x, is that at the first of distances shrinking by 0.7 at which U has risen by less than 4.5.
    rise = lambda t: 0.5 * (math.exp(t / 0.5**0.5) - 1 - t / 0.5**0.5)
    assert rise(0.7 * math.log(tail.stiffest) * 0.5**0.5) < rise(math.log(tail.stiffest) * 0.5**0.5) < 4.5
    assert rise(math.log(tail.stiffest) * 0.5**0.5 / 0.7) > 4.5


@pytest.mark.slow
@pytest.mark.parametrize("shape", [3.0, 100.0])
def test_a_tail_that_is_skewed_is_not_yet_long(quick_compilation, shape):
    """The logarithm of a gamma variable of shape 3 falls by 5.8 over five standard deviations."""
    assert tail_of(log_gamma(shape), ROWS, jnp.zeros(2))[0] is None


@pytest.mark.slow
def test_what_is_long_depends_on_the_temperature(quick_compilation):
    """At T = 16 five standard deviations of a variable of shape 16 are where those of shape 1 are at T = 1."""
    assert tail_of(log_gamma(16.0), ROWS, jnp.zeros(2))[0] is None
    tail, _, _ = tail_of(log_gamma(16.0, temperature=32.0), ROWS, jnp.zeros(2))
    far = -5 / 0.5**0.5
    assert tail.rise == pytest.approx(0.5 * (math.exp(far) - 1 - far), abs=0.02)


@pytest.mark.slow
def test_a_few_informative_rows_among_many_are_noticed(quick_compilation):
    """A group has twenty rows without a single event; the prior decides how low its rate may be."""
    rng, N = np.random.default_rng(3), 20_000
    group = np.zeros(N, np.float32)
    group[rng.choice(N, 20, replace=False)] = 1
    events = rng.poisson(np.where(group > 0, 0, 0.2)).astype(np.float32)
    data = {"x": jnp.asarray(group), "y": jnp.asarray(events)}

    def posterior(scale):
        rate = lambda p, row: p[1] + p[0] * row["x"]
        return iso.Posterior(
            lambda p, row: row["y"] * rate(p, row) - jnp.exp(rate(p, row)),
            lambda p: -0.5 * (p[0] / scale) ** 2,
        )

    start = jnp.asarray([0.0, -2.0])
    assert tail_of(posterior(1.0), data, start)[0] is None
    tail, _, _ = tail_of(posterior(1000.0), data, start)
    assert (tail.index, tail.far) == (0, -5.0)


@pytest.mark.slow
def test_no_tail_is_reported_if_rounding_could_hide_it(quick_compilation):
    """Counts around 1,000 without the constants of their density: a sum of 10^9, which 32 bits round by hundreds."""
    y = jnp.asarray(np.random.default_rng(4).poisson(1000, size=200_000), jnp.float32)
    posterior = iso.Posterior(lambda p, row: row * p[0] - jnp.exp(p[0]))
    assert abs(float(posterior.log_density(jnp.asarray([6.9]), y))) > 1e9
    assert tail_of(posterior, y, jnp.asarray([6.9]))[0] is None


@pytest.mark.slow
def test_long_rows_are_evaluated_a_few_at_a_time(quick_compilation, monkeypatch):
    """Whatever the number of parameters; a small number of pairs of point and row is not padded to a large one."""
    seen = []

    def pairs(posterior, center, moves, data, plan, which, number):
        seen.append(len(number))
        return jnp.zeros(len(number))

    monkeypatch.setattr(tails, "_pairs", pairs)
    for shape in ((200, 3000), (200,)):
        rows = jnp.asarray(np.random.default_rng(5).normal(size=shape), jnp.float32)
        tail_of(iso.Posterior(lambda p, row: -0.5 * jnp.sum((row - p[0]) ** 2)), rows, jnp.zeros(1))
    assert seen[0] <= 2**22 // 3000
    assert seen[-1] <= 256


@pytest.mark.slow
def test_the_warm_up_takes_all_rows_and_a_step_that_fits_the_wall(quick_compilation):
    start = jnp.asarray([math.log(0.5), 0.0])
    tuned = iso.warmup(log_gamma(0.5), ROWS, start, progress=False)
    tail, _, metric = tail_of(log_gamma(0.5), ROWS, start)
    assert tuned.gradient.all_rows
    assert tuned.batch_size == len(ROWS)
    assert tail.stiffest > 2 * metric.stiffest
    # The wall is the same for any seed; the slowest frequency may differ from that of the tail.
    assert tuned.sampler.step_size == pytest.approx(0.7 / tail.stiffest**0.5, rel=0.02)
    assert tuned.sampler.friction < 1.02 * tail.slowest**0.5


@pytest.mark.slow
def test_a_batch_that_is_given_is_kept(quick_compilation):
    """Chains then start from several points, and the record says why."""
    tuned = iso.warmup(log_gamma(0.5), ROWS, jnp.zeros(2), batch_size=64, progress=False)
    assert tuned.batch_size == 64
    assert "has a long tail" in str({r[0]: r[2] for r in tuned.reasons}["start"])


@pytest.mark.slow
def test_a_variance_that_may_be_zero_is_sampled_correctly_by_default():
    """Errors of variance 1 + v with v about zero: control variates and minibatches cut the tail of log v."""
    N = 30_000
    y = np.random.default_rng(1).normal(size=N)
    y = (y - y.mean()) / y.std() * (1 - 0.3 / N**0.5)
    posterior = iso.Posterior(
        lambda p, row: -0.5 * (row - p["m"]) ** 2 / (1 + p["v"]) - 0.5 * jnp.log1p(p["v"]),
        lambda p: -p["v"] - 0.5 * p["m"] ** 2,
        transforms={"m": None, "v": iso.Positive()},
    )
    draws = iso.sample(
        posterior, y.astype(np.float32), {"m": jnp.zeros(()), "v": jnp.asarray(0.1)}, progress=False
    )
    (choice,) = (reason for reason in draws.record.reasons if reason.choice == "gradient")
    assert choice.value == "all rows"
    assert "along the coordinate of `v`: at -5 sd" in choice.why
    # The mean integrated out; over log v.
    grid = np.linspace(-30, 0, 100_001)
    v = np.exp(grid)
    log_density = (
        -0.5 * np.sum(y**2) / (1 + v) - 0.5 * N * np.log1p(v) - v - 0.5 * np.log(N / (1 + v) + 1) + grid
    )
    p = np.exp(log_density - log_density.max())
    p /= p.sum()
    moments = lambda f: (np.sum(p * f), np.sum(p * (f - np.sum(p * f)) ** 2) ** 0.5)
    row = draws.summary()["v"]
    mean, _ = moments(v)
    # Four Monte Carlo errors, and a hundredth for the step; the tail of log v is that of an exponential variable, of
    # kurtosis 9 at most, so that its standard deviation is known to sqrt(8 / 4 / ESS).
    assert abs(row.mean - mean) < 4 * row.mcse + 0.01 * mean
    _, sd = moments(grid)
    assert abs(np.log(draws.posterior["v"]).std() / sd - 1) < 4 * (2 / row.ess_tail) ** 0.5 + 0.01
    assert iso.diagnose(draws, progress=False).ok
