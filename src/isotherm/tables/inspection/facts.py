"""The pass over a table that finds what its columns hold."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from isotherm.tables.checks import check_column
from isotherm.tables.csv_file import CsvFormat
from isotherm.tables.inspection.column import ColumnFacts
from isotherm.tables.inspection.csv_rows import CsvRows
from isotherm.tables.inspection.findings import Finding
from isotherm.tables.inspection.target import usual_target
from isotherm.tables.inspection.text_file import text_file
from isotherm.tables.inspection.together import Patterns, SpacedRows
from isotherm.tables.reader import is_csv, open_table
from isotherm.tables.survey import chunk_length, progressing
from isotherm.tables.table import OTHER


@dataclasses.dataclass(frozen=True)
class TableFacts:
    """What one pass has shown.

    - `form`: how the text of a CSV file is read.
    - `facts`: by column; several for a column of arrays. `unread` are columns of other types.
    - `patterns`, `sample`: rows with missing values, and evenly spaced rows.
    - `findings`: what is wrong with the text of a CSV file.
    """

    form: CsvFormat
    target: str
    facts: dict[str, list[ColumnFacts]]
    unread: tuple[str, ...]
    patterns: Patterns
    sample: SpacedRows
    findings: list[Finding]


def facts_of(path: str, target: str | None, *, progress: bool) -> TableFacts:
    """Read all rows once, in bounded memory, and return what they show."""
    if is_csv(path) and not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    findings: list[Finding] = []
    if is_csv(path):
        text = text_file(Path(path))
        rows = CsvRows(Path(path), text)
        form, names, unread = text.form, list(text.names), ()
        shapes: Mapping[str, tuple[int, ...]] = dict.fromkeys(names, ())
        chunks = rows.chunks(show=progress)
        findings += text.findings
    else:
        table = open_table(path)
        form, rows, shapes = CsvFormat(), None, table.shapes
        unread = tuple(name for name, kind in table.kinds.items() if kind == OTHER or len(shapes[name]) > 1)
        names = [name for name in table.kinds if name not in unread]
        chunks = progressing(
            table, names, chunk_length(table, names), title="reading the table", show=progress
        )
    target = usual_target(tuple(names)) if target is None else target
    check_column("--target", target, names)
    facts = {name: [ColumnFacts(part, form.decimal) for part in _parts(name, shapes[name])] for name in names}
    patterns, sample = Patterns(names), SpacedRows(sum(map(len, facts.values())))
    with contextlib.closing(chunks):
        for numbers, columns in chunks:
            for name, parts in facts.items():
                for part, values in zip(parts, _columns(columns[name]), strict=True):
                    part.see(values, numbers)
            patterns.see(columns, numbers)
            sample.see(columns, numbers)
    if facts[target][0].rows == 0:
        raise ValueError(f"{path} has no rows")
    known = {finding.kind for finding in findings}
    findings += [] if rows is None else [x for x in rows.findings if x.kind not in known]
    return TableFacts(form, target, facts, unread, patterns, sample, findings)


def _parts(name: str, shape: tuple[int, ...]) -> list[str]:
    return [f"{name}.{i}" for i in range(shape[0])] if shape else [name]


def _columns(values: np.ndarray) -> Iterator[np.ndarray]:
    yield from ([values] if values.ndim == 1 else values.T)
