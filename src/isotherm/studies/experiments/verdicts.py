"""What the paper says, sentence by sentence: a verdict on each, and the number that says so."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from isotherm.reporting import page as report

KINDS = {"reproduced": "good", "partly": "fair", "not": "bad"}
_WORDS = {"reproduced": "reproduced", "partly": "partly", "not": "not reproduced"}
_STYLES = {"reproduced": "green", "partly": "yellow", "not": "red"}


def claim(text: str, verdict: str, number: int | float, evidence: str) -> dict[str, Any]:
    """A sentence of the paper, how it fared, the number that decided, and the figures around it."""
    finite = number if math.isfinite(number) else None
    return {"claim": text, "verdict": verdict, "number": finite, "evidence": evidence}


def grade(*, full: bool, part: bool) -> str:
    """The verdict."""
    return "reproduced" if full else "partly" if part else "not"


def count(claims: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts in a sentence."""
    n = {verdict: sum(c["verdict"] == verdict for c in claims) for verdict in KINDS}
    verb = "is" if n["reproduced"] == 1 else "are"
    return f"Of {len(claims)} claims {n['reproduced']} {verb} reproduced, {n['partly']} partly and {n['not']} not."


def table(claims: Sequence[Mapping[str, Any]]) -> report.Html:
    """For the page."""
    rows = [
        (c["claim"], report.badge(_WORDS[c["verdict"]], KINDS[c["verdict"]]), c["evidence"]) for c in claims
    ]
    return report.table(("Claim", "Verdict", "Evidence"), rows)


def print_table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]], console: Console) -> None:
    """Figures for the terminal, the first column to the left."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    console.print()


def show(claims: Sequence[Mapping[str, Any]], console: Console) -> None:
    """For the terminal."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 1))
    for c in claims:
        style, word = _STYLES[c["verdict"]], _WORDS[c["verdict"]]
        grid.add_row(f"[{style}]{word}[/{style}]", c["claim"])
    console.print(grid)
    console.print()
