"""Outcomes as JSON, and as a table by folder."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

from mutants.judge import UNFINISHED, Outcome


def save(path: Path, *, seed: int, count: int, outcomes: Iterable[Outcome]) -> None:
    """Write outcomes to a JSON file, in one step: an interrupted run leaves the file before or after it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [dataclasses.asdict(outcome) for outcome in outcomes]
    written = path.with_suffix(".new")
    written.write_text(json.dumps({"seed": seed, "count": count, "outcomes": rows}, indent=1))
    written.replace(path)


def load(path: Path) -> dict[str, Outcome]:
    """Return the outcomes in a file by the names of the mutants."""
    rows = json.loads(path.read_text())["outcomes"]
    return {row["name"]: Outcome(**row | {"passed": tuple(row["passed"])}) for row in rows}


def table(outcomes: Iterable[Outcome], equivalent: Iterable[str]) -> str:
    """Return a table in Markdown: mutants, those caught, and equivalent ones, by folder and in all."""
    finished = [outcome for outcome in outcomes if outcome.outcome != UNFINISHED]
    same = set(equivalent)
    rows = [
        "| folder | mutants | caught | survived | of these equivalent | caught of the rest |",
        "|---|---|---|---|---|---|",
    ]
    for folder in [*sorted({outcome.folder for outcome in finished}), None]:
        these = [outcome for outcome in finished if folder in (None, outcome.folder)]
        caught = sum(outcome.caught for outcome in these)
        equal = sum(outcome.name in same for outcome in these if not outcome.caught)
        rest = len(these) - equal
        label = "all" if folder is None else "root modules" if folder == "." else f"`{folder}/`"
        share = f"{100 * caught / rest:.0f} %" if rest else ""
        rows.append(f"| {label} | {len(these)} | {caught} | {len(these) - caught} | {equal} | {share} |")
    return "\n".join(rows)
