"""Strict by default: warnings are errors (pyproject), ranks are never promoted, no key is used twice."""

import itertools
import os
from pathlib import Path

# Tests run in parallel, and BLAS threads that wait for each other take ten times as long. BLAS reads this on import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Most of the time goes into compilation, and many tests compile the same programs, in this run and the next.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax
import pytest

from support.real_data import WITHOUT_DATA

_TESTS = itertools.count(1)


@pytest.fixture(autouse=True)
def strict_jax():
    with jax.numpy_rank_promotion("raise"), jax.debug_key_reuse(True):
        yield


@pytest.fixture(autouse=True)
def few_programs():
    """Drop compiled programs now and then: Linux allows a process 65,530 memory maps, and a program takes many."""
    yield
    if next(_TESTS) % 10 == 0 and _memory_maps() > 30_000:
        jax.clear_caches()


def _memory_maps() -> float:
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return float("inf")


@pytest.fixture
def quick_compilation():
    """Compile with few optimisations, for modules whose programs are small and run once."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def pytest_terminal_summary(terminalreporter):
    """Say how many tests were skipped because a data set was missing, and how to run them."""
    reports = terminalreporter.stats.get("skipped", [])
    count = sum(WITHOUT_DATA in str(report.longrepr) for report in reports)
    if count:
        terminalreporter.write_line(
            f"{count} {'test was' if count == 1 else 'tests were'} skipped because data sets are missing: set "
            "ISOTHERM_DATA_DIR to their folder."
        )
