"""The result of a part of the benchmark: a table and the numbers in it."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Part:
    """One table. `rows` are plain numbers for `bench.json`; `lines` are their text, a cell per column of `header`."""

    name: str
    title: str
    caption: str
    header: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    rows: Sequence[dict[str, Any]]
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return everything but the text of the table."""
        return {
            "title": self.title,
            "caption": self.caption,
            "notes": list(self.notes),
            "rows": list(self.rows),
        }


def wanted(part: str, row: str, only: str) -> bool:
    """Whether `only` is in the full name of a row, `PART: ROW`."""
    return only in f"{part}: {row}"


def speed(row: dict[str, Any]) -> tuple[str, str]:
    """Return the cost with its quartiles, and the steps per second."""
    low, high = row["cost_quartiles"]
    return f"{row['cost']:.2f} ({low:.2f} to {high:.2f})", f"{row['steps_per_second']:,.0f}"


ABSOLUTE = "Steps per second are meaningful only on a GPU or on an idle machine."
