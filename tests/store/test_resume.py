"""Stored runs: however they end, a resumption returns the bits of a run that was never ended."""

import errno
import os
import shutil
import signal
import time

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.chains import recording
from isotherm.store.folder import RunFolder
from isotherm.sums import journal
from support.several import SIZE, posterior, rows, start
from support.stored_run import ALONE, ROWS, contents, run, settings

DRAWS = 120


class EndedError(Exception):
    """Ends a run where it is raised, as a power cut would."""


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Store states and passes whenever there is something new, in short chunks."""
    monkeypatch.setattr(recording, "_SECONDS", 0.0)
    monkeypatch.setattr(recording, "_SHARE", 0)
    monkeypatch.setattr(journal, "_SECONDS", 0.0)
    monkeypatch.setattr("isotherm.chains.drive._Pace.record", lambda *_: None)  # chunks of 32 steps
    monkeypatch.setattr("isotherm.data.stream._HELD", 2**26)
    monkeypatch.setattr("isotherm.data.stream._BLOCK", 2**22)


def assert_same(one, other):
    one, other = contents(one), contents(other)
    assert one.keys() == other.keys()
    for name in one:
        assert np.array_equal(one[name], other[name], equal_nan=True), name


def never_ended(case):
    target, data = posterior(), rows(ROWS)
    return iso.sample(target, data, jnp.zeros(SIZE), **settings(case, DRAWS), seed=5, progress=False)


def ended_at(monkeypatch, replacements):
    """End the run after some files have been replaced; the next one is left as a temporary file."""
    count, replace = 0, os.replace

    def counted(*args):
        nonlocal count
        count += 1
        if count > replacements:
            raise EndedError
        replace(*args)

    monkeypatch.setattr(os, "replace", counted)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["by_hand", "moving"])
def test_a_stored_run_is_the_run_itself(case, tmp_path):
    stored = run(case, tmp_path / "run", DRAWS)
    assert_same(stored, never_ended(case))
    assert_same(iso.load(tmp_path / "run"), stored)
    assert_same(run(case, tmp_path / "run", DRAWS), stored)  # a complete run is returned as it is


@pytest.mark.parametrize("files", [1, 2, 3, 13, 15, 16, 17, 18, 30])
def test_a_run_goes_on_after_any_number_of_files(files, tmp_path, monkeypatch):
    expected = run("by_hand", tmp_path / "whole", DRAWS)
    with monkeypatch.context() as patch:
        ended_at(patch, files)
        with pytest.raises(EndedError):
            run("by_hand", tmp_path / "run", DRAWS)
    if not (tmp_path / "run" / "call.iso").exists():  # nothing was stored yet, and nothing is left
        assert not (tmp_path / "run").exists()
    assert_same(run("by_hand", tmp_path / "run", DRAWS), expected)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALONE)
def test_a_run_of_any_kind_goes_on_after_any_number_of_files(case, tmp_path, monkeypatch):
    expected = run(case, tmp_path / "whole", DRAWS)
    files, done = 1, False
    while not done:
        with monkeypatch.context() as patch:
            ended_at(patch, files)
            try:
                run(case, tmp_path / "run", DRAWS)
                done = True
            except EndedError:
                pass
        assert_same(run(case, tmp_path / "run", DRAWS), expected)
        shutil.rmtree(tmp_path / "run")
        files += 1 + files // 6


def test_more_draws_are_those_of_a_longer_run(tmp_path):
    target, data = posterior(), rows(ROWS)
    short = run("by_hand", tmp_path / "run", 70)
    longer = iso.resume(tmp_path / "run", target, data, num_draws=DRAWS, progress=False)
    assert (short.num_draws, longer.num_draws) == (70, DRAWS)
    assert_same(longer, never_ended("by_hand"))
    again = iso.resume(tmp_path / "run", target, data, progress=False)
    assert again.num_draws == DRAWS
    with pytest.raises(ValueError, match="`num_draws` must be at least 120"):
        iso.resume(tmp_path / "run", target, data, num_draws=10, progress=False)


@pytest.mark.parametrize("files", [0, 1, 2, 3, 5, 20])
def test_whatever_file_does_not_fit_the_error_says_what_to_do(files, tmp_path, monkeypatch):
    """The first files are call.iso, problem.json, setup.iso and those of draws.zarr."""
    count, replace = 0, os.replace

    def full(*args):
        nonlocal count
        count += 1
        if count > files:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        replace(*args)

    monkeypatch.setattr(os, "replace", full)
    remedy = (
        "Nothing was computed. Make room.*start again" if files == 0 else "whole. Make room.*`iso.resume`"
    )
    with pytest.raises(OSError, match=f"^`store` could not be written: File too large.*{remedy}"):
        run("by_hand", tmp_path / "run", DRAWS)


def test_a_pass_that_cannot_be_stored_ends_with_what_to_do(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(journal, "write_archive", full)
    with pytest.raises(OSError, match=r"^`store` could not be written: No space left.*`iso.resume`"):
        journal.Journal(tmp_path).recall("a pass", lambda: np.zeros(2))


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    expected = run("by_hand", tmp_path / "whole", DRAWS)
    write = RunFolder.write_snapshot

    def full(self, *args):
        if self.sequence == 8:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_snapshot", full)
        with pytest.raises(OSError, match=r"No space left on device.*is whole. Make room.*`iso.resume`"):
            run("by_hand", tmp_path / "run", DRAWS)
    assert 0 < iso.load(tmp_path / "run").num_draws < DRAWS
    assert_same(run("by_hand", tmp_path / "run", DRAWS), expected)


def test_a_damaged_state_leaves_the_one_before(tmp_path, monkeypatch):
    expected = run("by_hand", tmp_path / "whole", DRAWS)
    with monkeypatch.context() as patch:
        ended_at(patch, 30)
        with pytest.raises(EndedError):
            run("by_hand", tmp_path / "run", DRAWS)
    newest = max((tmp_path / "run").glob("state-?.iso"), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-100])
    assert_same(run("by_hand", tmp_path / "run", DRAWS), expected)


@pytest.mark.slow
def test_a_setup_of_a_warm_up_is_not_made_again(tmp_path, monkeypatch):
    target, data = posterior(), rows(ROWS)
    setup = iso.warmup(target, data, jnp.zeros(SIZE), progress=False)
    expected = iso.sample(target, data, setup, num_draws=DRAWS, progress=False)
    write = RunFolder.write_snapshot

    def ends(self, *args):
        write(self, *args)
        raise EndedError

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_snapshot", ends)
        with pytest.raises(EndedError):
            iso.sample(target, data, setup, num_draws=DRAWS, progress=False, store=tmp_path / "run")
    monkeypatch.setattr("isotherm.sampling.sampled.tuned", None)
    assert_same(iso.resume(tmp_path / "run", target, data, progress=False), expected)


@pytest.mark.slow
def test_passes_of_a_warm_up_that_was_ended_are_not_made_again(tmp_path, monkeypatch):
    target, data = posterior(), rows(ROWS)
    sampled = lambda **options: iso.sample(
        target, data, jnp.zeros(SIZE), num_draws=DRAWS, progress=False, **options
    )
    expected = sampled()
    with monkeypatch.context() as patch:
        patch.setattr("isotherm.sampling.sampled.save_setup", _raise)
        patch.setattr("isotherm.chains.run.save_setup", _raise)
        with pytest.raises(EndedError):
            sampled(store=tmp_path / "run")
    stored = len(list((tmp_path / "run" / "passes").iterdir()))
    assert stored >= 4
    made = []
    compute = journal.Journal.recall

    def counted(self, label, function):
        return compute(self, label, lambda: (made.append(label), function())[1])

    monkeypatch.setattr(journal.Journal, "recall", counted)
    assert_same(iso.resume(tmp_path / "run", target, data, progress=False), expected)
    assert made == []
    assert not (tmp_path / "run" / "passes").exists()


def _raise(*_):
    raise EndedError


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_a_signal_ends_a_process_and_the_run_goes_on(number, code, tmp_path):
    arguments = ["by_hand", str(tmp_path / "run"), "200000", str(tmp_path / "result.npz")]
    child = start(["-m", "support.stored_run", *arguments], log=tmp_path / "log")
    began = time.perf_counter()
    while not (tmp_path / "run" / "state-1.iso").exists():
        assert child.poll() is None, (tmp_path / "log").read_text()
        assert time.perf_counter() - began < 120
        time.sleep(0.05)
    time.sleep(0.5)
    child.send_signal(number)
    assert child.wait(60) == code, (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()
    drawn = iso.load(tmp_path / "run").num_draws
    assert 0 < drawn < 200_000
    target, data = posterior(), rows(ROWS)
    more = iso.resume(tmp_path / "run", target, data, num_draws=drawn + 50, exact=False, progress=False)
    whole = iso.sample(
        target, data, jnp.zeros(SIZE), **settings("by_hand", drawn + 50), seed=5, progress=False
    )
    assert_same(more, whole)
