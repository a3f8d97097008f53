"""Compiled programs that are kept for later processes, and those that are dropped."""

import logging
import os
import re
import subprocess
import sys
import threading
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm import compilation

PROGRAM = """
import sys, jax, jax.numpy as jnp, isotherm as iso
from isotherm.compilation import compile_quickly
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name.endswith("/cache_hits")))
folder = iso.keep_compiled(*sys.argv[1:])
compile_quickly(lambda x: jnp.sin(x) + 2)(jnp.ones(3))
print(folder, sum(hits))
"""


def run(*arguments, **environment):
    """Return the folder and the number of programs that were found in it, of a new process."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    out = subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=True).stdout
    folder, hits = out.split()
    return folder, int(hits)


def test_a_second_process_finds_the_programs_of_the_first(tmp_path):
    folder = tmp_path / "programs"
    assert run(folder) == (str(folder), 0)
    assert folder.stat().st_mode & 0o077 == 0  # programs in it are run: nobody else may write them
    again, hits = run(folder)
    assert again == str(folder)
    assert hits >= 1


def test_a_folder_that_was_set_before_is_kept(tmp_path):
    before = str(tmp_path / "before")
    assert run(JAX_COMPILATION_CACHE_DIR=before)[0] == before
    assert run(XDG_CACHE_HOME=str(tmp_path))[0] == str(tmp_path / "isotherm" / "compiled")


@pytest.fixture
def no_functions(monkeypatch):
    """Functions that other tests sampled from are forgotten, and their programs kept."""
    monkeypatch.setattr(compilation, "_functions", {})


def test_programs_of_many_functions_are_dropped(no_functions, monkeypatch):
    """A function that is defined again in a loop must not take memory in each round."""
    dropped = []

    cached = types.SimpleNamespace(clear_cache=lambda: dropped.append(len(compilation._functions)))
    monkeypatch.setattr(compilation, "_programs", [types.SimpleNamespace(_cached=cached)])
    kept = lambda x: x
    for _ in range(3):
        compilation.drop_old_programs(kept, None)
    assert len(compilation._functions) == 1
    for _ in range(7):
        compilation.drop_old_programs(lambda x: x, None)
    assert not dropped
    compilation.drop_old_programs(kept, None)  # is known
    assert not dropped
    compilation.drop_old_programs(lambda x: x, None)
    assert dropped == [8]
    assert len(compilation._functions) == 1


def test_arrays_in_a_function_do_not_make_it_another_one(no_functions):
    """A module with other arrays runs the same program."""

    class Shifted(eqx.Module):
        shift: jax.Array
        power: int = eqx.field(static=True)

        def __call__(self, x):
            return (x + self.shift) ** self.power

    for shift in (1.0, 2.0):
        compilation.drop_old_programs(Shifted(jnp.asarray(shift), 2), None)
    assert len(compilation._functions) == 1
    compilation.drop_old_programs(Shifted(jnp.asarray(1.0), 3), None)
    assert len(compilation._functions) == 2


def test_equinox_lets_its_programs_go(no_functions, monkeypatch):
    monkeypatch.setattr(compilation, "_programs", [])
    programs = [compilation.compile_fully(_called), compilation.compile_quickly(_called)]
    assert all(program(lambda x: 2 * x, jnp.ones(())) == 2 for program in programs)
    kept = compilation._programs
    assert [program._cached._cache_size() for program in kept] == [1, 1]
    for _ in range(9):
        compilation.drop_old_programs(lambda x: x)
    assert [program._cached._cache_size() for program in kept] == [0, 0]
    assert programs[0](lambda x: 3 * x, jnp.ones(())) == 3


def _called(f, x):
    return f(x)


def test_the_loop_is_compiled_on_another_thread_and_traced_on_that_of_the_caller():
    """Functions of users, such as models of NumPyro, need not be safe to trace on two threads."""
    threads, compiled = set(), []

    def log_likelihood(mean, x):
        threads.add(threading.get_ident())
        return -0.5 * (x - mean) ** 2

    finished = re.compile(r"Finished XLA compilation of jit\((\w+)\)")

    class Names(logging.Handler):
        def emit(self, record):
            compiled.extend(finished.findall(record.getMessage()))

    logger, handler = logging.getLogger("jax._src.dispatch"), Names()
    logger.addHandler(handler)
    try:
        with jax.log_compiles(True):
            posterior = iso.Posterior(log_likelihood, lambda mean: -0.5 * mean**2)
            sampler = iso.SGNHT(step_size=1e-3, friction=1.0)
            data = np.ones(40, np.float32)
            iso.sample(
                posterior, data, jnp.zeros(()), sampler=sampler, batch_size=8, num_draws=20, progress=False
            )
    finally:
        logger.removeHandler(handler)
    assert threads == {threading.get_ident()}
    assert "_start" in compiled
    assert "_advance_lanes" not in compiled  # `log_compiles` holds for this thread


def test_what_cannot_be_compiled_ahead_fails_in_the_call():
    program = compilation.compile_fully(lambda x: jax.pure_callback(lambda x: 1 / 0, x, x))
    compilation.compile_ahead(program, jnp.ones(()))()
    with pytest.raises(Exception, match="division by zero"):
        jax.block_until_ready(program(jnp.ones(())))
