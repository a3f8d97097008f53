"""Verdicts on the paper's claims: one for each sentence, with the number that decides it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from isotherm.reporting import page as report

KINDS = {"reproduced": "good", "partly": "fair", "not": "bad"}
_WORDS = {"reproduced": "reproduced", "partly": "partly", "not": "not reproduced"}
_STYLES = {"reproduced": "green", "partly": "yellow", "not": "red"}


def claim(text: str, verdict: str, number: int | float, evidence: str) -> dict[str, Any]:
    """Return a record of a sentence of the paper, its verdict, the deciding number and the evidence in words."""
    finite = number if math.isfinite(number) else None
    return {"claim": text, "verdict": verdict, "number": finite, "evidence": evidence}


def grade(*, full: bool, part: bool) -> str:
    """Return the verdict on a claim that holds fully, in part or not at all."""
    return "reproduced" if full else "partly" if part else "not"


def count(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence that counts the verdicts."""
    n = {verdict: sum(c["verdict"] == verdict for c in claims) for verdict in KINDS}
    verb = "is" if n["reproduced"] == 1 else "are"
    return f"Of {len(claims)} claims, {n['reproduced']} {verb} reproduced, {n['partly']} partly and {n['not']} not."


def table(claims: Sequence[Mapping[str, Any]]) -> report.Html:
    """Return the claims with verdicts and evidence as an HTML table."""
    rows = [
        (c["claim"], report.badge(_WORDS[c["verdict"]], KINDS[c["verdict"]]), c["evidence"]) for c in claims
    ]
    return report.table(("Claim", "Verdict", "Evidence"), rows)


def print_table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]], console: Console) -> None:
    """Print a table to the terminal, with the first column left-aligned and the others right-aligned."""
    from isotherm.terminal import Table

    table = Table(title=title, title_justify="left", box=None)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    console.print()


def show(claims: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print the verdicts and claims to the terminal."""
    from isotherm.terminal import Table, literal

    grid = Table.grid(padding=(0, 2, 0, 1))
    for c in claims:
        style, word = _STYLES[c["verdict"]], _WORDS[c["verdict"]]
        grid.add_row(literal(word, style), c["claim"])
    console.print(grid)
    console.print()
