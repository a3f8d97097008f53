"""Plant each mistake in a copy of the tree, run the fast tests there, and say which test noticed.

    cd tests && python -m planted [NAME ...] [--jobs 2] [--out results.json]

A run over all of them also writes docs/planted-bugs.md. The exit status is 1 if a mistake went unnoticed.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import sys
import tempfile
import time
from pathlib import Path

from planted.bug import Bug, test_file
from planted.bugs import BUGS
from planted.page import write_page
from support.copies import FAST, ROOT, copy_of_the_tree, run_pytest

# They fail on any change of the source, which would prove nothing.
NOT_RUN = ("test_planted.py", "test_mutants.py")
LIMIT_SECONDS = 1800


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of the tests: `test` is the first that failed, or `None` if all passed."""

    name: str
    test: str | None
    seconds: float
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether all tests were run and none failed."""
        return not self.test and not self.note

    def __str__(self) -> str:
        return f"{self.seconds:6.0f} s  {self.name}: {self.test or self.note or 'all tests pass'}"


def check(bug: Bug, *, likely_only: bool) -> Outcome:
    """Run the tests against one mistake: first those that should notice it, then all others."""
    began = time.perf_counter()
    others = sorted(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    rest = tuple(name for name in others if name not in (*bug.likely, *NOT_RUN))
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = copy_of_the_tree(Path(folder))
        path, wrong = bug.planted(copy / "src" / "isotherm")
        right = path.read_text()
        path.write_text(wrong)
        outcome = run_tests(copy, bug.name, bug.likely)
        if outcome.passed and not likely_only:
            outcome = run_tests(copy, bug.name, rest)
            path.write_text(right)
            # Make sure that this test passes without the mistake.
            if outcome.test and not run_tests(copy, bug.name, (by_name(outcome.test),)).passed:
                outcome = dataclasses.replace(outcome, test=None, note=f"{outcome.test} fails without it too")
    outcome = dataclasses.replace(outcome, seconds=round(time.perf_counter() - began, 1))
    print(outcome, flush=True)
    return outcome


def check_without(bugs: list[Bug]) -> Outcome:
    """Check that the tests that should notice these mistakes pass without any."""
    files = tuple(dict.fromkeys(name for bug in bugs for name in bug.likely))
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        outcome = run_tests(copy_of_the_tree(Path(folder)), "no mistake", files)
    print(outcome, flush=True)
    return outcome


def run_tests(copy: Path, name: str, files: tuple[str, ...]) -> Outcome:
    """Run the fast tests of some files in a copy, up to the first failure."""
    paths = [f"tests/{test_file(copy / 'tests', file)}" for file in files]
    run = run_pytest(copy, [*FAST, "-x", *paths], limit=LIMIT_SECONDS)
    note = run.output or (f"{run.stopped_in} did not finish in time" if run.stopped_in else "")
    return Outcome(name, run.failed[0] if run.failed else None, run.seconds, note)


def by_name(test: str) -> str:
    """Return the name of a test without its folders."""
    return test.rpartition("::")[0].rpartition("/")[2] + "::" + test.rpartition("::")[2]


def arguments() -> argparse.Namespace:
    """Return the command line, with names replaced by mistakes."""
    parser = argparse.ArgumentParser(prog="python -m planted", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="mistakes to plant; all of them by default")
    parser.add_argument("--jobs", type=int, default=2, help="copies that are tested side by side")
    parser.add_argument("--out", type=Path, help="write the outcomes to this JSON file")
    parser.add_argument("--likely-only", action="store_true", help="run only the likely test files")
    given = parser.parse_args()
    known = {bug.name: bug for bug in BUGS}
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"unknown mistake {', '.join(unknown)}; known are {', '.join(known)}")
    given.bugs = [known[name] for name in given.names] or list(BUGS)
    return given


def main() -> int:
    """Run, print and write; return the exit status."""
    given, began = arguments(), time.perf_counter()
    clean = check_without(given.bugs)
    if not clean.passed:
        print("The tests must pass before a mistake is planted.")
        return 2
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        outcomes = list(pool.map(lambda bug: check(bug, likely_only=given.likely_only), given.bugs))
    missed = [outcome.name for outcome in outcomes if outcome.test is None]
    seconds = time.perf_counter() - began
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} caught in {seconds / 60:.0f} minutes")
    for name in missed:
        print(f"not caught: {name}")
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        rows = [dataclasses.asdict(outcome) for outcome in (clean, *outcomes)]
        given.out.write_text(json.dumps({"seconds": round(seconds, 1), "outcomes": rows}, indent=1))
    if not given.names and not given.likely_only:
        caught_by = {outcome.name: outcome.test for outcome in outcomes}
        write_page(ROOT, given.bugs, caught_by)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
