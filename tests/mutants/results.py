"""Outcomes as JSON, and as a table by folder."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

from mutants.judge import SURVIVED, Outcome


def save(path: Path, *, seed: int, count: int, outcomes: Iterable[Outcome], failing: Iterable[str]) -> None:
    """Write outcomes, and tests that fail without a mutant, to a JSON file.

    It is replaced in one step, so that an interrupted run leaves the file before or after it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [dataclasses.asdict(outcome) for outcome in outcomes]
    written = path.with_suffix(".new")
    contents = {"seed": seed, "count": count, "failing": sorted(failing), "outcomes": rows}
    written.write_text(json.dumps(contents, indent=1))
    written.replace(path)


def load(path: Path) -> tuple[dict[str, Outcome], list[str]]:
    """Return the outcomes in a file by the names of the mutants, and the tests that fail without one."""
    contents = json.loads(path.read_text())
    rows = contents["outcomes"]
    return {row["name"]: Outcome(**row | {"passed": tuple(row["passed"])}) for row in rows}, contents[
        "failing"
    ]


def table(outcomes: Iterable[Outcome], equivalent: Iterable[str]) -> str:
    """Return a table in Markdown: how many mutants were drawn, caught and so on, by folder and in all."""
    outcomes, same = list(outcomes), set(equivalent)
    rows = [
        "| folder | mutants | caught | survived | of these equivalent | unfinished | caught of the others |",
        "|---|---|---|---|---|---|---|",
    ]
    for folder in [*sorted({outcome.folder for outcome in outcomes}), None]:
        these = [outcome for outcome in outcomes if folder in (None, outcome.folder)]
        caught = sum(outcome.caught for outcome in these)
        survived = [outcome.name for outcome in these if outcome.outcome == SURVIVED]
        equal = len(same.intersection(survived))
        left = len(these) - caught - len(survived)
        rest = len(these) - equal
        label = "all" if folder is None else "root modules" if folder == "." else f"`{folder}/`"
        share = f"{100 * caught / rest:.0f} %" if rest and not left else ""
        rows.append(f"| {label} | {len(these)} | {caught} | {len(survived)} | {equal} | {left} | {share} |")
    return "\n".join(rows)
