"""Compiled programs that are kept for later processes."""

import os
import subprocess
import sys

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
