"""A pytest plugin for runs on a copy: it checks that the copy is imported and records the first failure."""

import importlib.util
import json
import os
from pathlib import Path

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop if an installed library would be tested instead of the copy."""
    spec = importlib.util.find_spec("isotherm")
    origin = Path(spec.origin if spec and spec.origin else "/").resolve()
    if not origin.is_relative_to(Path(session.config.rootpath).resolve() / "src"):
        pytest.exit(f"isotherm would be imported from {origin}, not from the copy", returncode=3)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the first test that fails."""
    path = Path(os.environ["PLANTED_REPORT"])
    if report.failed and not path.exists():
        path.write_text(json.dumps(report.nodeid))
