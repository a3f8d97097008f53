"""Some rows of a table, as the columns of a regression, from which predictions along a column start."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from isotherm.errors import check_count, must
from isotherm.tables.checks import check_column, is_missing
from isotherm.tables.fitted import Fitted
from isotherm.tables.frames import columns_of
from isotherm.tables.new_formula import computed, new_table
from isotherm.tables.new_rows import NewRows
from isotherm.tables.reader import is_csv, open_table
from isotherm.tables.reading import ReadTable
from isotherm.tables.survey import chunk_length
from isotherm.tables.table import Columns, MemoryTable, Table

Source = Mapping[str, np.ndarray] | Table | str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """Rows of a table without missing values and unknown levels.

    - `columns`: the columns that the model needs, and the target if `with_target`.
    - `numbers`: the numbers of the rows in the table, of `num_table_rows`.
    - `left_out`: how many of the rows that were looked at have a missing value or an unknown level.
    """

    columns: Columns
    numbers: Int64[np.ndarray, " n"]
    num_table_rows: int
    left_out: int

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def share_left(self) -> float:
        """The share of the table that is not among the rows, by which the variance of a mean over rows shrinks."""
        return 1 - len(self) / max(self.num_table_rows, 1)


def open_source(model: Fitted, source: Any) -> Table:
    """Return the table as the model reads it: text as numbers, and expressions as columns."""
    table = _table(model, source)
    table = table if model.reading.is_plain else ReadTable(table, model.reading)
    return computed(table, model)


def some_rows(
    model: Fitted,
    source: Any,
    count: int | None,
    seed: int,
    *,
    with_target: bool = False,
    further: Sequence[str] = (),
) -> Given:
    """Return at most `count` rows drawn at random, in order, or all. Raises if a value cannot be used.

    `further` names columns that are taken beside those of the model.
    """
    table = open_source(model, source)
    N = table.num_rows
    if count is not None:
        check_count("rows", count, minimum=1)
    if count is None or count >= N:
        index = np.arange(N)
    else:
        index = np.sort(np.random.default_rng([seed, N]).choice(N, count, replace=False))
    names = checked_names(model, table, with_target=with_target, further=further)
    columns = {name: np.asarray(x) for name, x in table.take(names, index).items()}
    kept, complete = usable(model, columns, with_target=with_target, further=further)
    if not complete.any():
        raise no_rows(len(index))
    return Given(kept, index[complete], N, int((~complete).sum()))


def all_rows(model: Fitted, source: Any, *, with_target: bool) -> Iterator[tuple[Columns, np.ndarray]]:
    """Yield the rows of a table that can be used, some at a time, and their numbers."""
    table = open_source(model, source)
    names = checked_names(model, table, with_target=with_target)
    for index, columns in table.chunks(names, chunk_length(table, names)):
        kept, complete = usable(model, columns, with_target=with_target)
        if complete.any():
            yield kept, index[complete]


def rows_at(model: Fitted, source: Any, index: np.ndarray, *, with_target: bool) -> Columns:
    """Return the columns of the rows with these numbers, which can be used."""
    table = open_source(model, source)
    return table.take(checked_names(model, table, with_target=with_target), index)


def no_rows(count: int) -> Exception:
    """Return the error for a table of which no row can be used."""
    rule = "one with a row without missing values whose levels the model knows"
    return must("table", rule, f"{count:,} rows without one")


def checked_names(
    model: Fitted, table: Table, *, with_target: bool, further: Sequence[str] = ()
) -> list[str]:
    """Return the columns to read. Raises if the table lacks one."""
    if not needed(model, with_target=False):
        raise must("draws", "of a regression with a column or a group", model.formula[0])
    names = list(dict.fromkeys([*needed(model, with_target=with_target), *further]))
    for name in names:
        check_column("column" if name in further else "table", name, table.kinds)
    return names


def usable(
    model: Fitted, columns: Columns, *, with_target: bool, further: Sequence[str] = ()
) -> tuple[Columns, Bool[np.ndarray, " n"]]:
    """Return rows without missing values and unknown levels, and which these are. Raises for bad values."""
    index = np.arange(len(next(iter(columns.values()))))
    own = {name: columns[name] for name in needed(model, with_target=with_target)}
    reader = new_table(model, MemoryTable(own), missing="empty", unseen="missing")
    reader.see(own, index)
    reader.finish()
    rows = reader.rows(own, index)
    complete = rows.complete.copy()
    if with_target:
        complete[complete] = False if rows.y is None else ~np.isnan(rows.y)
    for name in further:
        complete &= ~is_missing(columns[name])
    return {name: x[complete] for name, x in columns.items()}, complete


def needed(model: Fitted, *, with_target: bool) -> list[str]:
    """Return the columns of a table that a model takes."""
    designs = [model.made_design, *model.designs.values()] if model.formula else []
    features = [name for design in designs for name in design.features] or model.features
    target = [model.target] if with_target else []
    return list(dict.fromkeys([*features, *model.special(with_target=with_target).values(), *target]))


def encoded(model: Fitted, columns: Columns) -> NewRows:
    """Return rows as the model takes them. Levels of groups that it does not know have an effect of zero."""
    table = MemoryTable(columns)
    reader = new_table(model, table, missing="refuse", unseen="mean")
    index = np.arange(table.num_rows)
    reader.see(columns, index)
    reader.finish()
    return reader.rows({name: columns[name] for name in reader.names}, index)


def _table(model: Fitted, source: Any) -> Table:
    if isinstance(source, Table):
        return source
    if isinstance(source, str | os.PathLike):
        path = str(source)
        return open_table(path if "://" in path else Path(path), model.csv if is_csv(path) else None)
    return MemoryTable(columns_of(source))
