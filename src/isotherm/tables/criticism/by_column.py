"""Observed targets beside replicated ones, for each level of a column."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from isotherm.draws import Draws
from isotherm.draws.to_pandas import pandas_for
from isotherm.errors import must
from isotherm.judging.summary import fixed
from isotherm.printed import Printed
from isotherm.tables.fitted import Fitted, fitted
from isotherm.tables.marginal.along import check_asked
from isotherm.tables.marginal.contrasts import digits
from isotherm.tables.marginal.given import Source, encoded, needed, some_rows
from isotherm.tables.marginal.grid import known_levels
from isotherm.tables.marginal.means import some_draws
from isotherm.tables.replicated import blocks_of, replicated
from isotherm.tables.statistics import level_text

if TYPE_CHECKING:
    from pandas import DataFrame

_ROWS, _BINS, _MOST_VALUES, _SHOWN = 50_000, 10, 20, 20


@dataclasses.dataclass(frozen=True)
class LevelCheck:
    """A statistic of the target in the rows of a level: as observed, and its mean and interval in replicated data.

    `distance` is how far the observed value is from that mean, in standard deviations of replicated ones.
    """

    level: str
    statistic: str
    rows: int
    observed: float
    mean: float
    low: float
    high: float
    distance: float

    @property
    def holds(self) -> bool:
        """Whether the observed value is inside the interval."""
        return self.low <= self.observed <= self.high


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ColumnChecks(Printed):
    """Checks of each level of a column, the farthest off first; prints as a table.

    `interval` is the probability of the intervals: if the model is right, about that share of the checks hold.
    """

    column: str
    target: str
    checks: tuple[LevelCheck, ...]
    interval: float
    num_rows: int
    num_table_rows: int

    @property
    def outside(self) -> int:
        """The number of checks whose observed value is outside the interval."""
        return sum(not check.holds for check in self.checks)

    def to_pandas(self) -> "DataFrame":
        """Return a `DataFrame` with a row for each check."""
        rows = [dataclasses.asdict(check) | {"holds": check.holds} for check in self.checks]
        return pandas_for("checks.to_pandas()").DataFrame(rows).rename(columns={"level": self.column})

    def sentence(self) -> str:
        """Return how many checks fail, and how many would by chance."""
        expected = (1 - self.interval) * len(self.checks)
        percent = f"{100 * self.interval:g} %"
        by_chance = f"about {expected:.0f}" if expected >= 1 else "less than one"
        return (
            f"{self.outside:,} of {len(self.checks):,} lie outside {percent} of what the model makes up; by chance "
            f"{by_chance} would"
        )

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        some = "" if self.num_rows == self.num_table_rows else f" of {self.num_table_rows:,}"
        yield f"{self.target} by {self.column}, {self.num_rows:,}{some} rows: observed and replicated"
        table = Table(box=None, header_style="bold")
        table.add_column(self.column, overflow="fold")
        for title in ("statistic", "rows", "observed", "replicated", f"{100 * self.interval:g} %", "sd off"):
            table.add_column(title, justify="right", no_wrap=True)
        for x in self.checks[:_SHOWN]:
            mean, low, high = digits(x.mean, x.low, x.high)
            observed = fixed(x.observed, max((x.high - x.low) / 4, 1e-5 * abs(x.mean)))
            cells = (f"{x.rows:,}", observed, mean, f"{low} to {high}", f"{x.distance:+.1f}")
            table.add_row(x.level, x.statistic, *cells)
        yield table
        if len(self.checks) > _SHOWN:
            yield f"... and {len(self.checks) - _SHOWN:,} more, less far off"
        yield self.sentence()


def checks_by(
    draws: Draws,
    table: Source,
    column: str,
    *,
    interval: float = 0.9,
    rows: int | None = _ROWS,
    seed: int = 0,
) -> ColumnChecks:
    """Return the target of each level of a column beside targets that the model makes up for the same rows.

    The mean is compared, of counts the share of zeros, too, and of classes their shares. `column` is any column of
    the table: one that is not in the model shows whether the model should have it. Numbers with more than 20
    different values are cut into ten groups of equally many rows. At most `rows` rows are drawn at random.
    """
    model = fitted(draws)
    check_asked(interval, seed)
    further = [] if column in needed(model, with_target=True) else [column]
    given = some_rows(model, table, rows, seed, with_target=True, further=further)
    new = encoded(model, {name: given.columns[name] for name in needed(model, with_target=True)})
    if np.any(new.further.get("censored", 0)):
        repair = "Leave them out, or compare survival curves."
        raise must("table", "one without censored rows, whose targets are unknown", "censored rows", repair)
    assert new.y is not None
    levels, codes = _levels(model, given.columns[column], column)
    counts = np.bincount(codes, minlength=len(levels))
    rng, totals, statistics = np.random.default_rng(seed), {}, _statistics(model)
    for block in blocks_of(model, some_draws(draws), new):
        made, own = replicated(model, block, rng), codes[block.rows]
        for name, indicator in statistics.items():
            values = indicator(made).astype(np.float64)
            summed = np.stack([np.bincount(own, row, minlength=len(levels)) for row in values])
            totals[name] = totals.get(name, 0.0) + summed
    found = []
    for name, indicator in statistics.items():
        observed = np.bincount(codes, indicator(new.y).astype(np.float64), minlength=len(levels)) / counts
        found += _checks(name, levels, counts, observed, totals[name] / counts, interval)
    found.sort(key=lambda check: -abs(check.distance))
    return ColumnChecks(column, model.target, tuple(found), interval, len(given), given.num_table_rows)


def _checks(
    name: str,
    levels: list[str],
    counts: Int[np.ndarray, " L"],
    observed: Float[np.ndarray, " L"],
    made: Float[np.ndarray, "draw L"],
    interval: float,
) -> Iterator[LevelCheck]:
    mean, sd = made.mean(axis=0), made.std(axis=0, ddof=1)
    low, high = np.quantile(made, ((1 - interval) / 2, (1 + interval) / 2), axis=0)
    difference = observed - mean
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(difference == 0, 0.0, difference / sd)
    for i, level in enumerate(levels):
        values = (float(x[i]) for x in (observed, mean, low, high, distance))
        yield LevelCheck(level, name, int(counts[i]), *values)


def _statistics(model: Fitted) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Return what is averaged in each level, by name."""
    if model.family.has_classes:
        shown = list(enumerate(model.classes))[-1:] if model.family.is_binary else enumerate(model.classes)
        return {f"share of {name}": lambda y, i=i: y == i for i, name in shown}
    found: dict[str, Callable[[np.ndarray], np.ndarray]] = {"mean": lambda y: y}
    if model.family.target.is_whole:
        found["share of zeros"] = lambda y: y == 0
    return found


def _levels(model: Fitted, values: np.ndarray, column: str) -> tuple[list[str], Int[np.ndarray, " n"]]:
    """Return the names of the groups, and the group of each row."""
    import pandas as pd

    if values.ndim > 1:
        raise must("column", "a column with one value in a row", column)
    codes, distinct = pd.factorize(values, sort=True)
    is_number = values.dtype.kind in "iuf" and column not in known_levels(model)
    if not is_number or len(distinct) <= _MOST_VALUES:
        return [level_text(value) for value in distinct], codes
    edges = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)))
    codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    names = [f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(edges)]
    used = np.unique(codes)
    return [names[i] for i in used], np.searchsorted(used, codes)
