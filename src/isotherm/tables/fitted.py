"""The regression behind a set of draws, and the rows of a new table in the form that it takes."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from isotherm.errors import must
from isotherm.tables.design import (
    check_column,
    complete,
    counts,
    is_missing,
    level_text,
    numbers,
    positive_numbers,
)
from isotherm.tables.families import CLASSES, COUNTS

if TYPE_CHECKING:
    from isotherm.draws import Draws

_SHOWN = 10  # names or levels listed in a message


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A regression as `draws.about.model` records it.

    - `names`: the names of the coefficients, without the intercept.
    - `levels`: the levels of each categorical feature, in order; the first is the reference level.
    - `classes`: the classes of the target, in order; with two, the model gives the probability of the second.
    """

    model: str
    target: str
    features: tuple[str, ...]
    levels: Mapping[str, Sequence[str]]
    names: tuple[str, ...]
    classes: tuple[str, ...] = ()
    exposure: str | None = None
    offset: str | None = None
    degrees_of_freedom: int | float = 4.0


@dataclasses.dataclass(frozen=True, eq=False)
class NewRows:
    """The rows of a table without missing values.

    - `complete`: which rows of the table these are.
    - `x`: the columns of the model minus `center`, so that 32 bits can tell the rows apart.
    - `offset`: what is added to the linear predictor, offset plus log exposure; `None` if there is neither.
    - `y`: the target as numbers, NaN where it is unknown; `None` if it is unknown for every row.
    """

    complete: Bool[np.ndarray, " N"]
    x: Float[np.ndarray, "n F"]
    center: Float[np.ndarray, " F"]
    offset: Float[np.ndarray, " n"] | None
    y: Float[np.ndarray, " n"] | None


def fitted(draws: "Draws") -> Fitted:
    """Return the regression that the draws are from; refuse draws from anything else."""
    record = draws.about.model
    if "model" in record and "levels" not in record:
        rule = "from a run that recorded the levels of its categories"
        raise must("draws", rule, record["model"], "Earlier versions did not record them: sample again.")
    if "model" not in record:
        raise must(
            "draws",
            "from a regression that `isotherm sample` knows by name",
            record.get("function"),
            "For your own model, write what it predicts as a function of parameters and rows, and call "
            "`iso.predict(draws, function, rows)` in Python.",
        )
    return Fitted(
        model=record["model"],
        target=record["target"],
        features=tuple(record["features"]),
        levels=record["levels"],
        names=tuple(draws.labels["coefficients"][-1][1:]),
        classes=tuple(record.get("classes", ())),
        exposure=record.get("exposure"),
        offset=record.get("offset"),
        degrees_of_freedom=record.get("degrees of freedom", 4.0),
    )


def new_rows(model: Fitted, columns: Mapping[str, np.ndarray], *, missing: str = "refuse") -> NewRows:
    """Return the rows of `columns` in the form that the model takes. Every value that it needs is checked first.

    Rows with a missing value are refused, or left out with `missing="empty"`. Other columns are ignored.
    """
    if missing not in ("refuse", "empty"):
        raise must("missing", '"refuse" or "empty"', missing)
    roles = [("features", name) for name in model.features]
    roles += [(role, name) for role in ("exposure", "offset") if (name := getattr(model, role)) is not None]
    for role, name in roles:
        check_column(role, name, columns)
    used = {name: columns[name] for _, name in roles}
    if missing == "refuse":
        _refuse_gaps(used)
    is_complete = complete(used)
    parts: list[tuple[str, np.ndarray]] = []
    for name in model.features:
        parts += _feature(name, used[name], model.levels.get(name))
    if (names := tuple(name for name, _ in parts)) != model.names:
        raise must("table", f"one with the columns of the model, {_some(model.names)}", _some(names))
    x = np.empty((int(is_complete.sum()), len(parts)), np.float32)
    center = np.empty(len(parts))
    for i, (_, values) in enumerate(parts):
        kept = values[is_complete].astype(np.float64)
        center[i] = kept.mean()
        x[:, i] = kept - center[i]
    added = [] if model.offset is None else [numbers(model.offset, _filled(used[model.offset]))]
    if model.exposure is not None:
        added.append(np.log(positive_numbers(model.exposure, _filled(used[model.exposure]))))
    offset = np.sum(added, axis=0)[is_complete].astype(np.float32) if added else None
    target = columns.get(model.target)
    y = np.full(len(x), np.nan) if target is None else _target(model, target)[is_complete]
    return NewRows(is_complete, x, center, offset, None if np.isnan(y).all() else y)


def _feature(name: str, values: np.ndarray, levels: Sequence[str] | None) -> list[tuple[str, np.ndarray]]:
    """Return the matrix columns that a feature makes, by name. Missing values are filled: their rows are unused."""
    if levels is not None:
        repair = "Leave such rows out, or sample again from a table that has this level."
        codes = _codes(name, values, levels, repair)
        return [(f"{name}={level}", codes == i) for i, level in enumerate(levels) if i > 0]
    values = _filled(values)
    if values.ndim == 2:
        return [(f"{name}.{i}", numbers(f"{name}.{i}", values[:, i])) for i in range(values.shape[1])]
    return [(name, numbers(name, values))]


def _target(model: Fitted, values: np.ndarray) -> Float[np.ndarray, " N"]:
    """Return the target as numbers, NaN where it is unknown."""
    if model.model in CLASSES:
        repair = "Correct it, or leave the column out: only the scores need it."
        codes = _codes(model.target, values, model.classes, repair)
        return np.where(codes < 0, np.nan, codes)
    gaps = is_missing(values)
    if gaps.all():
        return np.full(len(gaps), np.nan)
    target = (counts if model.model in COUNTS else numbers)(model.target, _filled(values))
    return np.where(gaps, np.nan, target)


def _codes(name: str, values: np.ndarray, levels: Sequence[str], repair: str) -> Int[np.ndarray, " N"]:
    """Return the index of the level in each row, -1 where the value is missing. Unknown levels are refused."""
    import pandas as pd

    codes, distinct = pd.factorize(values)
    indices = np.array([*(_index(level_text(value), levels) for value in distinct), -1])  # the last for gaps
    indices = indices[codes]
    unknown = (indices < 0) & (codes >= 0)
    if unknown.any():
        row = int(np.argmax(unknown))
        where = f"It is in row {row + 1} ({int(unknown.sum())} of {len(unknown)} rows have unknown levels)."
        rule = f"one of the levels that the model knows, {_some(levels)}"
        raise must(name, rule, values[row], f"{where} {repair}")
    return indices


def _index(text: str, levels: Sequence[str]) -> int:
    """Return the index of a level, -1 if it is unknown. A number such as 1 may also be written as 1.0 or 01."""
    if text in levels:
        return levels.index(text)
    same = [i for i, level in enumerate(levels) if _number(level) == _number(text)]
    return same[0] if len(same) == 1 else -1


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _filled(values: np.ndarray) -> np.ndarray:
    """Return the values with 1, which is valid in any column of numbers, in place of missing ones."""
    import pandas as pd

    gaps = np.asarray(pd.isna(values))
    if not gaps.any():
        return values
    filled = np.where(gaps, 1.0, values)
    # A column of true and false has objects if a value is missing, and booleans if none is.
    is_boolean = values.dtype == object and pd.api.types.infer_dtype(values) == "boolean"
    return filled.astype(np.float64) if is_boolean else filled


def _refuse_gaps(columns: Mapping[str, np.ndarray]) -> None:
    for name, values in columns.items():
        gaps = is_missing(values)
        if gaps.any():
            raise ValueError(
                f"column `{name}` must have a value in every row; the value in row {int(np.argmax(gaps)) + 1} is "
                f"missing ({int(gaps.sum())} of {len(gaps)} rows). Fill it in, or leave the predictions of such rows "
                'empty with `--missing empty`, in Python `missing="empty"`.'
            )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
