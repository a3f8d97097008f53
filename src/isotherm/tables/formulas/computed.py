"""Columns computed from those of a table, such as the target `log(y)` or the offset `log(a) - b`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from isotherm.errors import must
from isotherm.tables.checks import as_floats, check_column, check_one_value, is_missing
from isotherm.tables.formulas.evaluate import Expression
from isotherm.tables.formulas.expressions import expression
from isotherm.tables.formulas.formula import Formula, is_expression
from isotherm.tables.table import BOOLEANS, NUMBERS, Columns, Table


class ComputedTable(Table):
    """A table with further columns of numbers, each named like the expression that it is computed from.

    A row has no value where a column of the expression has none. A value that is not finite otherwise, such as the
    logarithm of -1, is refused when its row is read.
    """

    def __init__(self, table: Table, expressions: Mapping[str, Expression]) -> None:
        self.table, self.expressions = table, dict(expressions)
        for text, made in self.expressions.items():
            for name in made.columns:
                check_column("formula", name, table.kinds)
                check_one_value("formula", name, table.shapes)
                if table.kinds[name] not in (NUMBERS, BOOLEANS):
                    repair = f"It is in `{text}`: list the column in `numbers` if its text holds them."
                    raise must(name, "a column of numbers", table.kinds[name], repair)
        self.kinds = {**table.kinds, **dict.fromkeys(self.expressions, NUMBERS)}
        self.shapes = {**table.shapes, **dict.fromkeys(self.expressions, ())}

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.table.num_rows

    def pieces(
        self, names: Sequence[str], begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the rows."""
        for first, columns in self.table.pieces(self._read(names), begin, end):
            count = len(next(iter(columns.values())))
            yield first, self._with_computed(names, columns, range(first, first + count))

    def take(self, names: Sequence[str], index: Int64[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return the rows at `index`."""
        return self._with_computed(names, self.table.take(self._read(names), index), index)

    def describe(self) -> dict[str, Any]:
        """Return what identifies the data."""
        return self.table.describe()

    def file_bytes(self, names: Sequence[str]) -> int:
        """Return how many bytes a pass over these columns reads."""
        return self.table.file_bytes(self._read(names))

    def state(self) -> str:
        """Return a text that changes if the table does."""
        return self.table.state()

    def _read(self, names: Sequence[str]) -> list[str]:
        parts = (self.expressions[name].columns if name in self.expressions else (name,) for name in names)
        return list(dict.fromkeys(name for part in parts for name in part))

    def _with_computed(self, names: Sequence[str], columns: Columns, rows: Any) -> dict[str, np.ndarray]:
        return {
            name: _computed(self.expressions[name], columns, rows)
            if name in self.expressions
            else columns[name]
            for name in names
        }


def with_computed(table: Table, formula: Formula) -> Table:
    """Return a table with the columns that the target and the roles of a formula are computed from, if any are."""
    texts = [text for text in (formula.target, *formula.special.values()) if is_expression(text, table.kinds)]
    made = {text: expression(text, formula.text) for text in texts}
    return ComputedTable(table, made) if made else table


def _computed(made: Expression, columns: Columns, rows: Any) -> Float[np.ndarray, " n"]:
    numbers = {name: as_floats(columns[name]) for name in made.columns}
    values = np.broadcast_to(made(numbers), (len(rows),))
    wrong = ~np.isfinite(values)
    if not wrong.any():
        return values
    missing = np.any([is_missing(columns[name]) for name in made.columns], axis=0)
    wrong &= ~missing
    if wrong.any():
        i = int(np.argmax(wrong))
        inputs = ", ".join(f"`{name}` is {numbers[name][i]:g}" for name in made.columns)
        repair = f"It is in row {int(rows[i]) + 1}, where {inputs}. Correct the row, or leave it out."
        raise must(made.text, "finite in every row", float(values[i]), repair)
    return np.where(missing, np.nan, values)
