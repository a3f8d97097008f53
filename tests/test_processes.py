"""Several processes on this machine: the answer of one, the same draws in all, errors, interruptions and losses."""

import itertools
import os
import signal
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm import processes
from isotherm.chains import drive_together
from isotherm.chains.loop import Kept
from isotherm.cli.distributed import _why
from support.several import SIZE, free_port, start, start_all

_MINUTE = 60.0


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """What one process computes by itself."""
    folder = tmp_path_factory.mktemp("one")
    child = start(["-m", "support.several", "in_processes", str(folder / "0.npz")], log=folder / "0.log")
    assert child.wait() == 0, (folder / "0.log").read_text()
    return dict(np.load(folder / "0.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_processes_return_the_draws_of_one(one, tmp_path, count):
    """Setups agree to rounding. Rows that tie for a place among those that vary most may differ, and with them the
    weights: a draw by less than 0.1 sd, the mean of 2,000 by less than 0.01 sd. 5 chains are shared unevenly."""
    children = start_all("in_processes", tmp_path, count)
    for i, child in enumerate(children):
        assert child.wait() == 0, (tmp_path / f"{i}.log").read_text()
    found = [dict(np.load(tmp_path / f"{i}.npz")) for i in range(count)]
    for name in found[0].keys() - {"seconds"}:
        assert all(np.array_equal(found[0][name], other[name]) for other in found[1:]), name
    for kind in ("arrays", "source", "one_block"):  # all but one process have no rows of the last
        np.testing.assert_allclose(found[0][f"{kind}.center"], one[f"{kind}.center"], rtol=2e-6)
        np.testing.assert_allclose(found[0][f"{kind}.factor"], one[f"{kind}.factor"], rtol=2e-6)
    for kind in ("arrays", "source"):
        ours, theirs = found[0][f"{kind}.draws"], one[f"{kind}.draws"]
        assert ours.shape == theirs.shape == (5, 400, SIZE)
        sd = theirs.std(axis=(0, 1))
        assert np.abs((ours - theirs) / sd).max() < 0.1
        assert np.abs((ours - theirs).mean(axis=(0, 1)) / sd).max() < 0.01
    assert np.array_equal(found[0]["one_chain"], one["one_chain"])  # all but one process have no chain
    np.testing.assert_allclose(
        found[0]["moving"], one["moving"], atol=2e-5
    )  # anchors of each process's own chains
    assert str(found[0]["error"]) == str(one["error"])
    assert "row 20004 does" in str(one["error"])


@pytest.mark.slow
def test_an_interruption_of_one_process_ends_all_with_the_same_draws(tmp_path):
    children = start_all("long_run", tmp_path, 2)
    _wait_for(tmp_path / "1.log", "sampling")
    time.sleep(3)
    children[1].send_signal(signal.SIGTERM)
    for i, child in enumerate(children):
        assert child.wait(_MINUTE) == 0, (tmp_path / f"{i}.log").read_text()
    first, second = (np.load(tmp_path / f"{i}.npz") for i in range(2))
    assert first["interrupted"]
    assert second["interrupted"]
    assert first["draws"].shape[0] == 4
    assert first["draws"].shape[1] > 0
    assert np.array_equal(first["draws"], second["draws"])
    assert np.isfinite(first["draws"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_killed_process_ends_the_command_everywhere_with_a_sentence(tmp_path, lost):
    (tmp_path / "model.py").write_text(_MODEL)
    spec = f'function = "{tmp_path}/model.py:make"\n[sample]\nnum_draws = 10000000\n'
    (tmp_path / "spec.toml").write_text(spec)
    where = ["--distributed", "--coordinator", f"localhost:{free_port()}", "--processes", "2"]
    command = ["-m", "isotherm", "sample", str(tmp_path / "spec.toml"), *where]
    children = [
        start([*command, "--process", str(i), "--out", str(tmp_path / f"run{i}")], log=tmp_path / f"{i}.log")
        for i in range(2)
    ]
    _wait_for(tmp_path / "0.log", "Posterior of")
    time.sleep(5)
    os.killpg(children[lost].pid, signal.SIGKILL)
    began, other = time.perf_counter(), 1 - lost
    assert children[other].wait(_MINUTE) == 2
    assert time.perf_counter() - began < _MINUTE
    said = (tmp_path / f"{other}.log").read_text()
    assert f"isotherm: process {lost} was lost" in said or "lost contact with another process" in said
    assert "start all of them again" in said.lower()
    children[lost].wait()


def test_the_watcher_explains_how_a_process_was_ended():
    lost = "(stopped sending heartbeats):\n{}\nThe tasks have crashed."
    assert _why(lost.format("3"), 6).startswith("process 3 was lost")
    assert _why(lost.format("1, 3"), 6).startswith("process 1, 3 was lost")
    assert "not all processes reached" in _why("F1118 DEADLINE_EXCEEDED: Barrier timed out", 6)
    assert _why("the JAX distributed service detected fatal errors", 6).startswith("process 0 was lost")
    assert "ended by SIGKILL\nsomething" in _why("something", signal.SIGKILL)


def test_one_process_does_its_work_without_an_exchange(monkeypatch):
    monkeypatch.setattr(processes, "_exchanged", lambda message: pytest.fail("exchanged"))
    assert processes.gathered(lambda: 3, "place") == [3]
    assert processes.own_range(10) == (0, 10)
    assert not processes.Stop().requested()


def test_an_error_and_a_wrong_turn_are_raised_in_all_processes(monkeypatch):
    monkeypatch.setattr(processes, "count", lambda: 2)
    monkeypatch.setattr(processes, "index", lambda: 0)
    error = ("place", ("ValueError", "row 3 is bad"), [])
    monkeypatch.setattr(processes, "_exchanged", lambda message: [message, error])
    with pytest.raises(ValueError, match="row 3 is bad") as raised:
        processes.gathered(lambda: 1, "place")
    assert str(raised.value) == "row 3 is bad"
    monkeypatch.setattr(processes, "_exchanged", lambda message: [message, ("elsewhere", None, [])])
    with pytest.raises(RuntimeError, match="process 0 is at 'place' and process 1 at 'elsewhere'"):
        processes.gathered(lambda: 1, "place")


def test_messages_are_arrays_and_json():
    leaves = [np.arange(6, dtype=np.int32).reshape(2, 3), np.float64(0.1), np.zeros((0, 4), bool)]
    message = ("place", None, [np.asarray(x) for x in (*leaves, jnp.asarray(1.5, jnp.bfloat16))])
    label, failure, received = processes._from_bytes(processes._as_bytes(message))
    assert (label, failure) == ("place", None)
    for sent, got in zip(message[2], received, strict=True):
        assert sent.dtype == got.dtype
        assert sent.shape == got.shape
        assert np.array_equal(sent, got)
    error = ("place", ("ValueError", "row 3 is bad"), [])
    assert processes._from_bytes(processes._as_bytes(error)) == error


def test_work_is_shared_out_without_gaps(monkeypatch):
    for count, total in ((2, 5), (4, 5), (3, 1), (4, 0)):
        monkeypatch.setattr(processes, "count", lambda count=count: count)
        ranges = []
        for i in range(count):
            monkeypatch.setattr(processes, "index", lambda i=i: i)
            ranges.append(processes.own_range(total))
        assert ranges[0][0] == 0
        assert ranges[-1][1] == total
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))


def test_draws_that_a_failed_chain_has_not_are_nan():
    kept = jax.tree.map(np.asarray, Kept(jnp.ones((2, 3)), {}))
    longer = drive_together._with_draws(kept, 5).params
    assert np.array_equal(np.isnan(longer), [[False] * 3 + [True] * 2] * 2)
    assert drive_together._with_draws(kept, 2).params.shape == (2, 2)


def _wait_for(log: Path, text: str) -> None:
    """Wait until a process has printed `text`."""
    deadline = time.perf_counter() + 5 * _MINUTE
    while text not in (log.read_text() if log.exists() else ""):
        assert time.perf_counter() < deadline, log.read_text()
        time.sleep(0.5)


_MODEL = """
import jax.numpy as jnp
from support.several import posterior, rows


def make():
    return posterior(), rows(), jnp.zeros(5)
"""
