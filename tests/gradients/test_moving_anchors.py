"""Control variates whose anchors move with the chains: the sums are right, and so are the draws."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.chains.drive import drive
from isotherm.chains.ensemble import Length, ensemble_of
from isotherm.data.plans import WithReplacement
from isotherm.gradients.minibatch import Minibatch
from isotherm.kernel import Kernel
from isotherm.sums.totals import derivatives
from isotherm.tuning.moving_anchors import moving
from support.monte_carlo import LIMIT

N, D = 2000, 4


@functools.cache
def regression():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(N, D)) @ np.linalg.cholesky(0.5 * np.eye(D) + 0.5)).astype(np.float32)
    y = (x @ rng.normal(size=D) + rng.normal(size=N)).astype(np.float32)
    posterior = iso.Posterior(
        lambda w, rows: -0.5 * (rows["y"] - rows["x"] @ w) ** 2, lambda w: -0.5 * jnp.sum(w**2), batched=True
    )
    covariance = np.linalg.inv(x.T.astype(np.float64) @ x + np.eye(D))
    return posterior, {"x": x, "y": y}, covariance @ x.T @ y, covariance


def sample(refresh, *, hw, batch_size, **options):
    posterior, data, mode, covariance = regression()
    h = hw * float(np.sqrt(np.linalg.eigvalsh(covariance)[0]))
    sampler = iso.CCAdL(h, 20.0, covariance=iso.Dense(), scheme="symmetric", thermal_mass=100.0)
    options = {"num_draws": 20, "burn_in": 0} | options
    gradient = options.pop("gradient", iso.ControlVariate(refresh=refresh))
    return iso.sample(
        posterior,
        data,
        jnp.asarray(mode, jnp.float32),
        sampler=sampler,
        gradient=gradient,
        batch_size=batch_size,
        progress=False,
        **options,
    )


def test_sums_at_several_points_are_those_at_each(quick_compilation):
    posterior, data, mode, _ = regression()
    data = jax.tree.map(jnp.asarray, data)
    thetas = jnp.asarray(mode + np.random.default_rng(1).normal(size=(3, D)), jnp.float32)
    anchors = iso.ControlVariate(posterior, refresh=7).anchored(data, thetas)
    for i, theta in enumerate(thetas):
        value, gradient, _ = derivatives(posterior, data, theta)
        np.testing.assert_allclose(anchors.sums[0][i], value, rtol=1e-6)
        np.testing.assert_allclose(anchors.sums[1][i], gradient, rtol=1e-5, atol=1e-3)
    assert anchors.sums[2] is None


@pytest.mark.slow
def test_each_chain_has_its_own_anchor(quick_compilation):
    """Right after a refresh there is no noise: one step is that of the exact gradient, whatever the batch."""
    common = {"hw": 0.05, "init_scale": 0.05, "num_draws": 3, "thinning": 1}
    each = sample(1, batch_size=2, **common)
    exact = sample(None, batch_size=N, gradient=iso.FullData(), **common)
    # The gradient is taken after the drift, a step away from the anchor.
    away = sample(None, batch_size=2, **common)
    error = lambda draws: np.abs(draws.posterior - exact.posterior).max(axis=(1, 2))
    assert np.all(5 * error(each) < error(away))
    assert each.record.gradient_refresh == 1
    assert each.record.data_passes == pytest.approx(3 * 2 / N + 3)


@pytest.mark.slow
def test_chunks_do_not_move_the_refreshes(quick_compilation):
    """Refreshes fall on multiples of `refresh`, wherever chunks end."""
    draws = sample(7, hw=0.5, batch_size=20, num_draws=30, burn_in=5)
    positions = draws.setup.starts.positions(4, key=jax.random.key(0))
    ensemble = ensemble_of([draws.setup], positions, Length(4, 30), jax.random.key(0))
    for chunk in (1, 4, 100):
        outcome = drive(ensemble, progress=False, title="", chunk_steps=chunk)
        np.testing.assert_array_equal(outcome.kept.params, draws.posterior)
        # The last of them before step 28, which is draw 22 after 5 of burn-in.
        np.testing.assert_array_equal(outcome.anchors.theta, draws.posterior[:, 22])
    assert draws.record.data_passes == pytest.approx(35 * 20 / N + 5)


@pytest.mark.slow
def test_the_noise_of_a_failed_chain_is_that_of_its_own_anchor(quick_compilation):
    """All fail within a few steps, before any anchor moves: where a chain started it has no noise."""
    with pytest.warns(iso.IsothermWarning, match="turned non-finite"):
        draws = sample(500, hw=1e3, batch_size=20, init_scale=1.0)
    assert not draws.complete.any()
    assert all("(s = 0)" in text for text in draws.status)


@pytest.mark.slow
def test_draws_are_right_and_noise_is_small():
    """Variances along the axes of the posterior, with s of 0.15 as the warm-up takes: 3 % at most, and chance."""
    _, _, mode, covariance = regression()
    draws = sample(100, hw=0.5, batch_size=24, num_draws=3000, thinning=10, burn_in=2000)
    assert 0.05 < draws.record.s < 0.3
    values, vectors = np.linalg.eigh(covariance)
    z = ((draws.posterior.astype(np.float64) - mode) @ vectors) / np.sqrt(values)
    for k in range(D):
        squares = np.concatenate([(z[..., k] ** 2).reshape(4, 20, -1).mean(axis=2).ravel()])
        error = squares.std(ddof=1) / np.sqrt(len(squares))
        assert abs(squares.mean() - 1) < 0.03 + LIMIT * error
        assert error < 0.03
    assert draws.record.data_passes == 32_000 * (24 / N + 1 / 100)
    diagnosis = iso.diagnose(draws, progress=False)
    assert diagnosis.ok, diagnosis.verdict


@pytest.mark.slow
def test_noise_is_measured_where_anchors_are_oldest(quick_compilation):
    """Whether the run ends just before a refresh or just after it."""
    s = [sample(50, hw=0.3, batch_size=20, num_draws=n).record.s for n in (399, 400, 401, 402)]
    assert s[0] == s[1]
    assert s[2] == s[3]
    assert 1 / 4 < s[2] / s[0] < 4  # positions differ between the runs


@pytest.mark.slow
def test_an_anchor_left_behind_is_reported(quick_compilation):
    _, _, mode, _ = regression()
    far = iso.ControlVariate(anchor=mode + 3.0)
    with pytest.warns(
        iso.IsothermWarning, match=r"times that of plain minibatches: the chains have left the anchor"
    ):
        sample(None, hw=0.02, batch_size=50, gradient=far)


def test_what_moving_anchors_cost(quick_compilation):
    """Noise grows with the distance from the anchor, and the cheapest age is chosen."""
    posterior, data, mode, covariance = regression()
    sampler = iso.CCAdL(0.01, 1.0, covariance=iso.Dense(), scheme="symmetric", temperature=1.0)
    trial = Kernel(sampler, Minibatch(posterior), N, 64, WithReplacement())
    direction = np.linalg.cholesky(covariance)[:, 0]
    data = jax.tree.map(jnp.asarray, data)
    path = jnp.asarray(mode + np.arange(5)[None, :, None] * direction, jnp.float32)
    cheapest = lambda path, s: moving(trial, data, path, 10.0, s=s, key=jax.random.key(0))
    rows = [cheapest(path[:, -1 - age :], s=1e-4) for age in (1, 2, 4)]
    assert all(m.cost == 2 * m.batch_size + N / m.gradient.refresh for m in rows)
    generous = cheapest(path, s=1.0)
    # With noise to spare the oldest anchor is cheapest, and with none the youngest.
    assert generous.gradient.refresh == 40
    assert cheapest(path, s=1e-9).gradient.refresh == 10
    assert cheapest(path[:, -1:], s=1.0) is None


def test_refresh_is_checked():
    with pytest.raises(ValueError, match=r"`refresh` must be an integer of at least 1; got 0"):
        iso.ControlVariate(refresh=0)
    with pytest.raises(ValueError, match=r"`order` must be 1 if `refresh` is given"):
        iso.ControlVariate(order=2, refresh=5)


@pytest.mark.slow
def test_anchors_of_a_warm_up_are_free_parameters():
    """A scale below one, whose logarithm is no scale."""
    y = np.random.default_rng(0).normal(1.0, 0.2, size=500).astype(np.float32)
    posterior = iso.Posterior(
        lambda p, row: -0.5 * ((row - p["m"]) / p["s"]) ** 2 - jnp.log(p["s"]),
        lambda p: -p["s"],
        transforms={"m": None, "s": iso.Positive()},
    )
    tuned = iso.warmup(posterior, y, {"m": 0.0, "s": 1.0}, progress=False)
    gradient = iso.ControlVariate(tuned.gradient.posterior, anchor=tuned.gradient.anchor, refresh=50)
    kernel = dataclasses.replace(tuned.kernel, gradient=gradient, minibatch=WithReplacement())
    tuned = dataclasses.replace(tuned, kernel=kernel)
    draws = iso.sample(posterior, y, tuned, num_draws=200, num_chains=2, progress=False)
    # The posterior sd of a scale is s / sqrt(2 N), far more than the error of its mean.
    assert abs(draws.moments.mean["s"].mean() - y.std()) < LIMIT * 0.2 / np.sqrt(1000)
