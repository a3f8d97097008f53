"""What a regression is asked for, by a formula or by the names of columns, checked before rows are read."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from isotherm.errors import must
from isotherm.tables.checks import check_column
from isotherm.tables.design import DesignPass
from isotherm.tables.families.base import Family
from isotherm.tables.families.registry import MODELS, OWN_MODEL, family_of
from isotherm.tables.formulas.computed import with_computed
from isotherm.tables.formulas.formula import Formula
from isotherm.tables.formulas.parse import parse
from isotherm.tables.formulas.passes import FormulaPass
from isotherm.tables.formulas.scan import quoted
from isotherm.tables.survey import AnyPass
from isotherm.tables.table import Table

_BY_FORMULA = "The formula says which columns are used."


@dataclasses.dataclass(frozen=True)
class Asked:
    """The family, the target, further columns by role, and either features or formulas.

    `predictors` are the formulas of parameters that depend on the row.
    """

    family: str | Family
    target: str
    special: Mapping[str, str]
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    formula: Formula | None = None
    predictors: Mapping[str, Formula] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(
        model: str | Family | Sequence[str],
        family: str | Family | None,
        target: str | None,
        features: Sequence[str] | None,
        exclude: Sequence[str],
        special: Mapping[str, str],
    ) -> "Asked":
        """Return what the arguments of `regression` ask for."""
        texts = [model] if isinstance(model, str) else model
        if isinstance(texts, Family) or (isinstance(model, str) and "~" not in model):
            if family is not None:
                raise must("model", 'a formula such as "y ~ x", since there is a family beside it', model)
            if target is None:
                raise must("target", 'the name of a column, or `model` a formula such as "y ~ x"', target)
            return Asked(model, target, special, features, exclude)  # pyrefly: ignore
        if not isinstance(texts, list | tuple) or not texts or not all(isinstance(x, str) for x in texts):
            raise must(
                "model", "a formula, a list of formulas, or the name of a family", model, error=TypeError
            )
        for name, value in (("target", target), ("features", features), ("exclude", exclude or None)):
            if value is not None:
                raise must(name, "left out if there is a formula", value, _BY_FORMULA)
        first, *others = [parse(text) for text in texts]
        for role, name in special.items():
            if role in first.special:
                raise must(role, "given once, in the formula or as an argument", name)
        predictors: dict[str, Formula] = {}
        for other in others:
            if other.target in predictors:
                raise must("model", f"one formula for `{other.target}`", other.text)
            predictors[other.target] = other
        return Asked(
            "linear" if family is None else family,
            first.target,
            {**first.special, **special},
            formula=first,
            predictors=predictors,
        )

    @property
    def factors(self) -> set[str]:
        """The columns of the groups, whose levels are taken as they are."""
        groups = () if self.formula is None else self.formula.groups
        return {name for group in groups for name in group.columns}

    @property
    def description(self) -> dict[str, Any]:
        """The formulas."""
        if self.formula is None:
            return {}
        return {"formula": [self.formula.text, *(x.text for x in self.predictors.values())]}

    def check_predictors(self, family: Family) -> None:
        """Refuse formulas for parameters that the family does not have, or with more than columns in them."""
        for name, formula in self.predictors.items():
            if name not in family.predictors[1:]:
                known = ", ".join(family.predictors[1:]) or "none"
                rule = f"for a parameter of {family.name} that may depend on the row"
                raise must("formula", rule, formula.text, f"These are: {known}.")
            if formula.groups or formula.smooths or formula.special:
                rule = "one of columns: groups, smooths and offsets belong to the first formula"
                raise must("formula", rule, formula.text)

    def with_offset(self, family: Family) -> "Asked":
        """Return the same with `offset(log(e))` as the offset that it is, if the family has no exposures."""
        formula, role = self.formula, "exposure"
        if formula is None or role not in formula.special or role in family.roles:
            return self
        if "offset" in self.special or re.search(r"\b(exposure|rate)\s*\(", formula.text):
            return self
        column = formula.special[role]
        own = {name: x for name, x in formula.special.items() if name != role}
        own["offset"] = f"log({column if column.isidentifier() else quoted(column)})"
        others = {name: x for name, x in self.special.items() if name != role}
        formula = dataclasses.replace(formula, special=own)
        return dataclasses.replace(self, formula=formula, special={**others, **own})

    def with_columns(self, table: Table) -> "Asked":
        """Return the same with columns in place of a `.`: those of the table that have no other part in the model."""
        if self.formula is None:
            return self
        given = {self.target, *self.special.values()}
        taken = {*given, *self.formula.target_columns, *self.formula.special_columns}
        rest = [name for name in table.kinds if name not in taken]
        in_sigma = [name for name in rest if name not in self.factors]
        predictors = {name: x.with_columns(in_sigma) for name, x in self.predictors.items()}
        return dataclasses.replace(self, formula=self.formula.with_columns(rest), predictors=predictors)

    def computed(self, table: Table) -> Table:
        """Return the table with a column for each expression in the place of a target or of another role."""
        return table if self.formula is None else with_computed(table, self.formula)

    def columns(self, table: Table, categorical: Sequence[str]) -> list[str]:
        """Return the columns of the features, after checking that every name is one and that no role shares one."""
        roles = {"target": self.target, **self.special}
        if self.formula is None:
            return _features(table.kinds, roles, self.features, self.exclude, categorical)
        for role, name in (*roles.items(), *(("categorical", name) for name in categorical)):
            check_column(role, name, table.kinds)
        passes = [
            FormulaPass(table, x, categorical=categorical) for x in (self.formula, *self.predictors.values())
        ]
        return list(dict.fromkeys(name for part in passes for name in part.columns))

    def passes(
        self, table: Table, features: Sequence[str], categorical: Sequence[str]
    ) -> tuple[AnyPass, dict[str, AnyPass]]:
        """Return what reads the table: for the linear predictor, and for parameters that depend on the row."""
        if self.formula is None:
            return DesignPass(table, features, categorical), {}
        make = lambda formula: FormulaPass(table, formula, categorical=categorical)
        return make(self.formula), {name: make(formula) for name, formula in self.predictors.items()}


def check_arguments(family: Family, given: Mapping[str, Any]) -> None:
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


def _accepted(family: Family) -> set[str]:
    """Return the arguments that a family takes beside those that all do."""
    return {*family.roles, *(field.name for field in dataclasses.fields(family))}


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
