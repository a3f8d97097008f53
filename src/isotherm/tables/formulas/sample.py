"""A sample of the rows of a table, drawn while they are read, with the rows that hold extremes."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int64, UInt64

from isotherm.tables.checks import Rows
from isotherm.tables.table import Columns, joined

_ROWS, _NUMBERS, _FEW_ROWS = 100_000, 2**24, 2**13
_SEED = 0x5EED


class RowSample:
    """At most 100,000 rows, each as likely as any other, and those with the least and greatest of some numbers.

    Which rows these are depends on their numbers alone, not on how the table is stored.
    """

    def __init__(self, names: Sequence[str], *, most: int | None = None) -> None:
        self._names = tuple(names)
        self._most = min(_ROWS, max(_FEW_ROWS, _NUMBERS // max(1, len(names)))) if most is None else most
        self._limit, self.count = np.uint64(2**64 - 1), 0
        self._parts: list[tuple[np.ndarray, np.ndarray, Columns]] = []
        self._ends: dict[tuple[str, bool], tuple[float, int, Columns]] = {}

    @property
    def is_all(self) -> bool:
        """Whether every row is in the sample."""
        return self.count <= self._most

    def see(self, columns: Columns, rows: Rows, numbers: Mapping[str, Float[np.ndarray, " n"]]) -> None:
        """Keep the rows that belong to the sample; `numbers` are those whose extremes are kept."""
        self.count += len(rows)
        for name, values in numbers.items():
            self._keep_ends(name, values, columns, rows)
        ranks = _ranks(rows)
        chosen = ranks < self._limit
        if chosen.any():
            part = {name: columns[name][chosen] for name in self._names}
            self._parts.append((ranks[chosen], rows[chosen], part))
        if sum(len(part[0]) for part in self._parts) > 2 * self._most:
            self._prune()

    def finish(self) -> tuple[Int64[np.ndarray, " n"], dict[str, np.ndarray]]:
        """Return the numbers of the rows, in order, and their columns."""
        self._prune()
        _, rows, columns = self._parts[0]
        ends = {row: part for _, row, part in self._ends.values()}
        more = [row for row in sorted(ends) if row not in set(rows.tolist())]
        rows = np.concatenate([rows, np.array(more, np.int64)])
        columns = joined([columns, *(ends[row] for row in more)])
        order = np.argsort(rows, kind="stable")
        return rows[order], {name: x[order] for name, x in columns.items()}

    def _prune(self) -> None:
        ranks, rows = (
            np.concatenate([x for x, _, _ in self._parts]),
            np.concatenate([x for _, x, _ in self._parts]),
        )
        columns = joined([part[2] for part in self._parts])
        if len(ranks) > self._most:
            kept = np.argpartition(ranks, self._most - 1)[: self._most]
            ranks, rows = ranks[kept], rows[kept]
            columns = {name: x[kept] for name, x in columns.items()}
            self._limit = ranks.max() + np.uint64(1)
        self._parts = [(ranks, rows, columns)]

    def _keep_ends(self, name: str, values: Float[np.ndarray, " n"], columns: Columns, rows: Rows) -> None:
        finite = np.isfinite(values)
        if not finite.any():
            return
        for is_high in (False, True):
            signed = np.where(finite, -values if is_high else values, np.inf)
            i = int(np.argmin(signed))
            known = self._ends.get((name, is_high))
            if known is None or signed[i] < known[0]:
                part = {column: columns[column][i : i + 1] for column in self._names}
                self._ends[name, is_high] = float(signed[i]), int(rows[i]), part


def _ranks(rows: Rows) -> UInt64[np.ndarray, " n"]:
    """Return a random order of rows: their numbers mixed to 64 bits, all different (splitmix64)."""
    z = (rows.astype(np.uint64) + np.uint64(_SEED)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
