"""Running the covering tests against one mutant, in parts that can be interrupted and taken up again."""

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from mutants.clean import Clean
from mutants.coverage_map import Covered
from mutants.places import Mutant
from support.copies import FAST, SLOW, TestRun, copy_of_the_tree, run_pytest

_PART_SECONDS = 60.0  # of tests that one process runs, as measured without a mutant
_LIMIT_SECONDS, _LIMIT_FACTOR = (
    60.0,
    10.0,
)  # a test may take a minute and ten times as long as without a mutant
_START_SECONDS = 120.0  # for Python and imports, on a machine that is busy with other things

CAUGHT, TOO_SLOW, SURVIVED, UNFINISHED = "caught", "caught by its time", "survived", "unfinished"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of one mutant: `test` is the first that failed, or that ran into its limit of time.

    - `passed`: labels of the test files that have passed, for a run that goes on later.
    """

    name: str
    kind: str
    folder: str
    line: int
    outcome: str
    test: str | None
    seconds: float
    passed: tuple[str, ...] = ()

    @property
    def caught(self) -> bool:
        """Whether a test noticed the mutant."""
        return self.outcome in (CAUGHT, TOO_SLOW)


def judge(
    mutant: Mutant,
    covering: Iterable[Covered],
    clean: Clean,
    *,
    before: Outcome | None,
    may_go_on: Callable[[], bool],
) -> Outcome:
    """Run the tests of `covering` in this order until one fails that passes without the mutant.

    `before` is an unfinished outcome, or one of a mutant that survived other tests.
    """
    began = time.perf_counter()
    passed = list(before.passed if before else ())
    spent = before.seconds if before else 0.0

    def outcome(kind: str, test: str | None = None) -> Outcome:
        seconds = round(spent + time.perf_counter() - began, 1)
        return Outcome(
            mutant.name, mutant.kind, mutant.folder, mutant.line, kind, test, seconds, tuple(passed)
        )

    left = [entry for entry in covering if entry.label not in passed]
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = copy_of_the_tree(Path(folder))
        path = copy / "src" / "isotherm" / mutant.file
        path.write_text(mutant.planted(copy / "src" / "isotherm"))
        for part in parts(left):
            while here := clean.without_failing(part):
                if not may_go_on():
                    return outcome(UNFINISHED)
                run = run_part(copy, here, skipped=clean.failing)
                test = run.failed[0] if run.failed else run.stopped_in
                if test is None and not run.output:
                    break
                if test is None:  # pytest itself could not start: the library cannot be imported
                    return outcome(CAUGHT, "the start of pytest")
                (entry,) = (entry for entry in here if test.partition("::")[0] == entry.file)
                if clean.passes(test, entry):
                    return outcome(CAUGHT if run.failed else TOO_SLOW, test)
            passed += [entry.label for entry in part]
    return outcome(SURVIVED)


def parts(entries: Iterable[Covered]) -> Iterable[list[Covered]]:
    """Split entries, in their order, into parts of a minute or more; fast and slow tests are never in one part."""
    part: list[Covered] = []
    for entry in entries:
        if part and (part[0].slow != entry.slow or sum(x.seconds for x in part) > _PART_SECONDS):
            yield part
            part = []
        part = [*part, entry]
    if part:
        yield part


def run_part(copy: Path, part: list[Covered], *, skipped: Iterable[str]) -> TestRun:
    """Run the tests of some entries on a copy, up to the first failure, without those that fail without a mutant."""
    known = {*skipped, *(test for entry in part for test in entry.failing)}
    options = ["-x", *(f"--deselect={test}" for test in sorted(known)), *(entry.file for entry in part)]
    return _run(copy, part, options)


def passes(copy: Path, part: list[Covered], test: str) -> bool:
    """Return whether a single test of `part` passes on a copy."""
    return _run(copy, part, [test]).passed


def _run(copy: Path, part: list[Covered], options: list[str]) -> TestRun:
    limits = {test: _LIMIT_SECONDS + _LIMIT_FACTOR * s for entry in part for test, s in entry.tests.items()}
    speed = SLOW if part[0].slow else FAST
    whole = _START_SECONDS + sum(limits.values())
    return run_pytest(copy, [*speed, *options], limit=whole, limits=limits | {"default": 10 * _LIMIT_SECONDS})
