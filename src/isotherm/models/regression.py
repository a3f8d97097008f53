"""Regression from columns of a table: the models that the command line knows by name.

Coefficients are per unit of their column and carry its name.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from isotherm.errors import must
from isotherm.models.design import Standardized, design, factor, numbers
from isotherm.models.families import (
    CLASSES,
    COUNTS,
    MODELS,
    SCALES,
    Likelihood,
    LogPrior,
    Params,
    Prior,
    Rows,
)
from isotherm.posterior import Posterior
from isotherm.transforms import Positive


@dataclasses.dataclass(frozen=True, eq=False)
class Regression:
    """A posterior, its data and a start, into which it unpacks.

    `labels` names the elements of a parameter along its axes: columns, and before them classes of a softmax.
    `description` is what a reader wants to know of the model, in words.
    """

    posterior: Posterior
    data: Rows
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
    categorical: Sequence[str] = (),
    positive: str | int | float | None = None,
    exposure: str | None = None,
    offset: str | None = None,
    weights: str | None = None,
    standardize: bool = True,
    prior: Prior | None = None,
) -> Regression:
    """The posterior of a regression of `target` on `features`, all other columns where they are `None`.

    **Arguments:**

    - `model`: one of `MODELS`. `"logistic"` has a target of two values and models the chance of the second, or of
      `positive`; `"softmax"` compares each class with the first; counts have a log link.
    - `columns`: arrays of one length by name, as `isotherm.data.table.read_table(path).columns`. Text, and what
      `categorical` names, is one column a level, against the first level.
    - `exposure`: column by which the rate of a count is multiplied, such as person-years.
    - `offset`: column that is added to the linear predictor.
    - `weights`: column by which the log-likelihood of a row is multiplied.
    - `standardize`: whether the priors are on standardised columns, or on columns as they are.
    """
    prior = Prior() if prior is None else prior
    if model not in MODELS:
        raise must("model", f"one of {', '.join(MODELS)}", model)
    _check(model, positive=positive, exposure=exposure, offset=offset)
    special = {"exposure": exposure, "offset": offset, "weights": weights}
    taken = {target, *(name for name in special.values() if name is not None)}
    features = [name for name in columns if name not in taken] if features is None else list(features)
    for role, name in (("target", target), *special.items(), *(("features", f) for f in features)):
        if name is not None and name not in columns:
            raise must(role, "a column of the table", name, f"There are {', '.join(list(columns)[:30])}.")
    for role, names in (("features", features), ("categorical", categorical)):
        if wrong := [name for name in names if name in taken or name not in columns]:
            raise must(role, "columns without the target, the exposure, the offset and the weights", wrong[0])
    if not features:
        raise must("features", "at least one column", features)
    made = design(columns, features, categorical=categorical, standardize=standardize)
    y, classes = _target(model, target, columns[target], positive)
    rows: Rows = {"x": made.x, "y": y}  # pyrefly: ignore
    extra = _numbers_above(columns, offset, None)
    if exposure is not None:
        extra = extra + np.log(_numbers_above(columns, exposure, 0.0))
    origin, unit = 0.0, 1.0
    if model in COUNTS:
        origin = math.log(max(y.mean() / np.exp(extra).mean(), 1e-9))
    elif model not in CLASSES and standardize:
        origin, unit = float(y.mean()), float(y.std())
        if not unit > 0:
            raise must(target, "a column that varies", float(y[0]))
        rows["y"] = (y - origin) / unit  # pyrefly: ignore
    if offset is not None or exposure is not None:
        rows["offset"] = extra / unit  # pyrefly: ignore
    if weights is not None:
        rows["weight"] = _numbers_above(columns, weights, 0.0)  # pyrefly: ignore
    kind = np.int32 if model == "softmax" else np.float32
    rows = {name: np.asarray(x, kind if name == "y" else np.float32) for name, x in rows.items()}  # pyrefly: ignore
    standard = Standardized(jnp.asarray(made.center), jnp.asarray(made.scale), origin, unit)
    shape = (len(classes) - 1, len(made.names) + 1) if model == "softmax" else (len(made.names) + 1,)
    init, transforms = {"coefficients": standard(jnp.zeros(shape))}, {"coefficients": standard}
    if (scale := SCALES.get(model)) is not None:
        init[scale] = jnp.asarray(unit if scale == "sigma" else 0.5)
        transforms[scale] = Positive()
    names = ["intercept", *made.names]
    if clash := {scale, "intercept"} & set(made.names):
        raise must("features", "columns not named as a parameter", clash.pop(), "Rename the column.")
    labels = [classes[1:], names] if model == "softmax" else [names]
    description = {"model": model, "target": target, "features": features, "references": made.references}
    description |= {role: name for role, name in special.items() if name is not None}
    description |= {"classes": classes} if classes else {}
    description |= {"standardize": standardize, "prior": prior.describe(model, standardize=standardize)}
    posterior = Posterior(
        Likelihood(standard, model, prior.degrees_of_freedom),
        LogPrior(standard, prior),
        batched=True,
        transforms=transforms,
    )
    return Regression(posterior, rows, init, {"coefficients": labels}, description)


def _check(model: str, *, positive: Any, exposure: str | None, offset: str | None) -> None:
    if exposure is not None and model not in COUNTS:
        raise must("exposure", f"left out but for {' and '.join(COUNTS)}", exposure)
    if offset is not None and model == "softmax":
        raise must("offset", "left out for softmax", offset)
    if positive is not None and model != "logistic":
        raise must("positive", "left out but for logistic", positive)


def _target(
    model: str, name: str, values: np.ndarray, positive: str | int | float | None
) -> tuple[np.ndarray, list[str]]:
    """The target as numbers, and the classes where it has some."""
    if model in CLASSES:
        classes, codes = factor(name, values)
        if model == "logistic" and len(classes) != 2:
            raise must(name, "a target of two values", classes[:5], 'Use model = "softmax" for more.')
        if len(classes) < 2:
            raise must(name, "a target of at least two values", classes)
        if positive is not None:
            if str(positive) not in classes:
                raise must("positive", f"one of {' and '.join(classes)}", positive)
            if str(positive) == classes[0]:
                classes, codes = classes[::-1], 1 - codes
        return codes, classes
    y = numbers(name, values)
    if model in COUNTS and not ((y >= 0) & (y == np.round(y))).all():
        row = int(np.argmax(~((y >= 0) & (y == np.round(y)))))
        raise must(name, "a column of counts: 0, 1, 2, ...", float(y[row]), f"It stands in row {row + 1}.")
    return y, []


def _numbers_above(columns: Mapping[str, np.ndarray], name: str | None, low: float | None) -> Any:
    if name is None:
        return np.zeros(1)
    found = numbers(name, columns[name])
    if low is not None and not (found > low).all():
        row = int(np.argmax(~(found > low)))
        raise must(name, f"above {low:g}", float(found[row]), f"It stands in row {row + 1}.")
    return found
