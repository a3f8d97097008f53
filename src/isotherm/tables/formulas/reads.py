"""What a formula reads from a table: which columns as numbers, and which as categories."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from isotherm.errors import must
from isotherm.tables.checks import check_column, check_one_value
from isotherm.tables.formulas.allowed import FUNCTIONS
from isotherm.tables.formulas.evaluate import Expression
from isotherm.tables.formulas.factors import terms
from isotherm.tables.formulas.formula import Formula
from isotherm.tables.formulas.matrix import INTERCEPT
from isotherm.tables.formulas.scan import unquoted
from isotherm.tables.table import BOOLEANS, NUMBERS, TEXT, Table


@dataclasses.dataclass(frozen=True)
class Reads:
    """What the terms of a formula read.

    - `all`: the columns, with those of groups. `numbers` and `categories` are those that terms read as such;
      `as_categories` are categories outside of `C()` too.
    - `elementwise`: by name of the matrix column, numbers that depend on one row alone.
    - `arguments`: by text, the numbers from which a transform learns.
    - `indicators`: by the beginning of the names of matrix columns, the category compared with its first level.
    """

    all: tuple[str, ...]
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    as_categories: tuple[str, ...]
    elementwise: Mapping[str, Expression]
    arguments: Mapping[str, Expression]
    indicators: Mapping[str, str]


def read_by(formula: Formula, table: Table, categorical: Sequence[str]) -> Reads:
    """Return what a formula reads from a table. Raises if a column is not there, or is of the wrong kind."""
    columns = formula.columns
    for name in columns:
        check_column("formula", name, table.kinds)
        check_one_value("formula", name, table.shapes)
    factors = [part for term in terms(formula.fixed, formula.text) for part in term]
    factors += [
        part for group in formula.groups for term in terms(group.terms, formula.text) for part in term
    ]
    _check_names(formula, [part.text for part in factors], columns)
    plain = {part.plain for part in factors if part.plain is not None}
    as_categories = {name for name in plain if table.kinds[name] == TEXT or name in categorical}
    numbers: dict[str, str] = {smooth.column: smooth.text for smooth in formula.smooths}
    for part in factors:
        if part.categories or part.plain in as_categories:
            continue
        numbers |= dict.fromkeys(part.columns, part.text)
    for name, text in numbers.items():
        if table.kinds[name] not in (NUMBERS, BOOLEANS):
            repair = f"It is in `{text}`: list the column in `numbers` if its text holds them."
            raise must(name, "a column of numbers", table.kinds[name], repair)
        if name in as_categories:
            repair = f"It is in `{text}` too: write C({name}) where it is a category."
            raise must("categorical", "columns that no expression reads as numbers", name, repair)
    categories = {name for part in factors for name in part.categories} | as_categories
    elementwise: dict[str, Expression] = {}
    indicators: dict[str, str] = {}
    for part in factors:
        name = unquoted(part.text) or part.text  # as formulaic begins the names of its columns
        if part.plain in as_categories:
            indicators[name] = part.columns[0]
        elif re.fullmatch(r"C\([^,]*\)", part.text):
            indicators[part.text] = part.columns[0]
        elif part.elementwise:
            elementwise[name] = part
    arguments = {x.text: x for part in factors for x in part.arguments}
    kept = [name for name in columns if name in numbers], [name for name in columns if name in categories]
    return Reads(
        columns, tuple(kept[0]), tuple(kept[1]), tuple(as_categories), elementwise, arguments, indicators
    )


def _check_names(formula: Formula, factors: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse columns that are named like what the formula calls."""
    for name in columns:
        called = any(re.search(rf"\b{re.escape(name)}\s*[(.]", text) for text in factors)
        if name == INTERCEPT or (name in FUNCTIONS and called):
            raise must(
                "formula", "one whose columns are not named like its functions", name, "Rename the column."
            )
