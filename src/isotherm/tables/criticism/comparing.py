"""Which of two regressions predicts better, row by row."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from isotherm.draws import Draws
from isotherm.errors import must
from isotherm.printed import Printed
from isotherm.tables.criticism.leave_one_out import ROWS, Loo, by_choice, loo, short, total
from isotherm.tables.fitted import Fitted, fitted
from isotherm.tables.marginal.given import Source

_FEW = 4.0  # differences of elpd within which models predict alike, as a rule of thumb


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Comparison(Printed):
    """The difference in elpd of the first and the second run: positive if the first predicts better.

    `standard_error` is from the spread of the differences between rows, and `subsampling_error` from the choice of
    rows. `first` and `second` are the values of each run.
    """

    difference: float
    standard_error: float
    subsampling_error: float
    first: Loo
    second: Loo

    @property
    def error(self) -> float:
        """Both errors together."""
        return float(np.hypot(self.standard_error, self.subsampling_error))

    def sentence(self) -> str:
        """Return which one predicts better, if the rows tell."""
        if not abs(self.difference) > max(_FEW, 2 * self.error):
            return "The rows do not tell which of the two predicts better."
        return f"The {'first' if self.difference > 0 else 'second'} predicts better."

    def _parts(self) -> Iterator[Any]:
        for name, x in (("first", self.first), ("second", self.second)):
            bad = f"; Pareto k above 0.7 in {x.num_bad:,} rows" if x.num_bad else ""
            yield f"{name}: {x.words()}{bad}"
        more = by_choice(self.subsampling_error)
        yield f"difference: {self.difference:,.1f} ± {short(self.standard_error)}{more}. {self.sentence()}"


def compare(
    first: Draws, second: Draws, table: Source, *, rows: int | None = ROWS, seed: int = 0
) -> Comparison:
    """Return how much better the first run predicts rows that it has not seen than the second, by PSIS-LOO.

    Differences are taken row by row, since rows that are hard to predict are hard for both. `table` has the rows
    that both were fitted to; the other arguments are as for `iso.tables.loo`. For rows that neither has seen, compare
    `iso.tables.forecast(...).log_likelihood.rows` instead.
    """
    one, other = fitted(first), fitted(second)
    _check_alike(one, other)
    a, b = (loo(draws, table, rows=rows, seed=seed) for draws in (first, second))
    if not np.array_equal(a.pointwise.numbers, b.pointwise.numbers):
        rule = "one whose rows both runs can use"
        repair = "Leave out rows with a value that is missing in a column of either."
        raise must(
            "table", rule, f"{a.num_rows:,} rows for the first and {b.num_rows:,} for the second", repair
        )
    cheap = a.pointwise.plug_in - b.pointwise.plug_in
    found = total(cheap, a.pointwise.elpd - b.pointwise.elpd, a.pointwise.chosen)
    return Comparison(*found, a, b)


def _check_alike(one: Fitted, other: Fitted) -> None:
    """Refuse models whose densities are not of the same thing."""
    if one.target != other.target:
        raise must("second", f"of a regression of `{one.target}`, as the first is", other.target)
    kind = lambda model: (model.family.has_classes, model.family.target.is_whole, sorted(model.classes))
    if kind(one) != kind(other):
        rule = "a model of the same kind of target: numbers, counts or the same classes"
        raise must(
            "second", rule, f"{other.family.name} beside {one.family.name}", "Their densities differ in kind."
        )
