"""Faults of a table: what was found, in which rows, and what to do about it."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int64

_SHOWN = 5  # rows that a finding names


class Places:
    """The first few rows in which something was found, and their number."""

    def __init__(self) -> None:
        self.first: list[int] = []  # numbers of rows, from 0
        self.count = 0

    def see(self, mask: Bool[np.ndarray, " n"], rows: Int64[np.ndarray, " n"]) -> None:
        """Add the rows in `mask`."""
        self.add(rows[mask] if len(self.first) < _SHOWN else (), int(mask.sum()))

    def add(self, rows: Sequence[int] | np.ndarray, count: int) -> None:
        """Add `count` rows, the first of which are `rows`."""
        self.first += [int(row) for row in rows[: _SHOWN - len(self.first)]]
        self.count += count


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something found in a table.

    - `column`: its column; `None` if it is about the whole table.
    - `kind`: a short name of the fault, for programs.
    - `fault`, `repair`: what was found, and what to do about it, in sentences.
    - `rows`: numbers of the first rows with it, from 1, and `count`, how many there are; none if it is in all rows.
    - `blocks`: whether nothing can be sampled until it is repaired.
    """

    column: str | None
    kind: str
    fault: str
    repair: str
    rows: tuple[int, ...] = ()
    count: int = 0
    blocks: bool = False

    @property
    def where(self) -> str:
        """The rows in words."""
        return rows_in_words(self.rows, self.count)


def found(
    column: str | None,
    kind: str,
    fault: str,
    repair: str,
    places: Places | None = None,
    *,
    blocks: bool = False,
) -> Finding:
    """Return a finding in these rows."""
    if places is None:
        return Finding(column, kind, fault, repair, blocks=blocks)
    rows = tuple(row + 1 for row in places.first)
    return Finding(column, kind, fault, repair, rows, places.count, blocks)


def rows_in_words(rows: Sequence[int], count: int) -> str:
    """Return "row 3", "rows 3 and 8" or "rows 3, 8, 9, 12, 20 and 1,201 more"."""
    if not rows:
        return ""
    names, more = [f"{row:,}" for row in rows], count - len(rows)
    last = f"{more:,} more" if more else names.pop()
    return f"{'row' if count == 1 else 'rows'} {', '.join(names)}{' and ' if names else ''}{last}"
