"""Predictions along a column of a regression, with the other columns averaged over or fixed."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from isotherm.draws import Draws
from isotherm.draws.to_pandas import pandas_for
from isotherm.errors import check_count, must
from isotherm.printed import Printed
from isotherm.tables.fitted import fitted
from isotherm.tables.marginal.contrasts import (
    Contrast,
    Pairs,
    contrast_table,
    contrasts_of,
    digits,
    pairs_of,
)
from isotherm.tables.marginal.given import Given, Source, some_rows
from isotherm.tables.marginal.grid import as_column, values_along
from isotherm.tables.marginal.means import averages, interval_of, row_error, some_draws
from isotherm.tables.marginal.typical import typical_row
from isotherm.tables.marginal.words import has_ratios, response_words

if TYPE_CHECKING:
    from pandas import DataFrame

ROWS = 2000
_MOST = 100_000  # rows times values of the column, unless the rows are given
_FEWEST = 200
_NEGLIGIBLE = 0.1  # of half an interval: an error by the choice of rows that is not named
OTHERS = ("average", "typical")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Effects(Printed):
    """Expected responses along a column, with intervals; prints as a table.

    - `column`: along which, and `response`, what is predicted of the `target`, in words. `of`: the parameter that
      this is; `None` for the expected response.
    - `values`: of the column, numbers or levels.
    - `classes`: of a target with an axis of classes, which is then the last one of the arrays; none otherwise.
    - `mean`, `low`, `high`: posterior mean and central interval of the probability `interval`, (value,) or
      (value, class).
    - `samples`: at each draw, (draw, value) or (draw, value, class).
    - `others`: "average" if it is the average over rows, "typical" if the other columns are at typical values.
    - `num_rows`, `num_table_rows`: the rows that were averaged over, and those of the table; `left_out`, rows with
      a missing value or an unknown level.
    - `row_error`: the standard error of `mean` as an average over all rows of the table, from the choice of rows.
    - `contrasts`: of pairs of values, as asked for by `compare`.
    """

    column: str
    target: str
    of: str | None
    response: str
    values: tuple[Any, ...]
    classes: tuple[str, ...]
    mean: Float[np.ndarray, "value ..."]
    low: Float[np.ndarray, "value ..."]
    high: Float[np.ndarray, "value ..."]
    interval: float
    samples: Float[np.ndarray, "draw value ..."]
    others: str
    num_rows: int
    num_table_rows: int
    left_out: int
    row_error: Float[np.ndarray, "value ..."]
    contrasts: tuple[Contrast, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        return not isinstance(self.values[0], str)

    def to_pandas(self) -> "DataFrame":
        """Return a `DataFrame` with a row for each value and class."""
        frame = {
            self.column: np.repeat(np.array(self.values, None if self.is_number else object), self._each)
        }
        if self.classes:
            frame["class"] = np.tile(np.array(self.classes, object), len(self.values))
        for name in ("mean", "low", "high"):
            frame[name] = getattr(self, name).ravel()
        return pandas_for("effects.to_pandas()").DataFrame(frame)

    @property
    def _each(self) -> int:
        return max(1, len(self.classes))

    def _parts(self) -> Iterator[Any]:
        yield f"{self.response} along {self.column}: {self.how}"
        yield self._table()
        if self.contrasts:
            yield contrast_table(self.contrasts, self.interval)
        half = (self.high - self.low) / 2
        if np.any(self.row_error > _NEGLIGIBLE * half):
            worst = float(np.max(self.row_error))
            yield (
                f"the choice of rows adds an error of up to ± {worst:.2g}, which the intervals do not include: "
                "take more by rows=..., or all by rows=None"
            )

    @property
    def how(self) -> str:
        """How the other columns are dealt with."""
        if self.others == "typical":
            return "the other columns at typical values"
        is_all = self.num_rows == self.num_table_rows
        return f"averaged over {'all ' if is_all else f'{self.num_rows:,} of '}{self.num_table_rows:,} rows"

    def _table(self) -> Any:
        from isotherm.terminal import Table

        table = Table(box=None, header_style="bold")
        table.add_column(self.column, overflow="fold", justify="right" if self.is_number else "left")
        if self.classes:
            table.add_column(self.target, overflow="fold")
        percent = f"{100 * self.interval:g} %"
        for title in ("mean", f"{percent} from", "to"):
            table.add_column(title, justify="right", no_wrap=True)
        shape = (len(self.values), self._each)
        mean, low, high = (x.reshape(shape) for x in (self.mean, self.low, self.high))
        for i, value in enumerate(self.values):
            text = value if isinstance(value, str) else f"{value:.5g}"
            for k in range(self._each):
                names = [self.classes[k]] if self.classes else []
                table.add_row(text, *names, *digits(mean[i, k], low[i, k], high[i, k]))
        return table


def effects(
    draws: Draws,
    table: Source,
    column: str,
    *,
    at: Sequence[Any] | None = None,
    others: str = "average",
    compare: Pairs | None = None,
    of: str | None = None,
    interval: float = 0.9,
    rows: int | None = ROWS,
    seed: int = 0,
) -> Effects:
    """Return what the regression behind `draws` predicts along a column, with the other columns averaged over.

    For each value of the column, all rows get this value, and their expected responses are averaged at every draw.
    It is the effect of the column only if nothing else explains it.

    **Arguments:**

    - `table`: a path, columns or a data frame with rows of the columns of the model: those that it was fitted to, or
      others. Rows with a missing value or an unknown level are left out.
    - `at`: the values of the column. By default, of numbers, 20 between the quantiles of 1 % and 99 %, or all if
      there are fewer; of categories, all levels.
    - `others`: `"average"` averages over rows. `"typical"` takes the means of the other columns, of categories the
      most frequent levels, and effects of groups of zero.
    - `compare`: two values, `("a", "b")`, or a list of such pairs: the difference of the second to the first, and
      the ratio if responses are positive.
    - `of`: a parameter with a formula of its own, such as "sigma", that is averaged in place of the response.
    - `interval`: probability of the central intervals.
    - `rows`: how many rows are drawn at random; `None` takes all. What the choice of rows adds to the error is
      returned as `row_error`.
    - `seed`: of the choice of rows.
    """
    model = fitted(draws)
    check_asked(interval, seed, others)
    if of is not None and of not in model.predictors:
        known = ", ".join(model.predictors) or "none"
        raise must("of", "a parameter that has a formula of its own", of, f"These are: {known}.")
    given = some_rows(model, table, rows, seed)
    pairs = pairs_of(compare)
    values = values_along(model, given, column, at)
    if pairs and at is None:
        values = values_along(model, given, column, list(dict.fromkeys(x for pair in pairs for x in pair)))
    given = fewer(given, len(values)) if rows == ROWS else given
    typical = given if others == "average" else typical_row(model, given)
    placed = as_column(model, column, values)
    found = averages(model, some_draws(draws), typical, column, placed, of)
    over = interval_of(found.draws, interval)
    made = Effects(
        column,
        model.target,
        of,
        response_words(model) if of is None else f"{of} of {model.target}",
        values,
        model.classes if model.family.has_probabilities and of is None else (),
        *over,
        interval,
        found.draws,
        others,
        len(given),
        given.num_table_rows,
        given.left_out,
        row_error(found.rows, given.share_left),
    )
    if not pairs:
        return made
    chosen = [values_along(model, given, column, list(pair)) for pair in pairs]
    contrasts = contrasts_of(
        chosen, values, made.classes, found, given.share_left, interval, has_ratios(model)
    )
    return dataclasses.replace(made, contrasts=tuple(contrasts))


def check_asked(interval: float, seed: int, others: str = "average") -> None:
    """Refuse a probability, a seed or a name that cannot be used."""
    if isinstance(interval, bool) or not isinstance(interval, int | float) or not 0 < interval < 1:
        raise must("interval", "a probability between 0 and 1", interval)
    check_count("seed", seed, minimum=0)
    if others not in OTHERS:
        raise must("others", '"average" or "typical"', others)


def fewer(given: Given, values: int) -> Given:
    """Return evenly spaced rows, so few that rows times values stay in bounds."""
    count = max(_FEWEST, _MOST // values)
    if count >= len(given):
        return given
    index = np.linspace(0, len(given) - 1, count).round().astype(int)
    return dataclasses.replace(
        given, columns={name: x[index] for name, x in given.columns.items()}, numbers=given.numbers[index]
    )
