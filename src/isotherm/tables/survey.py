"""The first pass over a table: every value that is used is checked, and how rows are encoded is found out."""

import dataclasses
import time
from collections.abc import Generator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool

from isotherm.data.sources.base import check_unchanged
from isotherm.progress import Progress
from isotherm.tables.checks import is_missing
from isotherm.tables.dependence import Sample, warn_if_dependent
from isotherm.tables.design import Design, DesignPass
from isotherm.tables.encoded import EncodedSource, Encoder
from isotherm.tables.formulas.dependence import warn_if_formula_dependent
from isotherm.tables.formulas.design import FormulaDesign
from isotherm.tables.formulas.passes import FormulaPass
from isotherm.tables.kept import Kept
from isotherm.tables.response import ResponsePass
from isotherm.tables.table import Columns, Table
from isotherm.text import visible

_CHUNK_ROWS, _CHUNK_NUMBERS = 2**16, 2**22  # rows of a chunk at most; numbers in it, unless that is few rows
_FEW_ROWS = 2**10

AnyPass = DesignPass | FormulaPass


class Complete:
    """Which rows have a value in every column that is used."""

    def __init__(self, names: Sequence[str]) -> None:
        self._gaps, self.any = dict.fromkeys(names, 0), False

    def see(self, columns: Columns) -> Bool[np.ndarray, " n"]:
        """Return which of these rows are complete."""
        gaps = {name: is_missing(columns[name]) for name in self._gaps}
        for name, is_gap in gaps.items():
            self._gaps[name] += int(is_gap.sum())
        count = len(next(iter(columns.values())))
        mask = ~np.any(list(gaps.values()), axis=0) if gaps else np.ones(count, bool)
        self.any |= bool(mask.any())
        return mask

    def check(self) -> None:
        """Raise if no row was complete."""
        if not self.any:
            worst, gaps = max(self._gaps.items(), key=lambda item: item[1])
            raise ValueError(
                f"the table must have a row without missing values; `{visible(worst)}` lacks {gaps} values."
            )


def survey(
    table: Table,
    design: AnyPass,
    response: ResponsePass,
    *,
    predictors: Mapping[str, AnyPass],
    missing: str,
    standardize: bool,
    progress: bool,
    stacklevel: int,
) -> EncodedSource:
    """Read all rows of a table once, and return them as a source of encoded rows.

    The result does not depend on how the table is stored: rows are added up in chunks of a fixed length.
    """
    passes = [design, *predictors.values()]
    read = [name for part in passes for name in part.columns]
    names = list(dict.fromkeys([*response.columns, *read]))
    length, state = chunk_length(table, names), table.state()
    sample = Sample(design.columns, table.num_rows, max(1, table_width(table, design.columns)))
    complete, kept = Complete(names), Kept(length)
    title = "pass 1: means, levels and checks"
    for rows, columns in progressing(table, names, length, title=title, show=progress):
        if missing == "drop":
            mask = complete.see(columns)
            kept.add(mask)
            if not mask.all():
                rows, columns = rows[mask], {name: x[mask] for name, x in columns.items()}
        if len(rows) == 0:
            continue
        for part in passes:
            part.see(columns, rows)
        response.see(columns, rows)
        sample.see(columns, rows)
    check_unchanged(table, state)
    if missing == "drop":
        complete.check()
    again = [part for part in passes if isinstance(part, FormulaPass) and part.second_pass]
    if again:
        title = "pass 2: columns of the formula"
        for rows, columns in progressing(table, names, length, title=title, show=progress):
            if missing == "drop":
                mask = kept.mask(int(rows[0]), int(rows[-1]) + 1)
                rows, columns = rows[mask], {name: x[mask] for name, x in columns.items()}
            for part in again:
                part.see_again(columns, rows)
    made, answer = design.finish(standardize=standardize), response.finish(standardize=standardize)
    if not made.has_intercept:
        answer = dataclasses.replace(answer, origin=0.0)
    others = {name: part.finish(standardize=standardize) for name, part in predictors.items()}
    encoder = Encoder(made, answer, others)
    source = EncodedSource(table, encoder, kept if kept.dropped else None, state)
    all_rows = lambda: (block["x"] for block in source.blocks(length))
    if isinstance(design, FormulaPass) and isinstance(made, FormulaDesign):
        if made.names:
            warn_if_formula_dependent(design, made, all_rows, stacklevel=stacklevel + 1)
    elif isinstance(made, Design):
        warn_if_dependent(sample, made, all_rows, stacklevel=stacklevel + 1)
    return source


def progressing(
    table: Table, names: Sequence[str], length: int, *, title: str, show: bool
) -> Generator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yield the rows of a table, `length` at a time. A terminal shows the title, and how fast a file is read."""
    size, began, done = table.file_bytes(names), time.perf_counter(), 0
    with Progress(title, table.num_rows, show=show and size > 0) as bar:
        for rows, columns in table.chunks(names, length):
            yield rows, columns
            done += len(rows)
            bar.advance(len(rows))
            speed = size * done / table.num_rows / (time.perf_counter() - began)
            bar.say(f"{speed / 1e6:,.0f} MB/s")


def chunk_length(table: Table, names: Sequence[str]) -> int:
    """Return the number of rows in a chunk, a multiple of 8, which depends on the width of the rows alone."""
    return max(_FEW_ROWS, min(_CHUNK_ROWS, _CHUNK_NUMBERS // table_width(table, names))) // 8 * 8


def table_width(table: Table, names: Sequence[str]) -> int:
    """Return the number of values in a row of these columns."""
    return sum(int(np.prod(table.shapes[name])) for name in names)
