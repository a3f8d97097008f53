"""Regressions on the columns of a table: the models that the command line knows by name.

Coefficients are per unit of their column and carry its name.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from isotherm.data.sources.base import row_bytes
from isotherm.errors import must
from isotherm.tables.asked import Asked, check_arguments
from isotherm.tables.assembled import Regression, assembled
from isotherm.tables.design import Design
from isotherm.tables.encoded import EncodedSource
from isotherm.tables.families.base import Family
from isotherm.tables.families.prior import Prior
from isotherm.tables.families.registry import family_of
from isotherm.tables.formulas.computed import ComputedTable
from isotherm.tables.frames import columns_of
from isotherm.tables.reader import available_bytes, open_table
from isotherm.tables.reading import ReadTable, read_table_as
from isotherm.tables.response import ResponsePass
from isotherm.tables.separation import warn_if_separated
from isotherm.tables.survey import chunk_length, survey
from isotherm.tables.table import MemoryTable, Table

_SHARE = 0.25  # of the memory that is available: rows that take less are loaded if steps take all of them


def regression(
    model: str | Family | Sequence[str],
    columns: Any,
    target: str | None = None,
    features: Sequence[str] | None = None,
    *,
    family: str | Family | None = None,
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: str = "refuse",
    numbers: Sequence[str] = (),
    decimal: str = ".",
    missing_values: Sequence[str] = (),
    dates: Mapping[str, str] | None = None,
    positive: str | int | float | None = None,
    exposure: str | None = None,
    offset: str | None = None,
    weights: str | None = None,
    trials: str | None = None,
    censored: str | None = None,
    order: Sequence[str | int | float] = (),
    quantile: int | float | None = None,
    standardize: bool = True,
    prior: Prior | None = None,
    progress: bool = True,
) -> Regression:
    """Return a regression: of a formula, or of `target` on `features`, by default all columns not in `exclude`.

    **Arguments:**

    - `model`: a formula such as `"claims ~ sex * km + s(age) + offset(log(years)) + (1 + km | region)"`, or the name
      of a family. A list holds further formulas for parameters that depend on the row: `["y ~ x", "sigma ~ x"]`.
    - `family`: of a formula: one of `isotherm.tables.families.MODELS`, the name of a family in an installed package,
      or a `Family`; `"linear"` by default. `"logistic"` takes a target of two values and models the probability of
      the second, or of `positive`; `"softmax"` compares each class with the first; models of counts have a log link.
    - `columns`: arrays of equal length by name, a data frame, or the path of a table. Rows in Parquet files, folders
      and object stores, and in large `.npy` files, are not loaded: they are read once here, and again in each pass
      over them. Text columns, and those in `categorical`, become one column per level, compared with the first level.
    - `missing`: what to do with rows that have no value in a column that is used. `"refuse"` raises an error,
      `"drop"` leaves them out.
    - `numbers`: columns of text such as $1,234 or 12 kg that are read as numbers, and `decimal`, the mark in them.
    - `missing_values`: texts that stand for a missing value, such as `["?"]`.
    - `dates`: the form of the dates in columns of text, such as `{"day": "%d/%m/%Y"}`. Dates become days since the
      first of January of the year of the first date. Columns of dates such as 2024-03-01 need not be named.
    - `exposure`: a column that multiplies the rate of a count, such as person-years.
    - `offset`: a column added to the linear predictor.
    - `weights`: a column that multiplies the log-likelihood of its row.
    - `trials`: a column of the numbers of trials, of which a `"binomial"` target counts the successes.
    - `censored`: a column that is 1, or true, where a time (`"exponential"`, `"weibull"`) is the last at which the
      event had not happened yet, and 0 where the event happened then.
    - `order`: the classes of an `"ordinal"` target from the lowest. Numbers are in order without it.
    - `quantile`: of a `"quantile"` regression, between 0 and 1; the median by default.
    - `standardize`: whether the priors are on standardised columns or on the columns as given.
    - `progress`: show how fast a file is read, on a terminal or in a notebook.
    """
    given = {
        "exposure": exposure,
        "offset": offset,
        "weights": weights,
        "trials": trials,
        "censored": censored,
    }
    special = {role: name for role, name in given.items() if name is not None}
    asked = Asked.of(model, family, target, features, exclude, special)
    prior = Prior() if prior is None else prior
    settings = {} if quantile is None else {"quantile": quantile}
    law = family_of(asked.family, {"degrees_of_freedom": prior.degrees_of_freedom, **settings})
    prior.check(law)
    asked = asked.with_offset(law)
    if missing not in ("refuse", "drop"):
        raise must("missing", '"refuse" or "drop"', missing)
    others = {"positive": positive, "order": list(order) or None, **settings}
    check_arguments(law, {**asked.special, **{name: x for name, x in others.items() if x is not None}})
    asked.check_predictors(law)
    table = _table(columns)
    asked = asked.with_columns(table)
    table = asked.computed(table)
    used, factors = asked.columns(table, categorical), asked.factors
    table, reading = read_table_as(
        table,
        [name for name in used if name not in factors],
        categorical=categorical,
        numbers=numbers,
        decimal=decimal,
        missing_values=missing_values,
        dates={} if dates is None else dates,
    )
    design, predictors = asked.passes(table, used, categorical)
    source = survey(
        table,
        design,
        ResponsePass(law, table, asked.target, asked.special, positive, order),
        predictors=predictors,
        missing=missing,
        standardize=standardize,
        progress=progress,
        stacklevel=2,
    )
    if law.is_binary:
        length, made_design = chunk_length(table, source.encoder.names), source.encoder.design
        warn_if_separated(
            lambda: source.blocks(length),
            asked.target,
            made_design.names,
            has_intercept=made_design.has_intercept,
            stacklevel=2,
        )
    made = assembled(source, law, prior, standardize=standardize, in_memory=_is_loaded(source, table))
    description = {"standardize": standardize} | (
        {} if reading.is_plain else {"reading": dataclasses.asdict(reading)}
    )
    return dataclasses.replace(made, description=made.description | asked.description | description)


def _table(columns: Any) -> Table:
    if isinstance(columns, Table):
        return columns
    if isinstance(columns, str | os.PathLike):
        return open_table(columns)
    return MemoryTable(columns_of(columns))


def _is_loaded(source: EncodedSource, table: Table) -> bool:
    """Return whether rows are encoded in memory: if the table is there, or if steps take all rows and they fit."""
    while isinstance(table, ReadTable | ComputedTable):
        table = table.table
    if isinstance(table, MemoryTable):
        return True
    design, available = source.encoder.design, available_bytes()
    grouped = not isinstance(design, Design) and bool(design.groups or design.smooths)
    return grouped and (available is None or source.num_rows * row_bytes(source.row) < _SHARE * available)
