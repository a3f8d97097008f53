"""A typical row: the means of the columns, the most frequent levels, and no level of a group."""

import dataclasses

import numpy as np

from isotherm.tables.fitted import Fitted
from isotherm.tables.marginal.given import Given
from isotherm.tables.marginal.grid import known_levels


def typical_row(model: Fitted, given: Given) -> Given:
    """Return one row with the means of the columns, the most frequent levels, and an effect of groups of zero."""
    levels, groups = known_levels(model), _only_groups(model)
    columns: dict[str, np.ndarray] = {}
    for name, x in given.columns.items():
        if name in groups:
            columns[name] = np.array([_no_level(levels[name])], object)
        elif name in levels:
            texts, counts = np.unique(x.astype(str), return_counts=True)
            columns[name] = np.array([texts[np.argmax(counts)]], object)
        else:
            mean = np.asarray(x, np.float64).mean(axis=0, keepdims=True)
            columns[name] = np.round(mean) if name == model.trials else mean
    return dataclasses.replace(given, columns=columns, numbers=given.numbers[:1])


def _only_groups(model: Fitted) -> set[str]:
    """Return the columns of groups that are neither a number nor a category of the model."""
    if not model.formula:
        return set()
    designs = [model.made_design, *model.designs.values()]
    others = {name for design in designs for name in (*design.levels, *design.numbers)}
    return {name for group in model.made_design.groups for name in group.factor.columns} - others


def _no_level(levels: list[str]) -> str:
    """Return a text that is no level."""
    text = "none"
    while text in levels:
        text = f"({text})"
    return text
