"""Copies of the tree that a mistake can be put into, and pytest on such a copy."""

import dataclasses
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support import watch

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = str(ROOT / ".pytest_cache" / "programs")  # compiled programs, shared by all copies
LEFT_OUT = (".*", "__pycache__", "out", "build", "dist")
# How `make test` runs the fast tests (options of pyproject.toml) and the slow ones.
FAST = ("-m", "not slow")
SLOW = ("-o", "addopts=-q --import-mode=importlib --strict-markers --strict-config", "-m", "slow")
_NO_TESTS = 5  # pytest's exit status if nothing was selected


@dataclasses.dataclass(frozen=True)
class TestRun:
    """What pytest did on a copy: tests in the order in which they ended, and the output if it could not be run."""

    __test__ = False

    seconds_of: Mapping[str, float]
    failed: tuple[str, ...]
    stopped_in: str | None  # the test that reached its limit or ended the process
    seconds: float
    output: str = ""  # of a run that ended neither with success nor with a failed test

    @property
    def passed(self) -> bool:
        """Whether all tests were run and none failed."""
        return not (self.failed or self.stopped_in or self.output)


def copy_of_the_tree(folder: Path) -> Path:
    """Copy the sources, the tests and the docs to `folder`."""
    return Path(shutil.copytree(ROOT, folder / "tree", ignore=shutil.ignore_patterns(*LEFT_OUT)))


def workers(jobs: int) -> ThreadPoolExecutor:
    """Return as many threads to start processes from. If there are more than two, they share out the cores.

    XLA starts a thread for each core that it may use, so that many processes on all cores would slow each other down.
    """
    if jobs <= 2 or not hasattr(os, "sched_setaffinity"):
        return ThreadPoolExecutor(jobs)
    cores, number = sorted(os.sched_getaffinity(0)), itertools.count()
    each = max(1, len(cores) // jobs)

    def settle() -> None:  # the processes that a thread starts inherit its cores
        first = next(number) * each % len(cores)
        os.sched_setaffinity(0, cores[first : first + each])

    return ThreadPoolExecutor(jobs, initializer=settle)


def run_pytest(
    copy: Path,
    options: Iterable[str],
    *,
    limit: float,
    limits: Mapping[str, float] | None = None,
    command: Iterable[str] = ("-m", "pytest"),
) -> TestRun:
    """Run pytest in a copy with the interpreter of this process.

    **Arguments:**

    - `limit`: seconds for the whole run.
    - `limits`: seconds for single tests, and for all others under the name `default`.
    - `command`: how the interpreter is told to run pytest.
    """
    with tempfile.TemporaryDirectory(prefix="watched-") as folder:
        report = Path(folder) / "tests.jsonl"
        variables = {
            "PYTHONPATH": _python_path(copy),
            "JAX_COMPILATION_CACHE_DIR": PROGRAMS,
            watch.REPORT: str(report),
        }
        if limits is not None:
            variables[watch.LIMITS] = str(Path(folder) / "limits.json")
            Path(variables[watch.LIMITS]).write_text(json.dumps(dict(limits)))
        began = time.perf_counter()
        status, output = _finished(
            [sys.executable, *command, *options, "-p", "support.watch", "-p", "no:cacheprovider"],
            copy,
            os.environ | variables,
            limit,
        )
        seconds = round(time.perf_counter() - began, 1)
        lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    ended = {line["test"]: line for line in lines if line["event"] == "end"}
    failed = tuple(name for name, line in ended.items() if line["outcome"] == "failed")
    open_ = [line["test"] for line in lines if line["event"] == "begin" and line["test"] not in ended]
    ran = failed or open_ or status in (0, _NO_TESTS)
    return TestRun(
        {name: line["seconds"] for name, line in ended.items()},
        failed,
        open_[-1] if open_ and not failed else None,
        seconds,
        "" if ran else "could not be run: " + output[-2000:],
    )


def _finished(command: list[str], folder: Path, environment: dict[str, str], limit: float) -> tuple[int, str]:
    """Return the exit status and the output; after `limit` seconds the process and its children are ended."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return status, output.read()


def _python_path(copy: Path) -> str:
    parts = [str(copy / part) for part in ("src", "tests")]
    return os.pathsep.join([*parts, os.environ.get("PYTHONPATH", "")])
