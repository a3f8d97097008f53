"""A part of the campaign of damaged files, and the faults that it must be able to see."""

import collections
import os
import subprocess
import sys
import time
from pathlib import Path

import jaxtyping
import numpy as np
import pytest

import isotherm as iso
from campaigns.damaged import reading
from campaigns.damaged.cases import Cases
from campaigns.damaged.originals import made
from campaigns.damaged.reading import BAD, GOOD, equal, judged, without_figures
from isotherm.errors import DamagedFileError
from isotherm.files import damaged

CASES = 250
SEED = 3
KINDS_SEEN = 15


@pytest.fixture(autouse=True)
def as_users_run_it(quick_compilation, monkeypatch):
    """Users have no type checker at run time, so the checks of the library must suffice."""
    jaxtyping.config.update("jaxtyping_disable", True)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the disk of the test need not survive
    with without_figures():
        yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.slow
def test_damaged_files_give_the_same_numbers_or_a_sentence(tmp_path):
    cases = Cases(made(tmp_path / "originals", whole=False), tmp_path)
    cases.expect()
    endings = [(case, cases.judged(case)) for case in (cases.case(SEED, i) for i in range(CASES))]
    faults = [f"{case.label}: {end.outcome} {end.text}" for case, end in endings if end.outcome in BAD]
    assert not faults, "\n".join(faults)
    outcomes = collections.Counter(end.outcome for _, end in endings)
    assert outcomes["same"] > CASES // 5
    assert outcomes["said"] > CASES // 4
    assert set(outcomes) <= set(GOOD)
    assert len({case.kind for case, _ in endings}) >= KINDS_SEEN


def _raises(error):
    raise error


NUMBERS = {"x": np.arange(3.0)}


@pytest.mark.parametrize(
    ("read", "outcome"),
    [
        (lambda path: {"x": np.arange(3.0)}, "same"),
        (lambda path: {"x": np.arange(3.0) + 1e-16 * np.eye(3)[0]}, "silent"),
        (lambda path: {"x": np.arange(3)}, "silent"),
        (lambda path: {}, "silent"),
        (lambda path: _raises(damaged(path / "file.iso", "its checksum differs")), "said"),
        (lambda path: _raises(DamagedFileError("a file is damaged")), "raw"),
        (lambda path: np.load(path / "file.iso"), "said"),
        (lambda path: _raises(KeyError("file.iso")), "raw"),
        (lambda path: _raises(MemoryError("file.iso")), "memory"),
        (lambda path: time.sleep(60), "hang"),
    ],
)
def test_the_judge_sees_faults(read, outcome, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_PATIENCE_S", 1)
    assert judged(read, tmp_path, [NUMBERS], ["file.iso"], "bit flipped").outcome == outcome


def test_other_numbers_are_allowed_only_under_checksums_that_fit():
    read = lambda path: {"x": np.zeros(3)}
    assert judged(read, Path("f"), [NUMBERS], [], "forged: 0.npy shorter").outcome == "forged"
    assert judged(read, Path("f"), [NUMBERS], [], "truncated").outcome == "silent"


def test_answers_are_compared_bit_for_bit():
    assert equal({"x": np.array([np.nan])}, {"x": np.array([np.nan])})
    assert not equal({"x": np.zeros(2, np.float32)}, {"x": np.zeros(2)})
    assert not equal({"x": np.array([0.0])}, {"x": np.array([-0.0])})


@pytest.mark.slow
def test_the_command_prints_the_table_and_counts_no_fault():
    command = Path(__file__).parent / "damaged_files.py"
    finished = subprocess.run(
        [sys.executable, command, "--cases", "400", "--seed", "4"], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(iso.__file__).parents[1])},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "400 cases of seed 4" in finished.stdout
