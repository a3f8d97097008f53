"""The families by name: those of the library, of other packages, and those that this process was given.

Nothing is imported before a family is asked for, so that the names alone cost nothing.
"""

import dataclasses
import difflib
import importlib
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from isotherm.errors import must

if TYPE_CHECKING:
    from isotherm.tables.families.base import Family

GROUP = "isotherm.families"  # of entry points of packages
OWN_MODEL = "In a spec, `function` in place of `model` names a function that returns a model of your own."
_PACKAGE = "isotherm.tables.families"
_CLASSES = {
    "linear": "normal:Linear",
    "student-t": "normal:StudentT",
    "logistic": "classes:Logistic",
    "softmax": "classes:Softmax",
    "poisson": "counts:Poisson",
    "negative-binomial": "counts:NegativeBinomial",
    "probit": "classes:Probit",
    "binomial": "binomial:Binomial",
    "zero-inflated-poisson": "zero_inflated:ZeroInflatedPoisson",
    "zero-inflated-negative-binomial": "zero_inflated:ZeroInflatedNegativeBinomial",
    "gamma": "positive:Gamma",
    "beta": "shares:Beta",
    "ordinal": "ordinal:Ordinal",
    "exponential": "survival:Exponential",
    "weibull": "survival:Weibull",
    "quantile": "quantile:Quantile",
}
MODELS = tuple(_CLASSES)
_given: "dict[str, Family]" = {}


def register(family: "Family") -> None:
    """Make a family known by its name in this process, as `regression` does with one that it is given."""
    from isotherm.tables.families.base import Family

    if not isinstance(family, Family):
        raise must("family", "an instance of a subclass of `Family`", family, error=TypeError)
    if family.name in MODELS and type(family) is not type(_of_library(family.name)):
        raise must("name` of a `Family", "another than those of the library", family.name)
    _given[family.name] = family


def family_of(model: "str | Family", settings: Mapping[str, Any] | None = None) -> "Family":
    """Return the family of this name, with those of its fields that `settings` has; or the family that is given.

    A name is looked up among the families of the library, those that were registered, and those of other packages.
    """
    from isotherm.tables.families.base import Family

    if isinstance(model, Family):
        register(model)
        return model
    if not isinstance(model, str):
        raise must("model", "a name or a `Family`", model, error=TypeError)
    family = _named(model)
    fields = {field.name for field in dataclasses.fields(family)}
    given = {name: value for name, value in (settings or {}).items() if name in fields}
    return dataclasses.replace(family, **given)


def _named(model: str) -> "Family":
    if model in MODELS:
        return _of_library(model)
    if model in _given:
        return _given[model]
    offered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if model not in offered:
        names = [*MODELS, *_given, *sorted(offered)]
        near = difflib.get_close_matches(model, names, n=1)
        hint = f"Did you mean `{near[0]}`? " if near else ""
        raise must("model", f"one of {', '.join(names)}", model, hint + OWN_MODEL)
    return _made(offered[model].load(), model)


def _of_library(model: str) -> "Family":
    module, _, name = _CLASSES[model].partition(":")
    return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)()


def _made(offered: Any, model: str) -> "Family":
    """Return the family of an entry point, which is a class or an instance."""
    from isotherm.tables.families.base import Family

    family = offered() if isinstance(offered, type) else offered
    if not isinstance(family, Family) or family.name != model:
        rule = f"a `Family` of that name, or a class of these, in the group {GROUP}"
        raise must(f"{model}` of an installed package", rule, family, error=TypeError)
    return family


def families() -> "Iterator[Family]":
    """Yield the families of the library in order."""
    return map(_of_library, MODELS)


def proposed(kind: str) -> tuple[str, str]:
    """Return the family for a kind of target, and when another is to be chosen, in words."""
    first, others = "", []
    for family in sorted(families(), key=lambda family: family.name):
        when = family.proposed.get(kind)
        if when == "":
            first = family.name
        elif when is not None:
            others.append(f"{family.name}, {when}")
    return first, "; ".join(others)
