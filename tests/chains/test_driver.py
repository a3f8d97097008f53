"""The driver: chunks, thinning, moments, failures, interruption, sweeps."""

import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.chains import drive as driver
from support.models import call, normal_mean

CUTS = [1, 7, 10_000]

pytestmark = pytest.mark.usefixtures("quick_compilation")


def same(a, b):
    return all(
        np.array_equal(x, y, equal_nan=True)
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def chunked(monkeypatch, steps, **options):
    """`call`, with at most `steps` steps between returns to the host."""
    original = driver.drive
    monkeypatch.setattr(
        "isotherm.chains.run.drive", lambda ensemble, **k: original(ensemble, chunk_steps=steps, **k)
    )
    draws = call(**options)
    monkeypatch.undo()
    return draws


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [iso.WithReplacement(), iso.RandomBlocks(rows_per_run=4, reshuffle_every=9)],
    ids=["iid", "blocks"],
)
def test_a_run_cut_into_chunks_gives_the_same_bits(monkeypatch, plan):
    options = {"burn_in": 11, "thinning": 3, "minibatch": plan}
    runs = [chunked(monkeypatch, steps, **options) for steps in CUTS]
    for other in runs[1:]:
        assert same(runs[0].posterior, other.posterior)
        assert same(runs[0].stats, other.stats)
        assert same(runs[0].moments.mean, other.moments.mean)
        assert same(runs[0].moments.variance, other.moments.variance)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:At the start:isotherm.IsothermWarning")
def test_thinning_and_burn_in_pick_from_the_same_chain():
    """SGNHT has no average that the end of burn-in would reset."""
    sampler = iso.SGNHT(0.02, 2.0)
    every = call(sampler, num_draws=65, thinning=1, burn_in=0)
    thinned = call(sampler, num_draws=15, thinning=4, burn_in=5)
    assert np.array_equal(every.posterior[:, 8::4][:, :15], thinned.posterior)


def test_moments_are_those_of_every_step_after_burn_in():
    every = call(num_draws=60, burn_in=5)
    thinned = call(num_draws=15, thinning=4, burn_in=5)
    expected = every.posterior.astype(np.float64)
    for draws in (every, thinned):
        # Float32 positions added up with compensation: the mean is good to the rounding of one position.
        np.testing.assert_allclose(draws.moments.mean, expected.mean(axis=1), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(draws.moments.variance, expected.var(axis=1, ddof=1), rtol=1e-5)
        assert (draws.moments.count == 60).all()


@pytest.mark.slow
def test_moments_far_from_zero():
    """10^6 steps around 1000 with sd 0.16. The sums are of deviations from the start: in float32, squares near 10^6
    have no digit left for 0.03. `chains/test_moments.py` tests that the sums lose nothing."""
    posterior = iso.Posterior(lambda t, d: -0.5 * (d - t) ** 2, lambda t: 0.0 * t)
    x = np.full(40, 1000.0, np.float32)
    draws = call(
        iso.SGLD(0.01),
        model=(posterior, x, jnp.asarray(1000.0)),
        num_draws=10_000,
        thinning=100,
        num_chains=1,
    )
    # AR(1) with coefficient 0.6: sd of the mean of 10^6 steps is 0.17 * 2 / 1000; the variance has a
    # relative standard error of sqrt(2 * 2.1 / 10^6) = 0.2 %. Five of each: one false alarm in 10^6.
    expected = 0.02 / (1 - 0.6**2)
    assert abs(draws.moments.mean[0] - 1000) < 5 * 4e-4
    assert abs(draws.moments.variance[0] / expected - 1) < 5 * 0.002


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "seen"),
    [
        (iso.CCAdL(0.02, 2.0, iso.Dense("exact")), 0),
        (iso.SGHMC(0.02, 9.0, iso.Diagonal()), 16),
    ],
    ids=["empty", "seeded"],
)
def test_burn_in_ends_with_a_fresh_average(sampler, seen):
    """From a start 10 units (64 sd) away: the average of burn-in is dropped, the rest of the state is kept."""
    posterior, data, _ = normal_mean()
    far = jnp.full(2, 10.0)
    draws = call(sampler, model=(posterior, data, far), burn_in=300, num_draws=2, num_chains=1)
    data = jnp.asarray(data)
    kernel = iso.extend.Kernel(sampler, iso.Minibatch(posterior), num_data=40, batch_size=8)
    key = jax.random.fold_in(jax.random.key(0), 0)
    step = jax.jit(lambda s: kernel.step(s, data, key=key)[0])
    state = kernel.init(far, data, key=key)
    assert int(state.covariance.count) == seen
    for _ in range(300):
        state = step(state)
    fresh = kernel.restart_averages(state, data, key=key).covariance
    assert int(fresh.count) == seen
    if seen == 0:
        assert not np.any(fresh.operator.matrix)
    state = iso.extend.State(state.position, state.momentum, state.xi, fresh, state.step)
    np.testing.assert_allclose(draws.posterior[0, 1], step(step(state)).position, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:At the start:isotherm.IsothermWarning")
def test_sweep_equals_sample_and_keeps_the_order():
    posterior, data, init = normal_mean()
    samplers = [iso.SGNHT(0.01, 1.0), iso.CCAdL(0.02, 2.0, iso.Dense()), iso.SGNHT(0.02, 3.0)]
    options = {"batch_size": 8, "num_draws": 20, "num_chains": 2, "progress": False}
    together = iso.sweep(posterior, data, init, samplers, **options)
    for sampler, draws in zip(samplers, together, strict=True):
        alone = iso.sample(posterior, data, init, sampler=sampler, **options)
        assert draws.record.sampler == alone.record.sampler
        assert eqx.tree_equal(draws.setup.sampler, alone.setup.sampler)
        np.testing.assert_allclose(draws.posterior, alone.posterior, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(draws.moments.variance, alone.moments.variance, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:At the start:isotherm.IsothermWarning")
def test_sweep_compiles_once_for_settings_that_differ_in_numbers():
    traces = []

    def log_likelihood(t, d):
        traces.append(1)
        return -0.5 * jnp.sum((d - t) ** 2)

    _, data, init = normal_mean()
    posterior = iso.Posterior(log_likelihood)
    options = {"batch_size": 8, "num_draws": 5, "num_chains": 1, "progress": False}
    iso.sweep(posterior, data, init, [iso.SGNHT(0.01, 1.0), iso.SGNHT(0.02, 1.0)], **options)
    two = len(traces)
    traces.clear()
    fresh = iso.Posterior(lambda t, d: log_likelihood(t, d))
    iso.sweep(fresh, data, init, [iso.SGNHT(0.01 + 0.001 * i, 1.0) for i in range(12)], **options)
    assert len(traces) == two


def test_chains_share_neither_first_momenta_nor_batches():
    draws = call(iso.SGLD(1e-6), num_draws=1, num_chains=64)
    assert len(np.unique(draws.posterior[:, 0, 0])) == 64


def test_a_failed_chain_stops_and_the_others_go_on():
    """The log-likelihood is NaN beyond theta_0 = 3. Only chain 1, which starts at -10, swings that far."""
    normal, data, _ = normal_mean()
    posterior = iso.Posterior(
        lambda t, d: -0.5 * jnp.sum((d - t) ** 2) * jnp.where(t[0] > 3, jnp.nan, 1.0), normal.log_prior
    )
    starts = jnp.asarray([[0.0, 0.0], [-10.0, 0.0], [0.0, 0.0]])
    with pytest.warns(iso.IsothermWarning, match="chain 1 turned non-finite"):
        draws = call(
            iso.SGHMC(0.01, 0.1), model=(posterior, data, starts), num_draws=400, init_per_chain=True
        )
    length = draws.lengths[1]
    assert draws.lengths.tolist() == [400, length, 400]
    assert draws.complete.tolist() == [True, False, True]
    assert 2 < length < 400
    assert np.isfinite(draws.posterior[1, :length]).all()
    assert np.isnan(draws.posterior[1, length:]).all()
    assert np.isfinite(draws.posterior[[0, 2]]).all()
    np.testing.assert_allclose(
        draws.moments.mean[1], draws.posterior[1, :length].mean(axis=0, dtype=np.float64), rtol=1e-6
    )
    assert draws.moments.count.tolist() == [400, length, 400]
    for piece in (f"at step {length}", "s = ", "step_size"):
        assert piece in draws.status[1]
    assert draws.status[0] == "completed 400 steps"
    assert "1 of 3 chains stopped early" in draws.summary().verdict


def test_when_all_chains_fail_the_run_ends_with_what_was_drawn():
    with pytest.warns(iso.IsothermWarning, match=r"s = .*Reduce step_size"):
        draws = call(iso.SGHMC(2.0, 0.1), num_draws=100_000)
    assert draws.num_draws == draws.lengths.max() < 1000
    assert not draws.complete.any()
    assert draws.summary().verdict.startswith("Nothing to summarise: chain 0 turned non-finite")


INTERRUPTED = """
import os, signal, threading, warnings
import numpy as np
from support.models import call

before = signal.getsignal(signal.SIGINT)
call(num_draws=10)  # compile first, so that the signal arrives during the loop
threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    draws = call(num_draws=10**6, thinning=1000)
assert "interrupted after" in str(caught[0].message)
assert "interrupted" in repr(draws)
assert 0 < draws.num_draws < 10**6, draws
assert np.isfinite(draws.posterior).all()
assert (draws.lengths == draws.num_draws).all()
assert (draws.moments.count == 1000 * draws.num_draws).all()
assert all(line.startswith("interrupted after") for line in draws.status), draws.status
assert signal.getsignal(signal.SIGINT) is before
print("returned")
"""


@pytest.mark.slow
def test_ctrl_c_returns_what_was_drawn():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "returned\n", done.stderr


def test_progress_is_quiet_without_a_terminal(capsys):
    call(progress=True)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_progress_shows_the_figures_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    call(progress=True, num_draws=200)
    shown = capsys.readouterr().err
    for piece in ("CCAdL", "passes", "T "):
        assert piece in shown


@pytest.mark.slow
def test_init_with_a_chain_axis_and_jitter():
    posterior, data, _ = normal_mean()
    starts = jnp.asarray([[5.0, 0.0], [0.0, 5.0], [-5.0, 0.0]])
    draws = call(iso.SGLD(1e-9), model=(posterior, data, starts), num_draws=1, init_per_chain=True)
    np.testing.assert_allclose(draws.posterior[:, 0], starts, atol=1e-3)
    jittered = call(iso.SGLD(1e-9), num_draws=1, num_chains=400, init_scale=0.5).posterior[:, 0]
    # sd of 800 normal numbers: relative standard error 1/40; four of them.
    assert abs(jittered.std() / 0.5 - 1) < 0.1
    # Chains differ from each other in every parameter: 400 numbers each; five standard errors of 1/sqrt(800).
    assert np.all(np.abs(jittered.std(axis=0) / 0.5 - 1) < 5 / 800**0.5)


@pytest.mark.slow
def test_full_data_gradient_has_no_noise_and_ignores_the_batch_size():
    a = call(iso.SGNHT(0.02, 2.0), gradient=iso.FullData(), batch_size=8)
    b = call(iso.SGNHT(0.02, 2.0), gradient=iso.FullData(), batch_size=40)
    assert np.array_equal(a.posterior, b.posterior)
    assert a.record.batch_size == 40
    controlled = call(iso.CCAdL(0.02, 2.0, iso.Dense()), gradient=iso.FullData())
    np.testing.assert_allclose(controlled.posterior, a.posterior, atol=1e-6)


def test_clipped_steps_are_counted_over_the_run():
    """With friction far below what the noise needs, every step clips, during burn-in and after it."""
    with pytest.warns(iso.IsothermWarning, match="clipped"):
        draws = call(iso.SGHMC(1e-2, 1e-3, iso.Dense()), num_draws=7, thinning=3, burn_in=5, num_chains=2)
    np.testing.assert_array_equal(draws.stats["clipped_steps"], [26, 26])
