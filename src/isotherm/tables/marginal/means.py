"""Expected responses at every draw, averaged over rows."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from isotherm.draws import Draws
from isotherm.errors import must
from isotherm.prediction.blocks import chosen, in_a_row
from isotherm.tables.fitted import Fitted
from isotherm.tables.marginal.given import Given, encoded
from isotherm.tables.new_rows import NewRows
from isotherm.tables.replicated import blocks_of
from isotherm.tables.table import Columns

MOST_DRAWS = 1000  # evenly spaced: enough for the ends of intervals
_AT_ONCE = 200_000  # rows times sets that are in memory


class Averages(NamedTuple):
    """Expected responses of equally many rows in each of several sets, such as one for each value of a column.

    `draws` are means over the rows at each draw, and `rows` means over the draws of each row.
    """

    draws: Float[np.ndarray, "draw set ..."]
    rows: Float[np.ndarray, "set row ..."]


class Interval(NamedTuple):
    """A posterior mean and the ends of a central interval."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def some_draws(draws: Draws) -> dict[str, np.ndarray]:
    """Return the parameters at 1,000 evenly spaced draws at most, chains end to end."""
    kept = chosen(draws)
    total = kept.num_chains * kept.num_draws
    return in_a_row(chosen(kept, max(MOST_DRAWS, kept.num_chains)) if total > MOST_DRAWS else kept)


def averages(
    model: Fitted,
    params: Mapping[str, np.ndarray],
    given: Given,
    column: str,
    values: Shaped[np.ndarray, "set row"],
    of: str | None = None,
) -> Averages:
    """Return the means over rows and over draws of the given rows, once for each set of values of a column.

    They are of the expected responses, or of the parameter `of` that depends on the row. `values` may have one row,
    which stands for all.
    """
    sets, count = len(values), len(given)
    every = np.broadcast_to(values, (sets, count))
    step = max(1, _AT_ONCE // sets)
    parts = []
    for begin in range(0, count, step):
        which = slice(begin, begin + step)
        columns = {name: np.concatenate([x[which]] * sets) for name, x in given.columns.items()}
        parts.append(_of_part(model, params, columns | {column: every[:, which].ravel()}, sets, of))
    if len(parts) == 1:
        return parts[0]
    weights = [part.rows.shape[1] / count for part in parts]
    draws = sum(weight * part.draws for weight, part in zip(weights, parts, strict=True))
    return Averages(np.asarray(draws), np.concatenate([part.rows for part in parts], axis=1))


def _of_part(
    model: Fitted, params: Mapping[str, np.ndarray], columns: Columns, sets: int, of: str | None
) -> Averages:
    """Return what `averages` does for some rows; `columns` hold those of all sets, one set after the other."""
    rows = dataclasses.replace(encoded(model, columns), y=None)
    count = len(rows.x) // sets
    totals: np.ndarray | None = None
    of_rows: np.ndarray | None = None
    for which, values in _values(model, params, rows, of):
        if totals is None or of_rows is None:
            totals = np.zeros((len(values), sets, *values.shape[2:]))
            of_rows = np.empty((len(rows.x), *values.shape[2:]))
        if not np.isfinite(values).all():
            rule = "one whose rows have a finite expected response at every value of the column"
            raise must("table", rule, "infinite or undefined responses", "Name other values in `at`.")
        of_rows[which] = values.mean(axis=0, dtype=np.float64)
        for i in range(which.start // count, (which.stop - 1) // count + 1):
            begin, end = max(which.start, i * count), min(which.stop, (i + 1) * count)
            part = values[:, begin - which.start : end - which.start]
            totals[:, i] += part.sum(axis=1, dtype=np.float64)
    assert totals is not None
    assert of_rows is not None
    return Averages(totals / count, of_rows.reshape(sets, count, *of_rows.shape[1:]))


def _values(
    model: Fitted, params: Mapping[str, np.ndarray], rows: NewRows, of: str | None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of rows and their expected responses, (draw, row) or (draw, row, class), or a parameter."""
    for block in blocks_of(model, params, rows):
        yield block.rows, block.response if of is None else block.aux[of]


def interval_of(values: Float[np.ndarray, "draw ..."], probability: float) -> Interval:
    """Return mean and central interval over the first axis."""
    low, high = np.quantile(values, ((1 - probability) / 2, (1 + probability) / 2), axis=0)
    return Interval(np.asarray(values.mean(axis=0)), np.asarray(low), np.asarray(high))


def row_error(values: Float[np.ndarray, "set row ..."], share_left: float) -> Float[np.ndarray, "set ..."]:
    """Return the standard errors of means over the rows, as a sample of those of the table."""
    count = values.shape[1]
    if count < 2:
        return np.zeros((len(values), *values.shape[2:]))
    return values.std(axis=1, ddof=1) * np.sqrt(share_left / count)
