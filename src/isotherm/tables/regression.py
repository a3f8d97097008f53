"""Regressions on the columns of a table: the models that the command line knows by name.

Coefficients are per unit of their column and carry its name.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from isotherm.errors import must
from isotherm.posterior import Posterior
from isotherm.readable import Readable
from isotherm.tables.checks import check_column
from isotherm.tables.encoded import EncodedSource
from isotherm.tables.families import COUNTS, MODELS, SCALES, Likelihood, LogPrior, Params, Prior
from isotherm.tables.reader import open_table
from isotherm.tables.reading import ReadTable, read_table_as
from isotherm.tables.standardized import Standardized
from isotherm.tables.survey import survey
from isotherm.tables.table import MemoryTable, Table
from isotherm.transforms import Positive

_OWN = "In a spec, `function` in place of `model` names a function that returns a model of your own."


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Regression(Readable):
    """A regression, which unpacks into a posterior, its data and a starting point.

    `data` are arrays if the columns are in memory, and a source of encoded rows if they are in a file.
    `labels` names the elements of a parameter along each axis: the columns, preceded by the classes for a softmax.
    `description` describes the model in words.
    """

    posterior: Posterior
    data: dict[str, np.ndarray] | EncodedSource
    init: Params
    labels: dict[str, list[list[str]]]
    description: dict[str, Any]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.posterior, self.data, self.init))


def regression(
    model: str,
    columns: Mapping[str, np.ndarray] | Table | str | os.PathLike[str],
    target: str,
    features: Sequence[str] | None = None,
    *,
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
    standardize: bool = True,
    prior: Prior | None = None,
    progress: bool = True,
) -> Regression:
    """Return the regression of `target` on `features`, or on all other columns except those in `exclude`.

    **Arguments:**

    - `model`: one of `MODELS`. `"logistic"` takes a target of two values and models the probability of the second,
      or of `positive`; `"softmax"` compares each class with the first; models of counts have a log link.
    - `columns`: arrays of equal length by name, or the path of a table. Rows in Parquet files, folders and object
      stores, and in large `.npy` files, are not loaded: they are read once here, and again in each pass over them.
      Text columns, and those in `categorical`, become one column per level, compared with the first level.
    - `missing`: what to do with rows that have no value in a column that is used. `"refuse"` raises an error,
      `"drop"` leaves them out.
    - `numbers`: columns of text such as $1,234 or 12 kg that are read as numbers, and `decimal`, the mark in them.
    - `missing_values`: texts that stand for a missing value, such as `["?"]`.
    - `dates`: the form of the dates in columns of text, such as `{"day": "%d/%m/%Y"}`. Dates become days since the
      first of January of the year of the first date. Columns of dates such as 2024-03-01 need not be named.
    - `exposure`: a column that multiplies the rate of a count, such as person-years.
    - `offset`: a column added to the linear predictor.
    - `weights`: a column that multiplies the log-likelihood of its row.
    - `standardize`: whether the priors are on standardised columns or on the columns as given.
    - `progress`: show how fast a file is read, on a terminal or in a notebook.
    """
    prior = Prior() if prior is None else prior
    if model not in MODELS:
        raise must("model", f"one of {', '.join(MODELS)}", model, _OWN)
    if missing not in ("refuse", "drop"):
        raise must("missing", '"refuse" or "drop"', missing)
    _check(model, positive=positive, exposure=exposure, offset=offset)
    special = {"exposure": exposure, "offset": offset, "weights": weights}
    special = {role: name for role, name in special.items() if name is not None}
    table = _table(columns)
    features = _features(table.kinds, {"target": target} | special, features, exclude, categorical)
    table, reading = read_table_as(
        table,
        features,
        categorical=categorical,
        numbers=numbers,
        decimal=decimal,
        missing_values=missing_values,
        dates={} if dates is None else dates,
    )
    source = survey(
        table,
        model,
        target,
        features,
        special,
        categorical=categorical,
        missing=missing,
        positive=positive,
        standardize=standardize,
        progress=progress,
        stacklevel=2,
    )
    design, response = source.encoder.design, source.encoder.response
    scale = SCALES.get(model)
    if clash := {scale, "intercept"} & set(design.names):
        raise must(
            "features", "columns that are not named like a parameter", clash.pop(), "Rename the column."
        )
    standard = Standardized(
        jnp.asarray(design.center), jnp.asarray(design.scale), response.origin, response.unit
    )
    names = ["intercept", *design.names]
    labels = [response.classes[1:], names] if model == "softmax" else [names]
    init: Params = {"coefficients": standard(jnp.zeros([len(axis) for axis in labels]))}
    transforms: dict[str, Any] = {"coefficients": standard}
    if scale is not None:
        init[scale] = jnp.asarray(response.unit if scale == "sigma" else 0.5)
        transforms[scale] = Positive()
    posterior = Posterior(
        Likelihood(standard, model, prior.degrees_of_freedom),
        LogPrior(standard, prior),
        batched=True,
        transforms=transforms,
    )
    description = {"model": model, "target": target, "features": features, "levels": design.levels, **special}
    description |= {} if source.kept is None else {"rows dropped": source.kept.dropped}
    description |= {"classes": response.classes} if response.classes else {}
    description |= {"degrees of freedom": prior.degrees_of_freedom} if model == "student-t" else {}
    description |= {"standardize": standardize, "prior": prior.describe(model, standardize=standardize)}
    description |= {} if reading.is_plain else {"reading": dataclasses.asdict(reading)}
    in_memory = isinstance(table.table if isinstance(table, ReadTable) else table, MemoryTable)
    data = source.in_memory() if in_memory else source
    return Regression(posterior, data, init, {"coefficients": labels}, description)


def _table(columns: Mapping[str, np.ndarray] | Table | str | os.PathLike[str]) -> Table:
    if isinstance(columns, Table):
        return columns
    return open_table(columns) if isinstance(columns, str | os.PathLike) else MemoryTable(columns)


def _features(
    columns: Iterable[str],
    special: Mapping[str, str],
    features: Sequence[str] | None,
    exclude: Sequence[str],
    categorical: Sequence[str],
) -> list[str]:
    """Return the features in order, after checking that every name is a column and that no role shares one."""
    taken = set(special.values())
    if features is not None and exclude:
        raise must("exclude", "left out if `features` is given", list(exclude))
    rest = [name for name in columns if name not in taken and name not in exclude]
    chosen = rest if features is None else list(features)
    named = {"features": chosen, "exclude": exclude, "categorical": categorical}
    roles = [*special.items(), *((role, name) for role, names in named.items() for name in names)]
    for role, name in roles:
        check_column(role, name, columns)
        if role in named and name in taken:
            raise must(role, f"columns other than {', '.join(special)}", name)
    if not chosen:
        raise must("features", "at least one column", chosen)
    return chosen


def _check(model: str, *, positive: Any, exposure: str | None, offset: str | None) -> None:
    if exposure is not None and model not in COUNTS:
        raise must("exposure", f"left out except for {' and '.join(COUNTS)}", exposure, _OWN)
    if offset is not None and model == "softmax":
        raise must("offset", "left out for softmax", offset, _OWN)
    if positive is not None and model != "logistic":
        raise must("positive", "left out except for logistic", positive)
