"""A part of the campaign of hostile input, and the faults that it must be able to see."""

import collections
import os
import subprocess
import sys
from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest

import isotherm as iso
from campaigns.hostile.case import BAD, Case, judged
from campaigns.hostile.drawn import case
from campaigns.hostile.models import NUMBERS, run

CASES = 160
KINDS_SEEN = 8
SEED = 6  # whose first cases are of all kinds


@pytest.fixture(autouse=True)
def as_users_run_it(quick_compilation):
    """Users have no type checker at run time, so the errors of the library must suffice."""
    jaxtyping.config.update("jaxtyping_disable", True)
    with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
        yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.slow
def test_hostile_input_ends_in_an_answer_or_a_sentence():
    endings = [(made, judged(made)) for made in (case(SEED, i) for i in range(CASES))]
    faults = [
        f"{made.kind} {made.label}: {end.outcome} {end.text}" for made, end in endings if end.outcome in BAD
    ]
    assert not faults, "\n".join(faults)
    outcomes = collections.Counter(end.outcome for _, end in endings)
    assert outcomes["right"] > CASES // 10
    assert outcomes["refused"] > CASES // 4
    assert len({made.kind for made, _ in endings}) == KINDS_SEEN


@pytest.mark.parametrize(
    ("call", "plain", "outcome"),
    [
        (lambda: run(data=NUMBERS + 1), run, "silent"),  # another answer
        (run, None, "silent"),  # accepted, although it must be refused
        (lambda: np.linalg.inv(np.zeros((2, 3))), None, "raw"),
        (lambda: iso.SGLD(-1.0), None, "raw"),  # a sentence about another argument
        (lambda: run(data="rows"), None, "refused"),
        (run, run, "right"),
    ],
)
def test_the_judge_sees_faults(call, plain, outcome):
    assert judged(Case("judge", "", call, plain, ("data",))).outcome == outcome


@pytest.mark.slow
def test_the_command_prints_the_table_and_counts_no_fault():
    command = Path(__file__).parent / "hostile_input.py"
    finished = subprocess.run(
        [sys.executable, command, "--cases", "12", "--seed", "3"], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(iso.__file__).parents[1])},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "12 cases of seed 3" in finished.stdout
