"""Formulas in parts: the target, columns with a role, groups, curves and what is left for formulaic."""

import dataclasses
import re
from collections.abc import Iterable

from isotherm.tables.formulas.expressions import expression
from isotherm.tables.formulas.factors import terms
from isotherm.tables.formulas.scan import dots, quoted, split, unquoted, wrong
from isotherm.tables.formulas.terms import GroupTerm, SmoothTerm


@dataclasses.dataclass(frozen=True)
class Formula:
    """A formula in parts.

    - `target`: a column, or an expression of columns such as `log(y)`.
    - `special`: by role (`offset`, `exposure`, `weights`, `trials`, `censored`), a column or an expression.
    - `fixed`: the terms with coefficients of their own, which formulaic reads. It begins with `1` or `0`.
    - `groups`: the terms in `(terms | factor)`, and `smooths`, those in `s(column)`.
    """

    text: str
    target: str
    special: dict[str, str]
    fixed: str
    groups: tuple[GroupTerm, ...]
    smooths: tuple[SmoothTerm, ...]

    @property
    def has_dot(self) -> bool:
        """Whether a `.` stands for all other columns."""
        return bool(dots(self.fixed))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the right side names in terms, groups and curves."""
        fixed = self.without_dot().fixed
        found = [name for term in terms(fixed, self.text) for part in term for name in part.columns]
        found += [name for group in self.groups for name in group.reads]
        return tuple(dict.fromkeys([*found, *(smooth.column for smooth in self.smooths)]))

    def with_columns(self, columns: Iterable[str]) -> "Formula":
        """Return the formula with the columns that it does not name in place of a `.`."""
        places = dots(self.fixed)
        if not places:
            return self
        named = {*self.target_columns, *self.special_columns, *self.without_dot().columns}
        rest = [quoted(name) for name in columns if name not in named]
        if not rest:
            raise wrong(
                self.text, "one whose `.` stands for columns", "No other column is left: remove the `.`."
            )
        if odd := [name for name in rest if "`" in name.strip("`")]:
            raise wrong(self.text, "one whose `.` stands for columns without backticks", f"Rename {odd[0]}.")
        fixed, total = self.fixed, f"({' + '.join(rest)})"
        for i in reversed(places):
            fixed = fixed[:i] + total + fixed[i + 1 :]
        return dataclasses.replace(self, fixed=fixed)

    def without_dot(self) -> "Formula":
        """Return the formula without the terms that have a `.`."""
        pieces = split(self.fixed, "+-")
        kept = [p for p in pieces if not dots(p.text)]
        return dataclasses.replace(
            self, fixed=" ".join(f"{p.sign} {p.text}" for p in kept).removeprefix("+ ")
        )

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The columns that the target is made of."""
        return columns_of(self.target, self.text)

    @property
    def special_columns(self) -> tuple[str, ...]:
        """The columns that the roles are made of."""
        return tuple(name for text in self.special.values() for name in columns_of(text, self.text))


def columns_of(text: str, formula: str) -> tuple[str, ...]:
    """Return the columns in a role: the column that it names, or those of an expression."""
    is_quoted = f"`{text}`" in formula  # a name such as `claims-2020`, which is no difference
    return (text,) if is_column(text) or is_quoted else expression(text, formula).columns


def is_expression(text: str, columns: Iterable[str]) -> bool:
    """Return whether a target or role is to be computed, and is not one of these columns."""
    return text not in columns and not is_column(text)


def is_column(text: str) -> bool:
    """Return whether a target or role names a column, and is not to be computed."""
    return not re.search(r"[()+\-*/<>=]", text) or unquoted(text) is not None
