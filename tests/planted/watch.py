"""A pytest plugin for a run on a copy: is the copy what is imported, and which test failed first?"""

import importlib.util
import json
import os
from pathlib import Path

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test an installed library in place of the copy."""
    spec = importlib.util.find_spec("isotherm")
    origin = Path(spec.origin if spec and spec.origin else "/").resolve()
    if not origin.is_relative_to(Path(session.config.rootpath).resolve() / "src"):
        pytest.exit(f"isotherm would be imported from {origin}, not from the copy", returncode=3)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down the first test that fails."""
    path = Path(os.environ["PLANTED_REPORT"])
    if report.failed and not path.exists():
        path.write_text(json.dumps(report.nodeid))
