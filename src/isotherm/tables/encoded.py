"""The rows of a table as a regression takes them, encoded when they are read."""

import dataclasses
from collections.abc import Iterator, Mapping

import jax
import numpy as np
from jaxtyping import Int64

from isotherm.data.sources.base import Source, check_index, check_range, check_unchanged, no_rows
from isotherm.tables.design import Design
from isotherm.tables.formulas.design import FormulaDesign
from isotherm.tables.kept import Kept
from isotherm.tables.response import Response
from isotherm.tables.table import Columns, Table

AnyDesign = Design | FormulaDesign


@dataclasses.dataclass(frozen=True, eq=False)
class Encoder:
    """From columns of a table to rows: standardised `x`, `y`, and `offset` and `weight` if the model has them.

    `predictors` are the designs of parameters that depend on the row, by name. Rows have their columns as `x_name`.
    """

    design: AnyDesign
    response: Response
    predictors: Mapping[str, AnyDesign] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The columns of the table that are used, once each."""
        others = [self.response.target, *self.response.special.values()]
        further = [name for design in self.predictors.values() for name in design.features]
        return list(dict.fromkeys([*self.design.features, *others, *further]))

    @property
    def row(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes and dtypes of one row."""
        others = self.response.dtypes.items()
        row = self.design.row | {name: jax.ShapeDtypeStruct((), dtype) for name, dtype in others}
        row |= {f"x_{name}": design.row["x"] for name, design in self.predictors.items()}
        return {name: x for name, x in row.items() if 0 not in x.shape}  # a model may have no column

    def empty(self, count: int) -> dict[str, np.ndarray]:
        """Return arrays for `count` rows."""
        return {name: np.empty((count, *x.shape), x.dtype) for name, x in self.row.items()}

    def encode(self, columns: Columns, out: dict[str, np.ndarray]) -> None:
        """Write some rows to `out`."""
        none = np.empty((len(columns[self.response.target]), 0), np.float32)  # a formula may have no column
        self.design.encode(columns, {"x": none, **out})
        self.response.encode(columns, out)
        for name, design in self.predictors.items():
            design.encode(columns, {"x": out.get(f"x_{name}", none)})


class EncodedSource(Source):
    """The rows of a table, for `iso.sample`.

    `kept` says which rows of the table they are; all of them if `None`. `surveyed` is the state that the table was in
    when the encoder was made: rows of a table that has changed since are refused.
    """

    def __init__(self, table: Table, encoder: Encoder, kept: Kept | None, surveyed: str) -> None:
        self.table, self.encoder, self.kept, self._surveyed = table, encoder, kept, surveyed

    @property
    def num_rows(self) -> int:
        """The number of rows that are used."""
        return self.table.num_rows if self.kept is None else self.kept.num_rows

    @property
    def row(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes and dtypes of one row."""
        return self.encoder.row

    def blocks(self, length: int, begin: int = 0, end: int | None = None) -> Iterator[dict[str, np.ndarray]]:
        """Yield rows, read from the table and encoded."""
        begin, end = check_range(self, length, begin, end)
        check_unchanged(self.table, self._surveyed)
        return self._blocks(length, begin, end) if begin < end else iter(())

    def take(self, index: Int64[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return the rows at `index`; of a Parquet table, from the row groups that hold them."""
        index = check_index(self, index)
        check_unchanged(self.table, self._surveyed)
        if len(index) == 0:
            return no_rows(self.row)
        out, rows = self.encoder.empty(len(index)), index if self.kept is None else self.kept.rows(index)
        self.encoder.encode(self.table.take(self.encoder.names, rows), out)
        return out

    def in_memory(self) -> dict[str, np.ndarray]:
        """Return all rows as arrays."""
        (rows,) = self.blocks(self.num_rows)
        return rows

    def state(self) -> str:
        """Return a text that changes if the table does."""
        return self.table.state()

    def _blocks(self, length: int, begin: int, end: int) -> Iterator[dict[str, np.ndarray]]:
        left, filled = end - begin, 0
        out = self.encoder.empty(min(length, left))
        for columns in self._pieces(begin, end):
            count, used = len(next(iter(columns.values()))), 0
            while used < count:
                step = min(count - used, len(out["y"]) - filled)
                part = {name: x[used : used + step] for name, x in columns.items()}
                self.encoder.encode(part, {name: x[filled : filled + step] for name, x in out.items()})
                used, filled = used + step, filled + step
                if filled == len(out["y"]):
                    yield out
                    left, filled = left - filled, 0
                    out = self.encoder.empty(min(length, left))

    def _pieces(self, begin: int, end: int) -> Iterator[Columns]:
        """Yield the columns of the rows from `begin` to `end`."""
        if self.kept is None:
            for _, columns in self.table.pieces(self.encoder.names, begin, end):
                yield columns
            return
        first, last = self.kept.rows(np.array([begin, end - 1] if begin < end - 1 else [begin]))[[0, -1]]
        for start, columns in self.table.pieces(self.encoder.names, int(first), int(last) + 1):
            mask = self.kept.mask(start, start + len(next(iter(columns.values()))))
            yield {name: x[mask] for name, x in columns.items()}
