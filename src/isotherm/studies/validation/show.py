"""The validation table as text, for a terminal and for Markdown."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console

from isotherm.studies.validation.measure import Quantity
from isotherm.studies.validation.verdict import Row
from isotherm.terminal import Table, literal
from isotherm.text import visible_lines

COLUMNS = (
    "mean, worst",
    "variance, median",
    "variance, worst",
    "T conf., all",
    "T conf., noise",
    "T kin., all",
    "T kin., noise",
    "xi",
)
HEADER = ("", *COLUMNS, "verdict")
_NARROW = ("variance, worst", "T conf., noise", "T kin., noise")
STYLES = {"holds": "green", "known limit": "yellow", "unresolved": "red", "fails": "bold red"}


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the table, grouped by target, and the reasons below it."""
    print_table([(r.target, label(r), r.quantities, r.verdict, STYLES[r.verdict]) for r in rows], console)
    note = (
        "ratios to the exact value, means in posterior sd; in brackets, the standard error of the last digits"
    )
    console.print(literal(note, "dim"))
    console.print()
    for row in rows:
        if row.reason:
            name = literal(row.name, STYLES[row.verdict])
            console.print(name.append(visible_lines(f": {row.reason}{size(row)}"), "none"))
    console.print()


def print_table(lines: Sequence[tuple[str, str, Sequence[Quantity], str, str]], console: Console) -> None:
    """Print lines of (group, label, quantities, verdict, style). A narrow terminal gets fewer columns."""
    shown = [i for i, name in enumerate(COLUMNS) if console.width >= 136 or name in _NARROW]
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for i in shown:
        table.add_column(COLUMNS[i].replace(", ", "\n"), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for group in dict.fromkeys(line[0] for line in lines):
        table.add_row(literal(group, "bold"))
        for _, name, quantities, verdict, style in (line for line in lines if line[0] == group):
            figures = cells(quantities)
            table.add_row(f"  {name}", *(figures[i] for i in shown), literal(verdict, style))
    console.print(table)


def label(row: Row) -> str:
    """Return the name of the row without its target."""
    parts = row.name.split(", ")
    return ", ".join([parts[0], *parts[2:]])


def cells(quantities: Sequence[Quantity]) -> list[str]:
    """Return the figures of a row as text: worst mean, variance, temperatures overall and along the noise, xi."""
    row = {q.name: q for q in quantities}.get
    return [
        _worst(row("mean")),
        _median(row("variance")),
        _worst(row("variance")),
        _worst(row("configurational")),
        _worst(row("configurational along noise")),
        _worst(row("kinetic")),
        _worst(row("kinetic along noise")),
        _worst(row("xi")),
    ]


def size(row: Row) -> str:
    """Return the largest predicted error of a known limit and its measured value; empty for other verdicts."""
    if row.verdict != "known limit" or not row.quantities:
        return ""
    gaps: list[tuple[float, Quantity, int]] = []
    for q in row.quantities:
        i = int(np.argmax(np.abs(q.predicted - q.right)))
        gaps.append((float(np.abs(q.predicted - q.right)[i]), q, i))
    _, q, i = max(gaps, key=lambda x: x[0])
    return f" ({q.name} {q.predicted[i]:.2f} predicted, {q.value[i]:.2f} ± {q.error[i]:.2f} measured)"


def _median(q: Quantity | None) -> str:
    if q is None:
        return ""
    return _with_error(np.median(q.value), np.median(q.error))


def _worst(q: Quantity | None) -> str:
    return "" if q is None else _with_error(q.value[q.worst], q.error[q.worst])


def _with_error(value: Any, error: Any) -> str:
    """Return "0.973(12)" for 0.973 with a standard error of 0.012."""
    digits = max(1, round(float(error) * 1000))
    return f"{value:.3f}({digits})"


def markdown(rows: Sequence[Row]) -> str:
    """Return the table in Markdown, with the reason for each verdict and the size of the error."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    for target in dict.fromkeys(row.target for row in rows):
        lines.append(f"| **{target}** " + "| " * len(COLUMNS) + "| |")
        for row in (r for r in rows if r.target == target):
            text = row.verdict + (f": {row.reason}{size(row)}" if row.reason else "")
            lines.append("| " + " | ".join([label(row), *cells(row.quantities), text]) + " |")
    return "\n".join(lines) + "\n"
