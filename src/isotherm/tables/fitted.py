"""A regression whose draws are at hand, and the rows of a new table as it takes them."""

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
    lacking,
    level_text,
    numbers,
    positive_numbers,
)
from isotherm.tables.families import CLASSES, COUNTS

if TYPE_CHECKING:
    from isotherm.draws import Draws

_SHOWN = 10  # levels in a message


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A regression as `draws.about.model` records it.

    - `names`: of the coefficients, without the intercept.
    - `levels`: of each feature that is a category, in order; the first is the one that others are compared with.
    - `classes`: of the target, in order; of two the model gives the chance of the second.
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
    """Rows of a table that lack nothing.

    - `complete`: which rows of the table they are.
    - `x`: the columns of the model, less `center`, so that 32 bits hold what tells rows apart.
    - `offset`: what is added to the linear predictor: offset and log exposure; `None` where there is neither.
    - `y`: the target as numbers, NaN where it is not known; `None` where it is known of no row.
    """

    complete: Bool[np.ndarray, " N"]
    x: Float[np.ndarray, "n F"]
    center: Float[np.ndarray, " F"]
    offset: Float[np.ndarray, " n"] | None
    y: Float[np.ndarray, " n"] | None


def fitted(draws: "Draws") -> Fitted:
    """The regression that these are draws of; refuses draws of anything else."""
    record = draws.about.model
    if "model" in record and "levels" not in record:
        rule = "those of a run that recorded the levels of its categories"
        raise must("draws", rule, record["model"], "An earlier version did not: sample anew.")
    if "model" not in record:
        raise must(
            "draws",
            "those of a regression that `isotherm sample` knows by name",
            record.get("function"),
            "Of a model of your own only you know what it predicts: write that as a function of parameters and rows, "
            "and call `iso.predict(draws, function, rows)` in Python.",
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
    """The rows of `columns` as the model takes them, after every value that it needs is found to be fit.

    With `missing="empty"` rows that lack a value are left out, and refused else. Other columns are not looked at.
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
    whole = complete(used)
    parts: list[tuple[str, np.ndarray]] = []
    for name in model.features:
        parts += _feature(name, used[name], model.levels.get(name))
    if (names := tuple(name for name, _ in parts)) != model.names:
        raise must("table", f"one with the columns of the model, {_some(model.names)}", _some(names))
    x = np.empty((int(whole.sum()), len(parts)), np.float32)
    center = np.empty(len(parts))
    for i, (_, values) in enumerate(parts):
        kept = values[whole].astype(np.float64)
        center[i] = kept.mean()
        x[:, i] = kept - center[i]
    added = [] if model.offset is None else [numbers(model.offset, _filled(used[model.offset]))]
    if model.exposure is not None:
        added.append(np.log(positive_numbers(model.exposure, _filled(used[model.exposure]))))
    offset = np.sum(added, axis=0)[whole].astype(np.float32) if added else None
    y = _target(model, columns[model.target])[whole] if model.target in columns else np.full(len(x), np.nan)
    return NewRows(whole, x, center, offset, None if np.isnan(y).all() else y)


def _feature(name: str, values: np.ndarray, levels: Sequence[str] | None) -> list[tuple[str, np.ndarray]]:
    """The columns of the matrix that a feature makes, by name. Gaps are filled: their rows are not used."""
    if levels is not None:
        repair = "Leave such rows out, or sample anew from a table that has this level."
        codes = _codes(name, values, levels, repair)
        return [(f"{name}={level}", codes == i) for i, level in enumerate(levels) if i > 0]
    values = _filled(values)
    if values.ndim == 2:
        return [(f"{name}.{i}", numbers(f"{name}.{i}", values[:, i])) for i in range(values.shape[1])]
    return [(name, numbers(name, values))]


def _target(model: Fitted, values: np.ndarray) -> Float[np.ndarray, " N"]:
    """As numbers, NaN where it is not known."""
    if model.model in CLASSES:
        repair = "Mend it, or leave the column out: it is for scores alone."
        codes = _codes(model.target, values, model.classes, repair)
        return np.where(codes < 0, np.nan, codes)
    gaps = lacking(values)
    if gaps.all():
        return np.full(len(gaps), np.nan)
    found = (counts if model.model in COUNTS else numbers)(model.target, _filled(values))
    return np.where(gaps, np.nan, found)


def _codes(name: str, values: np.ndarray, levels: Sequence[str], repair: str) -> Int[np.ndarray, " N"]:
    """The number of the level in each row, -1 where there is no value. Refuses levels that are not known."""
    import pandas as pd

    codes, found = pd.factorize(values)
    places = np.array([*(_place(level_text(value), levels) for value in found), -1])  # the last for gaps
    places = places[codes]
    new = (places < 0) & (codes >= 0)
    if new.any():
        row = int(np.argmax(new))
        where = (
            f"It stands in row {row + 1} ({int(new.sum())} of {len(new)} rows have levels that it does not)."
        )
        rule = f"one of the levels that the model knows, {_some(levels)}"
        raise must(name, rule, values[row], f"{where} {repair}")
    return places


def _place(text: str, levels: Sequence[str]) -> int:
    """Where a level stands; one that is a number, such as 1, may be written otherwise, such as 1.0 or 01."""
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
    """With 1 in place of gaps, which is fit for any column of numbers."""
    import pandas as pd

    gaps = np.asarray(pd.isna(values))
    if not gaps.any():
        return values
    filled = np.where(gaps, 1.0, values)
    # Of true and false a file with gaps makes objects, and one without does not.
    truths = values.dtype == object and pd.api.types.infer_dtype(values) == "boolean"
    return filled.astype(np.float64) if truths else filled


def _refuse_gaps(columns: Mapping[str, np.ndarray]) -> None:
    for name, values in columns.items():
        gaps = lacking(values)
        if gaps.any():
            raise ValueError(
                f"column `{name}` must have a value in every row; row {int(np.argmax(gaps)) + 1} is missing "
                f"({int(gaps.sum())} of {len(gaps)} rows). Mend the table, or leave the predictions of such rows "
                'empty: `--missing empty`, or `missing="empty"` in Python.'
            )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
