"""How commands and runs end by signals: without a traceback, without a crash, and with everything stored."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import isotherm as iso
import isotherm.sampling.resume  # before a test replaces what it imports
from isotherm import signals
from isotherm.cli import main
from support.made_run import made_draws

SPEC = 'model = "linear"\n[data]\npath = "t.csv"\ntarget = "y"\n[sample]\nnum_draws = 100000\n'

IN_AN_IMPORT = """
import os, signal, sys

module = sys.argv[1]

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
from isotherm.cli import main
sys.argv[1:] = ["data"]
sys.exit(main())
"""

IN_JAX = """
import gc, os, signal, sys
import jax, jax.numpy as jnp, numpy as np
import isotherm as iso

count = 0

def press(*_, **__):
    global count
    count += 1
    if count == 7:
        os.kill(os.getpid(), signal.SIGINT)

x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
posterior = iso.Posterior(lambda t, row: -0.5 * jnp.sum((row - t) ** 2), lambda t: -0.5 * jnp.sum(t**2))
sample = iso.sample
if sys.argv[1] == "compiling":
    jax.monitoring.register_event_duration_secs_listener(press)
else:
    gc.callbacks.append(press)
try:
    sample(posterior, x, jnp.zeros(2), num_draws=10, progress=False)
except KeyboardInterrupt:
    print("interrupted")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""

LONG_PROGRAM = """
import jax, jax.numpy as jnp
from isotherm.cli.ending import end_at_second_interrupt
from isotherm.signals import deferred

end_at_second_interrupt()
with deferred():
    x = jnp.eye(100)
    program = jax.jit(lambda x: jax.lax.fori_loop(0, 10**9, lambda i, x: x @ x, x)).lower(x).compile()
    print("begins", flush=True)
    program(x).block_until_ready()
"""


def ended(code, *arguments, timeout=120):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.mark.parametrize("module", ["isotherm.cli.commands", "jax", "equinox"])
def test_ctrl_c_in_an_import_ends_the_command_without_a_traceback(module):
    done = ended(IN_AN_IMPORT, module)
    assert (done.returncode, done.stderr.partition(";")[0].strip()) == (130, "isotherm: interrupted")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("where", ["compiling", "collecting"])
def test_ctrl_c_inside_of_jax_is_neither_lost_nor_a_crash(where):
    done = ended(IN_JAX, where)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_is_held_back_until_it_is_asked_for():
    steps = []

    def checked():
        with signals.deferred():
            press()
            steps.append("goes on")
            with signals.deferred():
                signals.check()
            steps.append("not here")

    def unchecked():
        with signals.deferred():
            press()
            steps.append("to the end")

    for work in (checked, unchecked):
        with pytest.raises(KeyboardInterrupt):
            work()
        signals.check()  # it is raised once
    assert steps == ["goes on", "to the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_third_ctrl_c_is_raised_where_it_comes_and_at_a_question_the_first():
    presses = []

    def endless():
        with signals.deferred():
            while len(presses) < 10:
                presses.append(1)
                press()

    def asked():
        with signals.deferred(), signals.immediate():
            press()
            presses.append(1)

    for work in (endless, asked):
        with pytest.raises(KeyboardInterrupt):
            work()
    assert len(presses) == 3
    signals.check()


@pytest.mark.slow
def test_a_second_ctrl_c_ends_a_long_program():
    child = subprocess.Popen(
        [sys.executable, "-c", LONG_PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"begins\n"
    child.send_signal(signal.SIGINT)
    time.sleep(1.5)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (130, b"isotherm: interrupted twice; what was stored before is whole\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a table and a spec, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.normal(5, 2, 400), "y": rng.normal(size=400)}).to_csv("t.csv", index=False)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("presses", "number", "code", "said"),
    [
        (1, signal.SIGINT, 130, "The run was ended early, after "),
        (2, signal.SIGINT, 130, "isotherm: interrupted"),
        (
            1,
            signal.SIGTERM,
            143,
            "isotherm: ended by SIGTERM; `isotherm resume run` goes on where it stopped\n",
        ),
    ],
)
def test_a_signal_ends_the_command_with_everything_stored(presses, number, code, said, folder):
    command = [sys.executable, "-m", "isotherm", "sample", "spec.toml", "--yes"]
    with open("log", "w") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
    began = time.perf_counter()
    while not (folder / "run" / "store" / "state-1.iso").exists():
        assert child.poll() is None, (folder / "log").read_text()
        assert time.perf_counter() - began < 200
        time.sleep(0.05)
    stored = iso.load("run/store").num_draws
    for _ in range(presses):
        child.send_signal(number)
        time.sleep(0.3)
    assert child.wait(120) == code
    log = (folder / "log").read_text()
    assert said in log
    assert "Traceback" not in log
    assert stored <= iso.load("run/store").num_draws < 100_000
    assert (folder / "run" / "report.html").exists() is ("ended early" in said)


class Stopping:
    """Ends a run at a certain function."""

    def __init__(self, monkeypatch, name):
        monkeypatch.setattr(name, self)

    def __call__(self, *_, **__):
        raise KeyboardInterrupt


def earlier_run(folder):
    made_draws(2).save(folder / "run" / "draws.iso")
    (folder / "run" / "report.html").write_text("earlier")


@pytest.mark.parametrize("place", ["isotherm.cli.spec.read_spec", "isotherm.tables.reader.open_table"])
def test_a_run_that_ends_before_it_begins_leaves_the_earlier_one_and_says_so(
    place, folder, monkeypatch, capsys
):
    earlier_run(folder)
    Stopping(monkeypatch, place)
    assert main(["sample", "spec.toml", "--force"]) == 130
    assert capsys.readouterr().err == (
        "isotherm: interrupted; nothing was written\nisotherm: run still holds the results of an earlier run\n"
    )
    assert iso.load("run/draws.iso").num_draws == 200
    (folder / "spec.toml").write_text("model = 3")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert main(["sample", "spec.toml", "--force"]) == 2
    assert "still holds the results of an earlier run" in capsys.readouterr().err
    assert iso.load("run/draws.iso").num_draws == 200


@pytest.mark.parametrize("place", ["setup_of", "sampled"])
def test_a_run_that_ends_before_its_first_draw_shows_no_draws_of_an_earlier_one(
    place, folder, monkeypatch, capsys
):
    earlier_run(folder)
    monkeypatch.setattr("isotherm.sampling.sampled.setup_of", lambda *_, **__: None)
    monkeypatch.setattr("isotherm.chains.stored.save_setup", lambda *_: None)
    monkeypatch.setattr("isotherm.cli.cost.measure", lambda *_, **__: None)
    Stopping(monkeypatch, f"isotherm.sampling.sampled.{place}")
    assert main(["sample", "spec.toml", "--force"]) == 130
    assert (
        capsys.readouterr().err == "isotherm: interrupted; `isotherm resume run` goes on where it stopped\n"
    )
    assert not (folder / "run" / "draws.iso").exists()
    assert not (folder / "run" / "report.html").exists()
    assert main(["report", "run"]) == 2
    assert "still in its warm-up" in capsys.readouterr().err


def test_a_verdict_is_about_the_draws_and_says_that_the_run_was_ended_early():
    draws = made_draws(2, interrupted=True)
    summary = draws.summary()
    assert summary.problems == ()
    assert summary.verdict.startswith("No fault found")
    assert summary.verdict.endswith(" The run was ended early, after 200 of 200 draws.")
    bad = made_draws(2, interrupted=True, shift=3.0).summary()
    assert bad.verdict.startswith("Do not trust these draws yet: R-hat")
    assert bad.verdict.endswith("draws.")
    assert "ended early" not in made_draws(2).summary().verdict
