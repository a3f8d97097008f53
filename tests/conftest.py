"""Strict by default: warnings are errors (pyproject), ranks never promote, no key is used twice."""

import itertools
import os
from pathlib import Path

# Tests run side by side, and threads of BLAS that wait for each other take ten times as long. Read when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Most of the time goes into compiling, and many tests compile the same programs: in this run, and in the next.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax
import pytest

_TESTS = itertools.count(1)


@pytest.fixture(autouse=True)
def strict_jax():
    with jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        yield


@pytest.fixture(autouse=True)
def few_programs():
    """Programs are dropped in time: Linux gives a process 65,530 pieces of memory, and a program takes many."""
    yield
    if next(_TESTS) % 10 == 0 and _pieces_of_memory() > 30_000:
        jax.clear_caches()


def _pieces_of_memory() -> float:
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return float("inf")


@pytest.fixture
def quick_compilation():
    """For modules whose programs are small and run once: to compile them is all that takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
