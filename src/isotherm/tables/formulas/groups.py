"""Effects of groups: the levels of a factor, and the columns whose coefficients differ between levels."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Int64

from isotherm.errors import must
from isotherm.tables.checks import Rows
from isotherm.tables.formulas.levels import KnownLevels, LevelCounter
from isotherm.tables.formulas.matrix import INTERCEPT, TermsMatrix
from isotherm.tables.formulas.terms import GroupTerm
from isotherm.tables.table import Columns, Table


class Factor:
    """The levels of groups: those of a column, or the combinations of the levels of several that occur.

    `parts` are the levels of each column. `keys` number the combinations, in order; `levels` are their texts.
    """

    def __init__(
        self, columns: Sequence[str], parts: Sequence[Sequence[str]], keys: Int64[np.ndarray, " L"]
    ) -> None:
        self.columns, self.keys = tuple(columns), keys
        self.parts = [KnownLevels(levels) for levels in parts]
        if len(self.parts) == 1:
            self.levels = self.parts[0].levels
        else:
            places = np.unravel_index(keys, [len(part.levels) for part in self.parts])
            texts = [[part.levels[i] for i in where] for part, where in zip(self.parts, places, strict=True)]
            self.levels = [":".join(names) for names in zip(*texts, strict=True)]

    def codes(self, columns: Columns) -> Int[np.ndarray, " n"]:
        """Return the index of the level in each row, -1 where it is missing or unknown."""
        codes = [part.codes(columns[name]) for part, name in zip(self.parts, self.columns, strict=True)]
        if len(codes) == 1:
            return codes[0].astype(np.int32)
        known = np.all([x >= 0 for x in codes], axis=0)
        sizes = [len(part.levels) for part in self.parts]
        keys = np.ravel_multi_index([np.where(known, x, 0) for x in codes], sizes)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(known & (self.keys[places] == keys), places, -1).astype(np.int32)


class FactorPass:
    """Counts the levels of a factor while rows are read."""

    def __init__(self, term: GroupTerm, table: Table) -> None:
        self._term = term
        self._counters = [LevelCounter(name, table.kinds[name]) for name in term.columns]
        self._counts: dict[tuple[int, ...], int] = {}
        self._tally = np.zeros(0, np.int64)

    def see(self, columns: Columns, rows: Rows) -> None:
        """Add rows."""
        codes = [counter.see(columns[counter.name], rows) for counter in self._counters]
        present = np.all([x >= 0 for x in codes], axis=0)
        if not present.any():
            return
        codes = [x[present] for x in codes]
        if len(codes) == 1:
            found = np.bincount(codes[0], minlength=len(self._tally))
            found[: len(self._tally)] += self._tally
            self._tally = found
            return
        sizes = [int(x.max()) + 1 for x in codes]
        keys, numbers = np.unique(np.ravel_multi_index(codes, sizes), return_counts=True)
        places = np.stack(np.unravel_index(keys, sizes), axis=1).tolist()
        for place, number in zip(places, numbers.tolist(), strict=True):
            key = tuple(place)
            self._counts[key] = self._counts.get(key, 0) + number

    def finish(self) -> tuple[Factor, Int64[np.ndarray, " L"]]:
        """Return the factor, and how many rows each level has. Raises if there is one level only."""
        found = [counter.finish() for counter in self._counters]
        parts, index = [levels for levels, _ in found], [places for _, places in found]
        if len(parts) == 1:
            counts = np.zeros(len(parts[0]), np.int64)
            counts[index[0]] = self._tally
            keys = np.arange(len(counts))
        else:
            places = np.array(list(self._counts), np.int64)
            sorted_places = [index[i][places[:, i]] for i in range(len(parts))]
            keys = np.ravel_multi_index(sorted_places, [len(levels) for levels in parts])
            order = np.argsort(keys)
            keys, counts = keys[order], np.array(list(self._counts.values()), np.int64)[order]
        if len(keys) < 2:
            only = ":".join(levels[0] for levels in parts)
            repair = f"All rows are of one group: leave `({self._term.terms} | {self._term.factor})` out."
            raise must(self._term.factor, "a factor with at least 2 levels", only, repair)
        return Factor(self._term.columns, parts, keys), counts


@dataclasses.dataclass(frozen=True, eq=False)
class GroupDesign:
    """The effects of groups: rows get `level_<name>`, -1 if it is not known, and `terms_<name>` unless they are 1.

    - `terms`: the names of the columns with coefficients of their own in each level, and `sd`, their standard
      deviations, or the distance between the two values of a column; 1 for the intercept.
    - `counts`: how many rows each level has.
    """

    name: str
    factor: Factor
    counts: Int64[np.ndarray, " L"]
    matrix: TermsMatrix
    sd: Float[np.ndarray, " Q"]
    correlated: bool

    @property
    def levels(self) -> list[str]:
        """The levels, in order."""
        return self.factor.levels

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.matrix.names

    @property
    def is_intercept(self) -> bool:
        """Whether the intercept is the only column."""
        return self.terms == (INTERCEPT,)

    def codes(self, columns: Columns) -> Int[np.ndarray, " n"]:
        """Return the index of the level in each row, -1 where it is missing or unknown."""
        return self.factor.codes(columns)

    def record(self) -> dict[str, Any]:
        """Return the effects as plain JSON values."""
        return {
            "name": self.name,
            "columns": list(self.factor.columns),
            "parts": [part.levels for part in self.factor.parts],
            "keys": self.factor.keys.tolist(),
            "counts": self.counts.tolist(),
            "matrix": self.matrix.record(),
            "sd": self.sd.tolist(),
            "correlated": self.correlated,
        }

    @staticmethod
    def from_record(record: dict[str, Any]) -> "GroupDesign":
        """Return the effects that `record` was made of."""
        factor = Factor(record["columns"], record["parts"], np.array(record["keys"], np.int64))
        return GroupDesign(
            record["name"],
            factor,
            np.array(record["counts"], np.int64),
            TermsMatrix.from_record(record["matrix"]),
            np.array(record["sd"], np.float64),
            record["correlated"],
        )


def group_names(terms: Sequence[GroupTerm]) -> list[str]:
    """Return a name for each term: its factor, with a number from the second term of a factor on."""
    taken = {term.factor for term in terms}
    names: list[str] = []
    for term in terms:
        name = term.factor
        if name in names:
            name = next(x for i in itertools.count(2) if (x := f"{term.factor}_{i}") not in taken)
        taken.add(name)
        names.append(name)
    return names
