"""The same seed gives the same draws: the same bits on one layout, and up to rounding on any other.

**Tolerance.** A step rounds a number a dozen times or so, by at most 2^-24 of it each time, and these dynamics
contract: after k steps two layouts differ by less than 10 k 2^-24, which is 3e-5 after 50 steps. Another order of
random numbers moves the same draws by a posterior standard deviation, 0.16.

Seen: at most 7.5e-8 between JAX 0.10.2 and 0.12.0, 5e-8 between one chain and two, and none among 2, 4 and 64
chains, in a sweep, or with another number of devices or threads.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import isotherm as iso
from isotherm.chains import drive as driver
from isotherm.data import plans as minibatch
from recorded import record
from support.models import call, normal_mean
from support.table import SAMPLERS, slow_unless

HERE = Path(__file__).parent
RECORDED = json.loads(record.FILE.read_text())
TOLERANCE = 10 * record.STEPS * 2.0**-24
# The rest runs in `make test`. `SGHMC-dense` is covered by the plans.
IN_CHECK = ("SGLD", "CCAdL-dense", "CCAdL-symmetric-matrix-free", "WithReplacement")


def short(**options):
    """Run with the length and layout of the recorded runs, so that the tests share compilations."""
    return call(
        SAMPLERS["SGHMC-dense"], **({"num_draws": 9, "thinning": 5, "burn_in": 5, "num_chains": 2} | options)
    )


def assert_same_bits(a, b):
    for x, y in zip(jax.tree.leaves(everything(a)), jax.tree.leaves(everything(b)), strict=True):
        assert np.array_equal(x, y)


def everything(draws):
    moments = draws.moments
    return draws.posterior, draws.stats, moments.mean, moments.variance, moments.temperature


def assert_close(a, b):
    """Assert equality up to rounding, relative to the larger of 1 and the number."""
    assert np.max(np.abs(a - b) / np.maximum(np.abs(b), 1)) < TOLERANCE


@pytest.mark.slow
def test_a_seed_repeats_and_another_does_not():
    first = short(seed=3)
    assert_same_bits(first, short(seed=3))
    assert_same_bits(first, short(seed=jax.random.key(3)))
    other = short(seed=4)
    assert not np.isin(first.posterior, other.posterior).any()


@pytest.mark.slow
def test_a_progress_bar_changes_nothing(monkeypatch, capsys):
    plain = short()
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = short(progress=True)
    assert "SGHMC" in capsys.readouterr().err
    assert_same_bits(plain, shown)


@pytest.mark.slow
def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    longer, shorter = short(num_draws=40), short(num_draws=7)
    assert np.array_equal(longer.posterior[:, :7], shorter.posterior)
    kinetic = [draws.stats["kinetic_temperature"][:, :7] for draws in (longer, shorter)]
    assert np.array_equal(*kinetic)


@pytest.mark.slow
def test_cuts_within_burn_in_thinning_and_reshuffling_change_nothing(monkeypatch):
    """Burn-in of 11, a draw every 6, a new order every 9, and cuts that fall between all of them."""
    plan = iso.RandomBlocks(rows_per_run=4, reshuffle_every=9)
    options = {"minibatch": plan, "burn_in": 11, "thinning": 6}
    original, runs = driver.drive, []
    for steps in (1, 4, 13, 10_000):
        cut = lambda ensemble, steps=steps, **k: original(ensemble, chunk_steps=steps, **k)
        monkeypatch.setattr("isotherm.chains.run.drive", cut)
        runs.append(short(**options))
    for other in runs[1:]:
        assert_same_bits(runs[0], other)


IN_ANOTHER_PROCESS = """
import json, jax
from test_reproducibility import short
print(jax.device_count())
print(json.dumps(short().posterior.tolist()))
"""


def in_a_fresh_process(flags=""):
    """Return the number of devices and the draws of `short` in another process with these XLA flags."""
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS],
        cwd=HERE,
        env=os.environ
        | {
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
            "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    devices, draws = done.stdout.splitlines()
    # A float32 goes through JSON as a float64 and comes back as it was.
    return int(devices), np.array(json.loads(draws), np.float32)


@pytest.mark.slow
def test_a_fresh_process_gives_the_same_bits():
    assert np.array_equal(in_a_fresh_process()[1], short().posterior)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "count"),
    [
        ("--xla_force_host_platform_device_count=2", 2),
        ("--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", 1),
    ],
    ids=["two devices", "one thread"],
)
def test_devices_and_threads_change_draws_by_rounding_at_most(flags, count):
    devices, draws = in_a_fresh_process(flags)
    assert devices == count
    assert_close(draws, short().posterior)


@pytest.mark.slow
def test_a_chain_does_not_depend_on_its_neighbours():
    assert_close(short(num_chains=1).posterior[0], short().posterior[0])


@pytest.mark.slow
def test_a_chain_is_the_same_among_64_and_in_a_sweep():
    few = short()
    for num_chains in (4, 64):
        assert_close(short(num_chains=num_chains).posterior[:2], few.posterior)
    posterior, data, init = normal_mean()
    samplers = [iso.SGHMC(1e-2, 20.0 + i, iso.Dense()) for i in range(32)]
    options = {"batch_size": 8, "num_draws": 9, "thinning": 5, "burn_in": 5, "num_chains": 2}
    swept = iso.sweep(posterior, data, init, samplers, progress=False, **options)
    assert_close(swept[0].posterior, few.posterior)


@pytest.mark.parametrize("name", slow_unless(IN_CHECK, SAMPLERS))
def test_a_sampler_draws_what_is_on_record(name):
    assert_on_record(record.sampler_end(SAMPLERS[name]), "samplers", name)


@pytest.mark.filterwarnings("ignore:.*Reshuffled.*:isotherm.IsothermWarning")
@pytest.mark.parametrize("name", slow_unless(IN_CHECK, record.PLANS))
def test_a_minibatch_plan_draws_what_is_on_record(name):
    assert_on_record(record.plan_end(record.PLANS[name]), "plans", name)


def assert_on_record(end, kind, name):
    moved = record.difference(end, RECORDED[kind][name])
    assert moved < TOLERANCE, (
        f"the draws of {name} have changed by {moved:.1e} since {RECORDED['versions']}, for the same seed. If that "
        "is intended, run `python tests/recorded/record.py` and say so in CHANGELOG.md."
    )


def test_the_record_covers_every_sampler_and_plan():
    assert set(RECORDED["samplers"]) == set(SAMPLERS)
    assert set(RECORDED["plans"]) == set(record.PLANS)
    plans = {plan.__name__ for plan in minibatch.MinibatchPlan.__subclasses__()}
    # `AllRows` draws nothing, and `Weighted` draws like `WithReplacement`, from its table. Those of streams follow
    # from random words, or from rows drawn before.
    streamed = {"WeightedBlocks", "ByWords", "Pool", "Fed"}
    assert plans - {"AllRows", "Weighted"} - streamed == set(record.PLANS)


@pytest.mark.slow
def test_the_record_notices_other_random_numbers():
    other = short(num_draws=1, thinning=45, burn_in=5, seed=1)
    end = {"position": other.posterior[:, 0].tolist(), "xi": None}
    assert record.difference(end, RECORDED["plans"]["WithReplacement"]) > 1000 * TOLERANCE
