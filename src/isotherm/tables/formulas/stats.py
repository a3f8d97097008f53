"""Statistics of the columns of a matrix, added up while rows are read, and what makes a column unusable."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from isotherm.errors import must
from isotherm.tables.checks import Gaps, Rows
from isotherm.tables.design import check_near, constant
from isotherm.tables.statistics import Moments


@dataclasses.dataclass(frozen=True)
class Summary:
    """Mean, standard deviation and range of columns, and which of them hold two values."""

    mean: Float[np.ndarray, " F"]
    sd: Float[np.ndarray, " F"]
    low: Float[np.ndarray, " F"]
    high: Float[np.ndarray, " F"]
    binary: Bool[np.ndarray, " F"]

    @property
    def spread(self) -> Float[np.ndarray, " F"]:
        """The distance between two values, or else the standard deviation."""
        return np.where(self.binary, self.high - self.low, self.sd)

    def check(self, names: Sequence[str]) -> None:
        """Raise if a column does not vary, or is too far from zero."""
        for name, mean, sd, low in zip(names, self.mean, self.sd, self.low, strict=True):
            if not sd > 0 and ":" in name:
                repair = (
                    "All rows have this value, as where no row has both levels: leave the interaction out."
                )
                raise must(name, "a column that varies", float(low), repair)
            if not sd > 0:
                raise constant(name, float(low))
            check_near(name, float(mean), float(sd))


class ColumnStats:
    """Adds up the columns of a matrix, and notes rows whose values are not finite."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self._moments = tuple(names), Moments(len(names))
        self._gaps = [Gaps(name) for name in names]

    def see(self, matrix: Float[np.ndarray, "n F"], rows: Rows) -> None:
        """Add rows, which may be none."""
        if not self.names or not len(rows):
            return
        with np.errstate(all="ignore"):
            finite = np.isfinite(matrix.sum()) or np.isfinite(matrix).all()
        for j, gaps in enumerate(self._gaps):
            bad = np.zeros(len(rows), bool) if finite else ~np.isfinite(matrix[:, j])
            gaps.see(bad, rows, lambda i, x=matrix[:, j]: "infinite" if np.isinf(x[i]) else "not a number")
        self._moments.see(matrix)

    def check(self) -> None:
        """Raise if a value is not finite."""
        for gaps in self._gaps:
            if gaps.count:
                repair = "Logarithms need positive numbers, roots numbers from 0, and divisors must not be 0."
                raise ValueError(gaps.sentence(repair))

    def summary(self) -> Summary:
        """Return the statistics of the rows so far."""
        m = self._moments
        return Summary(m.mean, m.sd, m.low, m.high, m.binary)


def indicators(counts: Int[np.ndarray, " L"]) -> Summary:
    """Return the statistics of the columns that are 1 in the rows of a level, and 0 in others."""
    share = counts / counts.sum()
    ones = np.ones(len(counts))
    return Summary(share, np.sqrt(share * (1 - share)), 0 * ones, ones, np.ones(len(counts), bool))


def joined_summaries(parts: Sequence[Summary]) -> Summary:
    """Return the statistics of all columns."""
    empty = [np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, bool)]
    fields = [field.name for field in dataclasses.fields(Summary)]
    return Summary(
        *(
            np.concatenate([start, *(getattr(part, name) for part in parts)])
            for name, start in zip(fields, empty, strict=True)
        )
    )
