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
from isotherm.tables.families.base import Family, Params
from isotherm.tables.families.likelihood import Likelihood, LogPrior
from isotherm.tables.families.prior import Prior
from isotherm.tables.families.registry import MODELS, OWN_MODEL, family_of
from isotherm.tables.reader import open_table
from isotherm.tables.reading import ReadTable, read_table_as
from isotherm.tables.standardized import Standardized
from isotherm.tables.survey import survey
from isotherm.tables.table import MemoryTable, Table


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
    model: str | Family,
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
    trials: str | None = None,
    censored: str | None = None,
    order: Sequence[str | int | float] = (),
    quantile: int | float | None = None,
    standardize: bool = True,
    prior: Prior | None = None,
    progress: bool = True,
) -> Regression:
    """Return the regression of `target` on `features`, or on all other columns except those in `exclude`.

    **Arguments:**

    - `model`: one of `isotherm.tables.families.MODELS`, the name of a family in an installed package, or a `Family`.
      `"logistic"` takes a target of two values and models the probability of the second, or of `positive`;
      `"softmax"` compares each class with the first; models of counts have a log link.
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
    - `trials`: a column of the numbers of trials, of which a `"binomial"` target counts the successes.
    - `censored`: a column that is 1, or true, where a time (`"exponential"`, `"weibull"`) is the last at which the
      event had not happened yet, and 0 where the event happened then.
    - `order`: the classes of an `"ordinal"` target from the lowest. Numbers are in order without it.
    - `quantile`: of a `"quantile"` regression, between 0 and 1; the median by default.
    - `standardize`: whether the priors are on standardised columns or on the columns as given.
    - `progress`: show how fast a file is read, on a terminal or in a notebook.
    """
    prior = Prior() if prior is None else prior
    given = {} if quantile is None else {"quantile": quantile}
    family = family_of(model, {"degrees_of_freedom": prior.degrees_of_freedom, **given})
    prior.check(family)
    if missing not in ("refuse", "drop"):
        raise must("missing", '"refuse" or "drop"', missing)
    special = {
        "exposure": exposure,
        "offset": offset,
        "weights": weights,
        "trials": trials,
        "censored": censored,
    }
    special = {role: name for role, name in special.items() if name is not None}
    others = {"positive": positive, "order": list(order) or None, **given}
    _check(family, special | {name: value for name, value in others.items() if value is not None})
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
        family,
        target,
        features,
        special,
        categorical=categorical,
        missing=missing,
        positive=positive,
        order=order,
        standardize=standardize,
        progress=progress,
        stacklevel=2,
    )
    design, response = source.encoder.design, source.encoder.response
    if clash := {"intercept", *(x.name for x in family.auxiliaries)} & set(design.names):
        raise must(
            "features", "columns that are not named like a parameter", clash.pop(), "Rename the column."
        )
    standard = Standardized(
        *(jnp.asarray(x) for x in (design.center, design.scale, response.origin, response.unit))
    )
    names = ["intercept", *design.names]
    axes = [response.classes[1:], names] if family.per_class else [names]
    labels, facts = {"coefficients": axes}, response.facts
    init: Params = {"coefficients": standard(jnp.zeros([len(axis) for axis in axes]))}
    transforms: dict[str, Any] = {"coefficients": standard}
    for auxiliary in family.auxiliaries:
        init[auxiliary.name] = jnp.asarray(auxiliary.start(facts))
        transforms[auxiliary.name] = auxiliary.transform
        labels |= {} if auxiliary.elements is None else {auxiliary.name: [auxiliary.elements(facts)]}
    posterior = Posterior(
        Likelihood(standard, family),
        LogPrior(standard, family, prior),
        batched=True,
        transforms=transforms,
    )
    description = {
        "model": family.name,
        "target": target,
        "features": features,
        "levels": design.levels,
        **special,
    }
    description |= {} if source.kept is None else {"rows dropped": source.kept.dropped}
    description |= {"column sd": design.sd.tolist()}
    if response.classes:
        description |= {"classes": response.classes, "class counts": response.class_counts}
    description |= {name.replace("_", " "): x for name, x in dataclasses.asdict(family).items()}
    description |= {"standardize": standardize, "prior": prior.describe(family, standardize=standardize)}
    description |= {} if reading.is_plain else {"reading": dataclasses.asdict(reading)}
    in_memory = isinstance(table.table if isinstance(table, ReadTable) else table, MemoryTable)
    data = source.in_memory() if in_memory else source
    return Regression(posterior, data, init, labels, description)


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


def _check(family: Family, given: Mapping[str, Any]) -> None:
    """Refuse arguments that are not for the family."""
    for role, value in given.items():
        if role not in _accepted(family):
            known = [name for name in MODELS if role in _accepted(family_of(name))]
            others = f"left out except for {_listed(known)}"
            rule = others if len(known) <= len(MODELS) / 2 else f"left out for {family.name}"
            raise must(role, rule, value, "" if role == "positive" else OWN_MODEL)
    for role in family.needs:
        if role not in given:
            raise must(role, f"the name of a column for {family.name}", None)


def _accepted(family: Family) -> set[str]:
    """Return the arguments that a family takes beside those that all do."""
    return {*family.roles, *(field.name for field in dataclasses.fields(family))}


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
