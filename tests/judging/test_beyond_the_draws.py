"""What `iso.diagnose` finds away from the draws: other modes, and tails that the chains miss."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.judging.modes import _Comparison, other_modes
from isotherm.judging.reach import missed_tail
from isotherm.preconditioner import DensePreconditioner
from isotherm.tuning.newton import Point


def drawn(posterior, rows, x):
    """Return a run whose draws are replaced by `x`, (chain, draw, d)."""
    draws = iso.sample(
        posterior,
        rows,
        jnp.zeros(x.shape[2]),
        sampler=iso.SGNHT(1e-4, 1.0),
        batch_size=len(rows),
        num_draws=x.shape[1],
        progress=False,
    )
    return dataclasses.replace(draws, posterior=x.astype(np.float32))


def modes(draws):
    return other_modes(draws, draws.setup, effort=1.0, key=jax.random.key(0))


@pytest.mark.slow
def test_a_bent_posterior_has_one_mode(quick_compilation):
    """Straight lines between its parts leave the posterior, but the line to the nearest draw does not."""
    posterior = iso.Posterior(
        lambda p, row: -0.5 * (row - p[1] - p[0] ** 2) ** 2, lambda p: -0.5 * (p[0] ** 2)
    )
    rng = np.random.default_rng(5)
    rows = rng.normal(size=400).astype(np.float32)
    rows -= rows.mean()
    a = rng.normal(size=(4, 500))
    b = rng.normal(size=(4, 500)) / 20 - a**2
    assert modes(drawn(posterior, rows, np.stack([a, b], axis=2))) == ()


@pytest.mark.parametrize("size", [2, pytest.param(1100, marks=pytest.mark.slow)])
def test_a_second_mode_with_few_and_many_parameters(quick_compilation, size):
    """Two modes of one parameter. Their shares come from the Hessians or, with many parameters, from the heights."""
    share, apart = 0.2, 6.0

    def log_prior(p):
        two = jnp.logaddexp(jnp.log(1 - share) - 0.5 * p[0] ** 2, jnp.log(share) - 0.5 * (p[0] - apart) ** 2)
        return two - 0.5 * jnp.sum(p[1:] ** 2)

    posterior = iso.Posterior(lambda p, row: 0.0 * (row + p[0]), log_prior)
    rng = np.random.default_rng(6)
    rows = rng.normal(size=50).astype(np.float32)
    z = rng.normal(size=(4, 250, size))
    others = modes(drawn(posterior, rows, z))
    assert [m.share for m in others] == [pytest.approx(share, abs=0.01 if size == 2 else 0.1)]
    assert others[0].theta[0] == pytest.approx(apart, abs=1.0)
    both = z + apart * (rng.random(z.shape[:2]) < share)[..., None] * (np.arange(size) == 0)
    assert modes(drawn(posterior, rows, both)) == ()


@pytest.mark.slow
def test_shares_are_those_at_the_temperature_of_the_sampler(quick_compilation):
    """Two wells, one of them 6 lower: negligible at temperature 1, and exp(-2) of the other at temperature 3."""
    log_prior = lambda p: jnp.logaddexp(-0.5 * (2 * p[0]) ** 2, -6 - 0.5 * (2 * (p[0] - 12)) ** 2)
    posterior = iso.Posterior(lambda p, row: 0.0 * (row + p[0]), log_prior)
    rng = np.random.default_rng(8)
    draws = drawn(posterior, rng.normal(size=50).astype(np.float32), 0.8 * rng.normal(size=(4, 250, 1)))
    assert modes(draws) == ()
    hot = draws.setup.with_sampler(iso.SGNHT(1e-4, 1.0, temperature=3.0))
    (mode,) = modes(dataclasses.replace(draws, setup=hot))
    assert mode.share == pytest.approx(1 / (1 + np.exp(2)), abs=0.01)


@pytest.mark.slow
def test_empty_leaves_and_one_chain(quick_compilation):
    x = np.random.default_rng(9).normal(size=200).astype(np.float32)
    posterior = iso.Posterior(lambda p, row: -0.5 * (row - p["m"]) ** 2 + jnp.sum(p["none"]))
    init = {"m": jnp.zeros(()), "none": jnp.zeros(0)}
    draws = iso.sample(posterior, x, init, num_draws=400, num_chains=1, progress=False)
    assert np.isfinite(draws.summary()["m"].r_hat)
    found = iso.diagnose(draws, progress=False)
    assert [b.name for b in found.blocks] == ["m"]
    assert found.modes == ()


@pytest.mark.slow
def test_a_missed_tail_is_reported(quick_compilation):
    """The logarithm of a gamma variable of shape 1/2. Exact draws pass, and draws that stay near the mode do not."""
    posterior = iso.Posterior(lambda p, row: 0.0 * (row + p[0]), lambda p: 0.5 * p[0] - jnp.exp(p[0]))
    rng = np.random.default_rng(10)
    rows = rng.normal(size=50).astype(np.float32)
    right = np.log(rng.gamma(0.5, size=(4, 500, 1)))
    confined = np.log(0.5) + 0.5 * rng.normal(size=(4, 500, 1))
    tail_of = lambda x: missed_tail(draws := drawn(posterior, rows, x), draws.setup, key=jax.random.key(0))
    assert tail_of(right) is None
    tail = tail_of(confined)
    assert tail.theta[0] == pytest.approx(np.log(0.5) - 2.5, abs=0.1)
    at = np.log(0.5) - 2.5
    assert tail.rise == pytest.approx(0.5 * np.log(0.5) - 0.5 - (0.5 * at - np.exp(at)), abs=0.1)


@pytest.mark.slow
def test_no_tail_is_reported_if_rounding_could_hide_the_rise(quick_compilation):
    """A constant of 10^8 in each row: 32 bits hold multiples of eight there, so a rise of 12.5 does not show."""
    posterior = iso.Posterior(lambda p, row: 1e8 - 0.5 * (row - p[0]) ** 2)
    rng = np.random.default_rng(11)
    rows = rng.normal(size=400).astype(np.float32)
    draws = drawn(posterior, rows, rows.mean() + rng.normal(size=(4, 250, 1)) / 20)
    assert missed_tail(draws, draws.setup, key=jax.random.key(0)) is None


@pytest.mark.slow
def test_a_wide_mode_has_a_larger_share(quick_compilation):
    """Two modes of equal height, one three times as wide as the other: a share of three quarters."""

    def log_prior(p):
        return jnp.logaddexp(-0.5 * p[0] ** 2, -0.5 * ((p[0] - 20) / 3) ** 2)

    posterior = iso.Posterior(lambda p, row: 0.0 * (row + p[0]), log_prior)
    rng = np.random.default_rng(7)
    (mode,) = modes(drawn(posterior, rng.normal(size=50).astype(np.float32), rng.normal(size=(4, 250, 1))))
    assert mode.share == pytest.approx(0.75, abs=0.01)
    assert mode.theta[0] == pytest.approx(20, abs=0.1)


def test_the_weight_of_a_mode_does_not_depend_on_its_coordinates():
    """It is -U / T - log |H / T| / 2 with the Hessian over the parameters, in whatever coordinates H is known."""
    rows, eye = jnp.zeros(10), jnp.eye(2)
    posterior = iso.Posterior(lambda p, row: -0.5 * jnp.sum((row - p) ** 2), temperature=2.0)
    comparison = _Comparison(posterior, rows, jnp.zeros(2), 2.0, np.random.default_rng(0))
    hessian, known = np.array([[4.0, 1.0], [1.0, 9.0]]), (np.zeros(()), np.zeros(2), np.zeros((2, 2)))
    point = Point(DensePreconditioner(jnp.zeros(2), eye, eye), 3.0, np.zeros(2), hessian, known)
    by = np.array([[0.1, 0.0], [0.3, 2.0]])
    for same in (point, point.turned(by, np.linalg.inv(by))):
        assert comparison._log_weight(same) == pytest.approx(-3 / 2 - np.log(35 / 4) / 2, rel=1e-5)
