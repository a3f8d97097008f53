"""A pytest plugin for runs on a copy of the tree: it checks that the copy is imported and writes down each test."""

import faulthandler
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPORT = "WATCH_REPORT"  # environment variable: the file that gets a line of JSON for each beginning and end
LIMITS = "WATCH_LIMITS"  # environment variable: a JSON file of seconds, test by test, and for `default`


def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop if an installed library would be tested instead of the copy."""
    spec = importlib.util.find_spec("isotherm")
    origin = Path(spec.origin if spec and spec.origin else "/").resolve()
    if not origin.is_relative_to(Path(session.config.rootpath).resolve() / "src"):
        pytest.exit(f"isotherm would be imported from {origin}, not from the copy", returncode=3)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write down a file that cannot be imported as a test that fails."""
    if report.failed:
        _write(event="end", test=report.nodeid, outcome="failed", seconds=0.0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write down when a test begins, and end the process if the test takes longer than its limit."""
    _write(event="begin", test=item.nodeid)
    limits: dict[str, float] = json.loads(Path(path).read_text()) if (path := os.environ.get(LIMITS)) else {}
    limit = limits.get(item.nodeid, limits.get("default"))
    if limit is not None:
        faulthandler.dump_traceback_later(limit, exit=True)  # a thread in C, which ends compiled loops too
    try:
        return (yield)
    finally:
        if limit is not None:
            faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[pytest.TestReport]:
    """Write down the outcome and the seconds of each test after its last phase."""
    report: pytest.TestReport = yield
    kept = item.stash.setdefault(_KEPT, {"outcome": "passed", "seconds": 0.0})
    kept["seconds"] += report.duration
    if report.outcome != "passed" and kept["outcome"] != "failed":
        kept["outcome"] = report.outcome
    if report.when == "teardown":
        _write(event="end", test=item.nodeid, outcome=kept["outcome"], seconds=round(kept["seconds"], 2))
    return report


_KEPT = pytest.StashKey[dict[str, Any]]()


def _write(**line: Any) -> None:
    if path := os.environ.get(REPORT):
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")
