"""What the name of a coefficient says: a column, a level of a category, or a part of something larger."""

import re
from typing import NamedTuple

from isotherm.tables.fitted import Fitted

_LEVEL = re.compile(r"(?P<column>.+)\[T\.(?P<level>.*)\]", re.DOTALL)
_AS_CATEGORY = re.compile(r"C\(\s*(?P<column>[^(),]+?)\s*(?P<options>,.*)?\)", re.DOTALL)
_PART = re.compile(r".+\)\[[^\]]*\]", re.DOTALL)  # of several columns that one expression makes, such as poly(x, 2)[1]


class Level(NamedTuple):
    """A level of a category, and the words for the level that it is compared with."""

    column: str
    name: str
    reference: str


def level_of(name: str, model: Fitted) -> Level | None:
    """Return the level that a coefficient is of; `None` for that of a number or an interaction."""
    if not model.formula:
        feature = next((x for x in model.levels if name.startswith(f"{x}=")), None)
        if feature is None:
            return None
        return Level(feature, name[len(feature) + 1 :], f"`{model.levels[feature][0]}`")
    found = _LEVEL.fullmatch(name)
    if found is None or is_interaction(name, model):
        return None
    column, options = found["column"], None
    if as_category := _AS_CATEGORY.fullmatch(column):
        column, options = as_category["column"], as_category["options"]
    column = column.strip("`")
    known = model.levels.get(column)
    plain = known is not None and options is None and found["level"] in known[1:]
    reference = f"`{known[0]}`" if known is not None and plain else "the level that it is compared with"
    return Level(column, found["level"], reference)


def is_interaction(name: str, model: Fitted) -> bool:
    """Return whether a coefficient is that of a product of columns."""
    if not model.formula:
        return False
    outside = re.sub(r"`[^`]*`|\([^()]*\)|\[[^\]]*\]", "", name)
    return ":" in outside and name not in model.features


def is_alone(name: str, model: Fitted) -> bool:
    """Return whether a coefficient is the whole effect of a column, or of a level."""
    if not model.formula:
        return True
    is_part = _PART.fullmatch(name) is not None and _LEVEL.fullmatch(name) is None
    return not is_part and not is_interaction(name, model)
