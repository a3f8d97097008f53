"""Average marginal effects: how fast expected responses change along columns of numbers."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.draws import Draws
from isotherm.draws.to_pandas import pandas_for
from isotherm.errors import must
from isotherm.printed import Printed
from isotherm.tables.fitted import Fitted, fitted
from isotherm.tables.marginal.along import ROWS, check_asked
from isotherm.tables.marginal.contrasts import Estimate, estimate
from isotherm.tables.marginal.given import Given, Source, some_rows
from isotherm.tables.marginal.grid import check_along, known_levels, numbers_of
from isotherm.tables.marginal.means import averages, row_error, some_draws
from isotherm.tables.marginal.words import response_words

if TYPE_CHECKING:
    from pandas import DataFrame

_STEP = 0.003  # sd of the column: small beside what bends a response, large beside the rounding of columns


@dataclasses.dataclass(frozen=True)
class Slope:
    """The change of the expected response per unit of a column, averaged over rows.

    `of` is the class whose probability changes, if there are several. `row_error` is the standard error from the
    choice of rows.
    """

    column: str
    per_unit: Estimate
    column_sd: float
    row_error: float
    of: str = ""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Slopes(Printed):
    """Average marginal effects of columns of numbers; prints as a table.

    - `response`: whose change it is, in words.
    - `slopes`: one for each column and, if the target has several, class.
    - `samples`: at each draw, by column: (draw,) or (draw, class).
    - `interval`: the probability of the intervals. `num_rows`, `num_table_rows`: as of `Effects`.
    """

    response: str
    slopes: tuple[Slope, ...]
    samples: Mapping[str, np.ndarray]
    interval: float
    num_rows: int
    num_table_rows: int

    def to_pandas(self) -> "DataFrame":
        """Return a `DataFrame` with a row for each column and class."""
        rows = [
            {"column": x.column, "class": x.of, **dataclasses.asdict(x.per_unit), "column_sd": x.column_sd}
            for x in self.slopes
        ]
        frame = pandas_for("slopes.to_pandas()").DataFrame(rows)
        return frame if any(x.of for x in self.slopes) else frame.drop(columns="class")

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        some = "" if self.num_rows == self.num_table_rows else f" of {self.num_table_rows:,}"
        yield f"change of the {self.response} per unit of a column, averaged over {self.num_rows:,}{some} rows"
        table = Table(box=None, header_style="bold")
        table.add_column("column", overflow="fold")
        for title in ("per unit", f"{100 * self.interval:g} %", "sd of the column"):
            table.add_column(title, justify="right", no_wrap=True)
        for x in self.slopes:
            name = f"{x.of}: {x.column}" if x.of else x.column
            table.add_row(name, *x.per_unit.cells(), f"{x.column_sd:.3g}")
        yield table


def slopes(
    draws: Draws,
    table: Source,
    columns: str | Sequence[str] | None = None,
    *,
    interval: float = 0.9,
    rows: int | None = ROWS,
    seed: int = 0,
) -> Slopes:
    """Return by how much expected responses change per unit of each column of numbers, averaged over rows.

    It is the mean over rows of the derivative of the expected response with respect to the column: the average
    marginal effect. The arguments are as for `effects`; `columns` is by default all columns of numbers.
    """
    model = fitted(draws)
    check_asked(interval, seed)
    given, params = some_rows(model, table, rows, seed), some_draws(draws)
    params = {name: np.asarray(x, np.float64) for name, x in params.items()}
    names = [columns] if isinstance(columns, str) else columns
    names = number_columns(model, given) if names is None else list(names)
    if not names:
        raise must("columns", "names of columns of numbers", columns, "The model has none.")
    found, samples = [], {}
    for name in names:
        change, of_rows, sd = _slope(model, given, params, name)
        samples[name] = change
        errors = np.atleast_1d(row_error(of_rows[None], given.share_left)[0])
        classes = model.classes if change.ndim == 2 else ("",)
        for k, of in enumerate(classes):
            values = change[:, k] if change.ndim == 2 else change
            found.append(Slope(name, estimate(values, interval), sd, float(errors[k]), of))
    return Slopes(response_words(model), tuple(found), samples, interval, len(given), given.num_table_rows)


def number_columns(model: Fitted, given: Given) -> list[str]:
    """Return the columns of the model that hold one number in a row."""
    levels, special = known_levels(model), model.special(with_target=False).values()
    return [name for name, x in given.columns.items() if name not in {*levels, *special} and x.ndim == 1]


def _slope(
    model: Fitted, given: Given, params: Mapping[str, np.ndarray], name: str
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the slope at each draw, the mean over draws of that of each row, and the sd of the column."""
    check_along(model, given, name)
    if name in known_levels(model):
        raise must(
            "columns", "columns of numbers", name, f"Compare its levels: effects(..., {name!r}, compare=...)."
        )
    x = numbers_of(given, name)
    sd, low, high = float(x.std()), float(x.min()), float(x.max())
    if sd == 0:
        raise must("columns", "columns that vary between rows", name)
    step = _STEP * sd
    # Both ends stay within the column, beyond which an expression such as log(x) may not be defined.
    below = np.clip(x - step, low, max(high - 2 * step, low))
    found = averages(model, params, given, name, np.stack([below, below + 2 * step]))
    change = lambda pair: (pair[1] - pair[0]) / (2 * step)
    return change(np.moveaxis(found.draws, 1, 0)), change(found.rows), sd
