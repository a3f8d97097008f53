"""Formulas that need more memory than there is, refused before they take it."""

import math
from collections.abc import Mapping, Sequence

from isotherm.errors import must
from isotherm.tables.formulas.computed import ComputedTable
from isotherm.tables.formulas.design import FormulaDesign
from isotherm.tables.formulas.factors import terms
from isotherm.tables.formulas.formula import Formula
from isotherm.tables.reader import available_bytes
from isotherm.tables.reading import ReadTable
from isotherm.tables.table import MemoryTable, Table

_MAX_COLUMNS = 10_000


def check_memory(table: Table, design: FormulaDesign) -> None:
    """Refuse rows that do not fit into memory, if the table is there: they are encoded at once."""
    while isinstance(table, ReadTable | ComputedTable):
        table = table.table
    available = available_bytes()
    if not isinstance(table, MemoryTable) or available is None:
        return
    needed = table.num_rows * sum(math.prod(x.shape) * x.dtype.itemsize for x in design.row.values())
    if needed > available:
        repair = "Store the table as Parquet, whose rows are read a piece at a time, or leave terms out."
        rule = f"one whose rows fit into {available / 1e9:.1f} GB of free memory"
        raise must("formula", rule, f"{needed / 1e9:.1f} GB", repair)


def check_width(formula: Formula, levels: Mapping[str, Sequence[str]]) -> None:
    """Refuse terms that would make too many columns, before they make them."""
    for fixed in (formula.fixed, *(group.terms for group in formula.groups)):
        total, widest, term_text = 0, 0, ""
        for factors in terms(fixed, formula.text):
            width = 1
            for part in factors:
                names = part.categories or [name for name in part.columns if name in levels]
                width *= len(levels[names[0]]) if names else part.width
            total += width
            if width > widest:
                widest, term_text = width, ":".join(part.text for part in factors)
        if total > _MAX_COLUMNS:
            repair = f"`{term_text}` alone makes {widest}. Leave it out, or write it as groups: (1 | a:b)."
            raise must("formula", f"one whose matrix has at most {_MAX_COLUMNS} columns", total, repair)
