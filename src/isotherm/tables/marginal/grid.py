"""The values of a column along which predictions are made."""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from isotherm.errors import must
from isotherm.tables.checks import as_numbers
from isotherm.tables.fitted import Fitted
from isotherm.tables.known_levels import codes_of, some
from isotherm.tables.marginal.given import Given, needed
from isotherm.tables.statistics import level_text

_POINTS = 20
_ENDS = (0.01, 0.99)  # quantiles of a column of numbers, between which its values lie
_MOST_LEVELS = 50  # predicted for without being named


def known_levels(model: Fitted) -> dict[str, list[str]]:
    """Return the levels of each column of categories or groups. A column of numbers has none."""
    if not model.formula:
        return dict(model.levels)
    designs = [model.made_design, *model.designs.values()]
    found: dict[str, list[str]] = {}
    for group in model.made_design.groups:
        for name, part in zip(group.factor.columns, group.factor.parts, strict=True):
            found.setdefault(name, part.levels)
    for design in designs:
        found |= design.levels
    numbers = {name for design in designs for name in design.numbers}
    return {name: levels for name, levels in found.items() if name not in numbers}


def check_along(model: Fitted, given: Given, column: str) -> None:
    """Refuse what is not a column of the model with one value in a row."""
    names = needed(model, with_target=False)
    if column not in names:
        near = difflib.get_close_matches(column, names, n=1)
        raise must(
            "column", f"one of the model: {some(names)}", column, f"Did you mean `{near[0]}`?" if near else ""
        )
    if given.columns[column].ndim > 1:
        raise must("column", "a column with one value in a row", column)


def values_along(model: Fitted, given: Given, column: str, at: Sequence[Any] | None) -> tuple[Any, ...]:
    """Return numbers, or the texts of levels: those in `at`, or else a grid or all levels."""
    check_along(model, given, column)
    levels = known_levels(model).get(column)
    if at is not None and (isinstance(at, str) or not isinstance(at, Sequence | np.ndarray) or len(at) == 0):
        raise must("at", "a list of values", at, error=TypeError)
    if levels is not None:
        if at is None and len(levels) > _MOST_LEVELS:
            rule = f"given for a column with more than {_MOST_LEVELS} levels"
            raise must("at", rule, at, f"`{column}` has {len(levels):,}: name some, or read `group_effects`.")
        return tuple(levels) if at is None else tuple(_level(column, value, levels) for value in at)
    if at is None:
        return tuple(_grid(numbers_of(given, column)).tolist())
    for value in at:
        if isinstance(value, bool | str) or not np.isfinite(value):
            raise must("at", f"finite numbers, as `{column}` is a column of numbers", value)
    return tuple(float(value) for value in at)


def numbers_of(given: Given, column: str) -> Float[np.ndarray, " n"]:
    """Return a column of numbers in 64 bits."""
    return as_numbers(given.columns[column]).astype(np.float64)


def as_column(model: Fitted, column: str, values: Sequence[Any]) -> Shaped[np.ndarray, "value 1"]:
    """Return values as an array that the model reads, one set of rows for each."""
    return np.array(values, object if column in known_levels(model) else np.float64)[:, None]


def _grid(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " G"]:
    distinct = np.unique(values)
    if len(distinct) <= _POINTS:
        return distinct
    low, high = np.quantile(values, _ENDS)
    if not low < high:
        return distinct[[0, -1]]
    step = (high - low) / (_POINTS - 1)
    return np.unique(np.round(np.linspace(low, high, _POINTS), 1 - int(np.floor(np.log10(step)))))


def _level(column: str, value: Any, levels: list[str]) -> str:
    index = int(codes_of(np.array([value], object), levels)[0])
    if index < 0:
        raise must("at", f"levels of `{column}`: {some(levels)}", level_text(value))
    return levels[index]
