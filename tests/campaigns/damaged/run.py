"""The campaign of damaged files: what it needs in each child process, and a bound on memory."""

import argparse
import contextlib
import os
import resource
import sys
import tempfile
from pathlib import Path

import jax

from campaigns import watched
from campaigns.damaged.cases import Case, Cases
from campaigns.damaged.originals import made
from campaigns.damaged.reading import BAD, GOOD, Ending, without_figures

_UNTIL_THE_END = contextlib.ExitStack()
_ROOM = 2**30  # bytes that reading one case may take
CAMPAIGN = watched.Campaign(
    [sys.executable, str(Path(__file__).parent.parent / "damaged_files.py")], GOOD, BAD, None, None
)


def main() -> int:
    """Run the command."""
    with tempfile.TemporaryDirectory(prefix="isotherm-damaged-") as folder:
        os.environ["TMPDIR"] = folder  # of the children, too
        return watched.main(CAMPAIGN, "Damage files and count what reading them ends in.", _prepared)


def _prepared(chosen: argparse.Namespace) -> watched.Campaign:
    del chosen
    jax.config.update("jax_disable_most_optimizations", True)  # programs are small and run once or twice
    folder = Path(tempfile.mkdtemp())
    _UNTIL_THE_END.enter_context(without_figures())
    cases = Cases(made(folder / "originals"), folder)
    cases.expect()

    def judged(case: Case) -> Ending:
        limit_memory(_ROOM)
        return cases.judged(case)

    return CAMPAIGN._replace(case=cases.case, judged=judged)


def limit_memory(room: int) -> None:
    """Let this process take `room` bytes more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, hard))
