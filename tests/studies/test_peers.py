"""The comparison with other libraries: BlackJAX, which the extra `nuts` installs.

`benchmarks/peers.py` gives the expected moments of a peer at its finite step, from exact linear recursions.
"""

import dataclasses
import importlib.util
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import isotherm as iso
from isotherm.studies.validation.peers import calls as peers
from isotherm.studies.validation.peers import table as peers_table
from isotherm.studies.validation.record import Length
from support.monte_carlo import FALSE_ALARM

SPEC = importlib.util.spec_from_file_location("peers", Path(__file__).parents[2] / "benchmarks" / "peers.py")
findings = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(findings)

TINY = {"step_size": 0.1, "friction": 1.0, "length": Length(chains=2, burn_in=10, draws=3, thinning=10)}


@pytest.fixture(autouse=True)
def keys_unchecked():
    """BlackJAX's SGHMC uses one key twice, for the momentum and to split, at which JAX's check would raise."""
    with jax.debug_key_reuse(False):
        yield


def problem(*, temperature=1.0, batch_size=2, num_data=6):
    """Return a target with three directions of precision 1 and rows whose forces sum to zero."""
    rows = np.random.default_rng(0).standard_normal((num_data, 3)).astype(np.float32)
    posterior = iso.Posterior(lambda x, row: row @ x, lambda x: -0.5 * jnp.sum(x**2), temperature=temperature)
    starts = np.random.default_rng(1).standard_normal((64, 3)).astype(np.float32)
    return peers.Problem(posterior, rows - rows.mean(axis=0), starts, num_data, batch_size, 3)


@pytest.mark.slow
def test_sghmc_returns_only_positions():
    record = peers.blackjax_sghmc(problem(), **TINY, seed=0, noise_estimate=True)
    assert record.position.shape == (2, 3, 3)
    assert record.momentum is None
    assert record.xi is None
    assert record.finite


@pytest.mark.slow
def test_sgnht_returns_its_state_and_the_same_seed_repeats():
    first, again = (peers.blackjax_sgnht(problem(), **TINY, seed=0) for _ in range(2))
    assert first.position.shape == first.momentum.shape == (2, 3, 3)
    assert first.xi.shape == (2, 3)
    assert np.array_equal(first.position, again.position)
    # Each chain has different keys, so all moves differ.
    assert len(np.unique(np.diff(first.position, axis=1))) == 12


def test_only_temperature_one_is_compared():
    with pytest.raises(ValueError, match="`temperature` must be 1 for a comparison"):
        peers.blackjax_sgnht(problem(temperature=0.5), **TINY, seed=0)


def test_scalar_noise_is_the_mean_variance_of_a_minibatch_gradient_and_is_capped():
    p = problem()
    right = 6**2 / 2 * np.var(p.data, axis=0).sum() / 3
    assert peers.scalar_noise(p, 0.01, 1.0) == pytest.approx(right, rel=1e-5)
    assert peers.scalar_noise(p, 1.0, 1.0) == 2.0
    assert peers.scalar_noise(dataclasses.replace(p, batch_size=6), 0.01, 1.0) == 0.0


def test_names_filter_by_sampler_and_setting():
    everything = peers_table.names()
    assert {method for method, _ in everything} == {*peers_table.PEERS, *peers_table.OWN}
    assert {setting for _, setting in everything} == set(peers_table.SETTINGS)
    chosen = peers_table.names("BlackJAX SGNHT, minibatches")
    assert [method for method, _ in chosen] == ["BlackJAX SGNHT"] * 2
    assert not any(setting.exact for _, setting in chosen)
    # With exact gradients there is no noise to estimate.
    assert not peers_table.names("beta, exact")
    assert not peers_table.names("no such sampler")


def test_a_library_that_is_not_installed_is_reported_as_absent(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr("isotherm.studies.validation.peers.torch_calls.importlib.import_module", absent)
    seen = []
    chosen = peers_table.names("posteriors SGNHT, exact")[:1]
    (row,) = peers_table.run_peers(chosen, quick=True, seed=0, done=seen.append)
    assert seen == [row]
    assert row.verdict == "absent"
    assert row.absent.startswith("`posteriors` needs the extra `bench`")
    written = peers_table.to_json(row)
    assert written["verdict"] == "absent"
    assert written["quantities"] == {}


def test_the_markdown_table_marks_what_is_off(tmp_path):
    variance = {"variance": {"value": [1.01, 1.3], "error": [0.01, 0.02]}}
    kinetic = {"kinetic along noise": {"value": [0.97], "error": [0.0004]}}
    rows = [
        {"method": "a", "setting": "x", "verdict": "off", "quantities": variance | kinetic},
        {"method": "a", "setting": "y", "verdict": "absent", "quantities": {}},
        {"method": "b", "setting": "y", "verdict": "right", "quantities": kinetic},
    ]
    path = tmp_path / "peers.json"
    path.write_text(json.dumps({"rows": rows}))
    lines = findings.table(path).splitlines()
    assert lines[0] == "|  | x | y |"
    assert lines[2] == "| a | **1.300(20), 0.970(1)** | absent |"
    assert lines[3] == "| b |  | 0.970(1) |"


@pytest.mark.parametrize("L", [2, 5, 10, 20])
def test_the_lost_gradient_as_the_step_vanishes(L):
    """Redrawn momenta and an unused last gradient give a ratio of L / (L - 1) at any friction."""
    for friction in (0.1, 1.0):
        variance, _ = findings.recursion(2.0, h=1e-3 / L, A=friction, L=L)
        assert variance == pytest.approx(L / (L - 1), abs=1e-3)


def assert_chains(by_chain, expected, bias=0.0):
    """Assert that the mean over chains is `expected`, up to `bias`; the false-alarm rate is 6e-7 by Student's t."""
    limit = stats.t.isf(FALSE_ALARM / 2, len(by_chain) - 1) * stats.sem(by_chain)
    assert abs(np.mean(by_chain) - expected) < bias + limit, (np.mean(by_chain), expected, limit)
    assert limit < 0.06, "the run is too short"


@pytest.mark.slow
def test_blackjax_sgnht_is_right_up_to_its_first_order_bias():
    """Exact gradients. The recursion includes the bias of order h, but not that of order h / d from a moving xi."""
    h, A = 0.02, 1.0
    p = problem(batch_size=6)
    record = peers.blackjax_sgnht(p, step_size=h, friction=A, length=Length(64, 2000, 400, 50), seed=0)
    expected = findings.thermostatted([1.0], h=h, A=A)[0]
    assert abs(expected - 1) < 2 * h
    assert_chains(np.mean(record.position**2, axis=(1, 2)), expected, bias=h / 3)
    # The thermostat holds the kinetic temperature under any scheme.
    assert_chains(np.mean(record.momentum**2, axis=(1, 2)), 1.0)


@pytest.mark.slow
def test_blackjax_sghmc_loses_a_gradient_of_each_trajectory():
    """With exact gradients, h = 0.02 and L = 10, the variance is near 10/9 instead of 1."""
    p = problem(batch_size=6)
    record = peers.blackjax_sghmc(p, step_size=0.02, friction=1.0, length=Length(64, 5000, 300, 500), seed=0)
    by_chain = np.mean(record.position**2, axis=(1, 2))
    expected, _ = findings.recursion(1.0, h=0.02, A=1.0, L=10)
    assert expected == pytest.approx(10 / 9, abs=0.02)
    assert_chains(by_chain, expected)
