"""Draw changes of the library at random, run the tests that cover each, and say which test noticed.

    cd tests && python -m mutants [--count 150] [--seed 1] [--only FOLDER ...] [--jobs 2] [--out results.json]

Which tests run which lines is measured first, with the package `coverage`, and kept. The exit status is 1 if a mutant
survived that has no reason in tests/mutants/reasons.py, and 2 if mutants are left that there was no time for.
"""

import argparse
import dataclasses
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mutants import coverage_map, results
from mutants.clean import Clean
from mutants.coverage_map import Covered
from mutants.covering import covering
from mutants.draw import draw
from mutants.judge import SURVIVED, UNFINISHED, Outcome, judge, passes
from mutants.page import write_page
from mutants.places import Mutant
from mutants.reasons import EQUIVALENT
from support.copies import ROOT, copy_of_the_tree, workers

PACKAGE = ROOT / "src" / "isotherm"
NOT_RUN = (
    "test_planted.py",
    "test_mutants.py",
)  # they fail on any change of the source, which would prove nothing


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=150, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw")
    parser.add_argument("--only", nargs="+", default=(), help="folders or files of src/isotherm to draw from")
    parser.add_argument("--jobs", type=int, default=2, help="mutants that are tested side by side")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start no more tests after this time"
    )
    parser.add_argument("--out", type=Path, help="write the outcomes to this JSON file, one by one")
    parser.add_argument("--resume", action="store_true", help="keep the outcomes that --out has")
    parser.add_argument(
        "--map", type=Path, default=coverage_map.DEFAULT, help="which tests run which lines, as JSON"
    )
    parser.add_argument(
        "--map-only", action="store_true", help="measure what the map does not have, and stop"
    )
    parser.add_argument(
        "--fast", action="store_true", help="run no slow tests; survivors count as unfinished"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants that would be drawn, and stop")
    parser.add_argument("--page", action="store_true", help="write docs/mutants.md")
    given = parser.parse_args()
    if given.resume and not given.out:
        parser.error("--resume needs --out")
    return given


def main() -> int:
    """Run, print and write; return the exit status."""
    given, began = arguments(), time.perf_counter()
    may_go_on = lambda: time.perf_counter() - began < given.seconds
    mutants = draw(PACKAGE, count=given.count, seed=given.seed, only=tuple(given.only))
    if given.list:
        print(*(mutant.name for mutant in mutants), sep="\n")
        return 0
    entries = coverage_map.measure(
        given.map,
        test_files(),
        slow=not given.fast,
        jobs=given.jobs,
        may_go_on=may_go_on,
    )
    if given.map_only:
        return 0
    whole_map = not given.fast and len(entries) == 2 * len(test_files())
    outcomes = judge_all(mutants, entries, given, may_go_on, whole_map=whole_map)
    print(results.table(outcomes, EQUIVALENT))
    survivors = [outcome.name for outcome in outcomes if outcome.outcome == SURVIVED]
    for name in survivors:
        print(f"survived: {name}\n    {EQUIVALENT.get(name, 'NO REASON')}")
    left = sum(outcome.outcome == UNFINISHED for outcome in outcomes)
    print(f"{left} of {len(mutants)} left, {(time.perf_counter() - began) / 60:.0f} minutes")
    if given.page:
        write_page(ROOT, outcomes, seed=given.seed)
    return 2 if left else int(any(name not in EQUIVALENT for name in survivors))


def judge_all(
    mutants: list[Mutant],
    entries: list[Covered],
    given: argparse.Namespace,
    may_go_on: Callable[[], bool],
    *,
    whole_map: bool,
) -> list[Outcome]:
    """Judge the mutants that have no outcome yet, and save after each.

    A mutant survives only if `whole_map` holds: if it is known of all tests whether they run its lines.
    """
    before, failing = results.load(given.out) if given.resume and given.out.exists() else ({}, [])
    outcomes = {mutant.name: before[mutant.name] for mutant in mutants if mutant.name in before}
    lock = threading.Lock()

    def one(mutant: Mutant) -> None:
        earlier, tests = outcomes.get(mutant.name), covering(mutant, PACKAGE, entries)
        # Tests that are new, or have changed, are run for a mutant that survived the others.
        nothing_new = earlier is not None and all(entry.label in earlier.passed for entry in tests)
        if earlier and (earlier.caught or (earlier.outcome == SURVIVED and nothing_new)):
            return
        if not may_go_on():
            return
        outcome = judge(mutant, tests, clean, before=earlier, may_go_on=may_go_on)
        if not (whole_map or outcome.caught):
            outcome = dataclasses.replace(outcome, outcome=UNFINISHED)
        with lock:
            outcomes[mutant.name] = outcome
            print(f"{outcome.seconds:6.0f} s  {outcome.outcome}  {mutant.name}  {outcome.test}", flush=True)
            if given.out:
                kept = {"outcomes": outcomes.values(), "failing": clean.failing}
                results.save(given.out, seed=given.seed, count=given.count, **kept)

    with tempfile.TemporaryDirectory(prefix="clean-") as folder, workers(given.jobs) as pool:
        clean = Clean(copy_of_the_tree(Path(folder)), passes, failing)
        list(pool.map(one, mutants))
    not_begun = lambda m: Outcome(m.name, m.kind, m.folder, m.line, UNFINISHED, None, 0.0)
    return [outcomes.get(mutant.name) or not_begun(mutant) for mutant in mutants]


def test_files() -> list[str]:
    """Return the test files relative to the root, without those that compare the source with itself."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [path.relative_to(ROOT).as_posix() for path in files if path.name not in NOT_RUN]


if __name__ == "__main__":
    sys.exit(main())
