"""Regressions on the columns of a table: the models that the command line knows by name.

Coefficients are per unit of their column and carry its name.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from isotherm.errors import must
from isotherm.posterior import Posterior
from isotherm.tables.design import (
    FAR,
    Standardized,
    check_column,
    complete,
    counts,
    design,
    factor,
    level_text,
    numbers,
    positive_numbers,
)
from isotherm.tables.families import CLASSES, COUNTS, MODELS, SCALES, Likelihood, LogPrior, Params, Prior
from isotherm.transforms import Positive


@dataclasses.dataclass(frozen=True, eq=False)
class Regression:
    """A regression, which unpacks into a posterior, its data and a starting point.

    `labels` names the elements of a parameter along each axis: the columns, preceded by the classes for a softmax.
    `description` describes the model in words.
    """

    posterior: Posterior
    data: dict[str, np.ndarray]
    init: Params
    labels: dict[str, list[list[str]]]
    description: dict[str, Any]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.posterior, self.data, self.init))


def regression(
    model: str,
    columns: Mapping[str, np.ndarray],
    target: str,
    features: Sequence[str] | None = None,
    *,
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: str = "refuse",
    positive: str | int | float | None = None,
    exposure: str | None = None,
    offset: str | None = None,
    weights: str | None = None,
    standardize: bool = True,
    prior: Prior | None = None,
) -> Regression:
    """Return the regression of `target` on `features`, or on all other columns except those in `exclude`.

    **Arguments:**

    - `model`: one of `MODELS`. `"logistic"` takes a target of two values and models the probability of the second,
      or of `positive`; `"softmax"` compares each class with the first; models of counts have a log link.
    - `columns`: arrays of equal length by name, as `isotherm.tables.reader.read_table(path).columns`. Text columns,
      and those in `categorical`, become one column per level, compared with the first level.
    - `missing`: what to do with rows that have no value in a column that is used. `"refuse"` raises an error,
      `"drop"` leaves them out.
    - `exposure`: a column that multiplies the rate of a count, such as person-years.
    - `offset`: a column added to the linear predictor.
    - `weights`: a column that multiplies the log-likelihood of its row.
    - `standardize`: whether the priors are on standardised columns or on the columns as given.
    """
    prior = Prior() if prior is None else prior
    if model not in MODELS:
        raise must("model", f"one of {', '.join(MODELS)}", model)
    if missing not in ("refuse", "drop"):
        raise must("missing", '"refuse" or "drop"', missing)
    _check(model, positive=positive, exposure=exposure, offset=offset)
    special = {"exposure": exposure, "offset": offset, "weights": weights}
    special = {role: name for role, name in special.items() if name is not None}
    features = _features(columns, {"target": target} | special, features, exclude, categorical)
    dropped = 0
    if missing == "drop":
        columns = {name: columns[name] for name in (target, *special.values(), *features)}
        kept = complete(columns)
        columns, dropped = {name: x[kept] for name, x in columns.items()}, int(np.sum(~kept))
    matrix = design(columns, features, categorical=categorical, standardize=standardize)
    y, classes = _target(model, target, columns[target], positive)
    scale = SCALES.get(model)
    if clash := {scale, "intercept"} & set(matrix.names):
        raise must(
            "features", "columns that are not named like a parameter", clash.pop(), "Rename the column."
        )
    rows, origin, unit = _rows(model, matrix.x, y, columns, special, standardize=standardize)
    standard = Standardized(jnp.asarray(matrix.center), jnp.asarray(matrix.scale), origin, unit)
    names = ["intercept", *matrix.names]
    labels = [classes[1:], names] if model == "softmax" else [names]
    init: Params = {"coefficients": standard(jnp.zeros([len(axis) for axis in labels]))}
    transforms: dict[str, Any] = {"coefficients": standard}
    if scale is not None:
        init[scale] = jnp.asarray(unit if scale == "sigma" else 0.5)
        transforms[scale] = Positive()
    posterior = Posterior(
        Likelihood(standard, model, prior.degrees_of_freedom),
        LogPrior(standard, prior),
        batched=True,
        transforms=transforms,
    )
    description = {
        "model": model,
        "target": target,
        "features": features,
        "levels": matrix.levels,
        **special,
    } | ({"rows dropped": dropped} if dropped else {})
    description |= {"classes": classes} if classes else {}
    description |= {"degrees of freedom": prior.degrees_of_freedom} if model == "student-t" else {}
    description |= {"standardize": standardize, "prior": prior.describe(model, standardize=standardize)}
    return Regression(posterior, rows, init, {"coefficients": labels}, description)


def _features(
    columns: Mapping[str, np.ndarray],
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


def _rows(
    model: str,
    x: np.ndarray,
    y: np.ndarray,
    columns: Mapping[str, np.ndarray],
    special: Mapping[str, str],
    *,
    standardize: bool,
) -> tuple[dict[str, np.ndarray], float, float]:
    """Return the rows that the likelihood takes, and the origin and unit of the response."""
    rows: dict[str, np.ndarray] = {"x": x, "y": y}
    origin, unit = 0.0, 1.0
    added = (
        numbers(special["offset"], columns[special["offset"]]) if "offset" in special else np.zeros(len(y))
    )
    if "exposure" in special:
        added = added + np.log(positive_numbers(special["exposure"], columns[special["exposure"]]))
    if model in COUNTS:
        origin = math.log(max(float(y.mean() / np.exp(added).mean()), 1e-9))
    elif model not in CLASSES:
        y, added = y - added, np.zeros(len(y))
        if not (sd := float(y.std())) > 0:
            raise must("target", "a column that varies", float(y[0]))
        if abs(mean := float(y.mean())) > FAR * sd:
            rule = f"within {FAR:g} standard deviations of zero"
            raise must("target", rule, mean, "Subtract a round number near its mean.")
        if standardize:
            origin, unit = mean, sd
        rows["y"] = (y - origin) / unit
    if added.any():
        rows["offset"] = added
    if "weights" in special:
        rows["weight"] = positive_numbers(special["weights"], columns[special["weights"]])
    kind = np.int32 if model == "softmax" else np.float32
    rows = {name: v.astype(kind if name == "y" else np.float32) for name, v in rows.items()}
    return rows, origin, unit


def _check(model: str, *, positive: Any, exposure: str | None, offset: str | None) -> None:
    if exposure is not None and model not in COUNTS:
        raise must("exposure", f"left out except for {' and '.join(COUNTS)}", exposure)
    if offset is not None and model == "softmax":
        raise must("offset", "left out for softmax", offset)
    if positive is not None and model != "logistic":
        raise must("positive", "left out except for logistic", positive)


def _target(
    model: str, name: str, values: np.ndarray, positive: str | int | float | None
) -> tuple[np.ndarray, list[str]]:
    """Return the target as numbers, and its classes if it has any."""
    if model in CLASSES:
        classes, codes = factor(name, values)
        if model == "logistic" and len(classes) != 2:
            raise must(name, "a target of two values", classes[:5], 'Use model = "softmax" for more.')
        if len(classes) < 2:
            raise must(name, "a target of at least two values", classes)
        if positive is not None:
            level = level_text(positive)
            if level not in classes:  # true or True
                level = next((c for c in classes if c.lower() == level.lower()), level)
            if level not in classes:
                raise must("positive", f"one of {' and '.join(classes)}", positive)
            if level == classes[0]:
                classes, codes = classes[::-1], 1 - codes
        return codes, classes
    return (counts if model in COUNTS else numbers)(name, values), []
