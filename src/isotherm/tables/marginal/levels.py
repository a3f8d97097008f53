"""The effects of the levels of a group, sorted."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int64

from isotherm.draws import Draws
from isotherm.draws.to_pandas import pandas_for
from isotherm.errors import must
from isotherm.printed import Printed
from isotherm.tables.fitted import Fitted, fitted
from isotherm.tables.marginal.along import check_asked
from isotherm.tables.marginal.contrasts import Estimate, digits, estimate
from isotherm.tables.marginal.means import some_draws
from isotherm.tables.terms import GroupEffects

if TYPE_CHECKING:
    from pandas import DataFrame

_SHOWN = 10  # levels at each end of a printed table
_VALUES = 2**24  # that are summarised at once


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LevelEffects(Printed):
    """Effects of the levels of a group on the linear predictor, the lowest first; prints as a table.

    - `group`, `term`: what varies between the levels: the intercept, or the coefficient of a column.
    - `levels`, and for each of them `mean`, `sd`, `low`, `high` and `rows`, the number of rows at fitting.
    - `scale`: the standard deviation of the effects between levels.
    - `interval`: probability of the intervals.
    """

    group: str
    term: str
    levels: tuple[str, ...]
    mean: Float[np.ndarray, " level"]
    sd: Float[np.ndarray, " level"]
    low: Float[np.ndarray, " level"]
    high: Float[np.ndarray, " level"]
    rows: Int64[np.ndarray, " level"]
    scale: Estimate
    interval: float

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def clear(self) -> np.ndarray:
        """Which intervals exclude zero."""
        return (self.low > 0) | (self.high < 0)

    def extremes(self, count: int) -> Int64[np.ndarray, " k"]:
        """Return the indices of the lowest and the highest `count` levels, or of all if there are fewer."""
        if len(self) <= 2 * count:
            return np.arange(len(self))
        return np.concatenate([np.arange(count), np.arange(len(self) - count, len(self))])

    def to_pandas(self) -> "DataFrame":
        """Return a `DataFrame` with a row for each level."""
        frame = {self.group: np.array(self.levels, object), "term": self.term}
        frame |= {name: getattr(self, name) for name in ("mean", "sd", "low", "high", "rows")}
        return pandas_for("group_effects.to_pandas()").DataFrame(frame)

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        mean, between = self.scale.cells()
        yield f"{self.term} by {self.group}: {len(self):,} levels, sd between them {mean} ({between})"
        table = Table(box=None, header_style="bold")
        table.add_column(self.group, overflow="fold")
        for title in ("effect", f"{100 * self.interval:g} %", "rows"):
            table.add_column(title, justify="right", no_wrap=True)
        last = -1
        for i in self.extremes(_SHOWN):
            if i != last + 1:
                table.add_row("...", "", "", "")
            effect, low, high = digits(self.mean[i], self.low[i], self.high[i])
            table.add_row(self.levels[i], effect, f"{low} to {high}", f"{self.rows[i]:,}")
            last = i
        yield table
        yield f"{int(self.clear.sum()):,} of {len(self):,} intervals exclude zero"


def group_effects(
    draws: Draws, group: str, *, term: str | None = None, interval: float = 0.9
) -> LevelEffects:
    """Return the effects of the levels of a group, sorted, from the draws alone.

    An effect is on the scale of the linear predictor, such as log-odds, and relative to the average level. `group` is
    what a formula names after the bar, and `term` what varies between levels: the intercept by default, or a column.
    """
    model = fitted(draws)
    check_asked(interval, 0)
    effects = group_term(model, group)
    term = effects.terms[0] if term is None else term
    if term not in effects.terms:
        raise must("term", f"one of {', '.join(effects.terms)}", term)
    k, params = effects.terms.index(term), some_draws(draws)
    values, sd = params[effects.names[0]][..., k], params[effects.names[1]][:, k]
    mean, spread, low, high = summarised(values, interval)
    design = next(x for x in model.made_design.groups if x.name == group)
    order = np.argsort(mean, kind="stable")
    sorted_levels = tuple(design.levels[i] for i in order)
    counts = np.asarray(design.counts, np.int64)[order]
    mean, spread, low, high = (x[order] for x in (mean, spread, low, high))
    return LevelEffects(
        group, term, sorted_levels, mean, spread, low, high, counts, estimate(sd, interval), interval
    )


def group_term(model: Fitted, group: str) -> GroupEffects:
    """Return the effects of a group. Raises if the model has none of that name."""
    known = {term.name: term for term in model.terms if isinstance(term, GroupEffects)}
    if group not in known:
        rule = f"a group of the model: {', '.join(known)}" if known else "left out: the model has no groups"
        raise must("group", rule, group)
    return known[group]


def summarised(values: Float[np.ndarray, "draw n"], interval: float) -> tuple[np.ndarray, ...]:
    """Return mean, sd and the ends of the interval of each column, some columns at a time."""
    step = max(1, _VALUES // len(values))
    levels = ((1 - interval) / 2, (1 + interval) / 2)
    parts = []
    for begin in range(0, values.shape[1], step):
        block = np.asarray(values[:, begin : begin + step], np.float64)
        parts.append([block.mean(axis=0), block.std(axis=0, ddof=1), *np.quantile(block, levels, axis=0)])
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
