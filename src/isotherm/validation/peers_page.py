"""`isotherm validate --peers`: the comparison from the run to the report."""

import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from isotherm import plots, report
from isotherm.plots import METHODS
from isotherm.progress import Progress
from isotherm.sampling.finish import versions
from isotherm.validation import figure
from isotherm.validation.peers_table import CHAINS, FRICTION, INDEPENDENT, PeerRow, names, run_peers, to_json
from isotherm.validation.show import COLUMNS, cells
from isotherm.validation.verdict import TOLERANCE

_STYLES = {"right": "green", "off": "red", "not finite": "red", "not resolved": "yellow", "absent": "dim"}
_KINDS = {"right": "good", "off": "bad", "not finite": "bad", "not resolved": "fair", "absent": "fair"}
_LIBRARIES = ("blackjax", "posteriors", "torch")


def compare(out: Path, *, quick: bool, seed: int, console: Console, only: str = "") -> list[PeerRow]:
    """Run the comparison, print it, and write `peers.json`, `figures/peers.png` and `peers.html` under `out`."""
    plots.require_matplotlib()
    chosen = names(only)
    with Progress("peers", len(chosen), console) as bar:

        def done(row: PeerRow) -> None:
            bar.advance()
            bar.start(f"{row.method}, {row.setting}: {row.verdict}")
            bar.milestone(f"{row.method}, {row.setting}: {row.verdict}")

        rows = run_peers(chosen, quick=quick, seed=seed, done=done)
    show(rows, console)
    found = versions() | {name: _version(name) for name in _LIBRARIES}
    results = {
        "settings": {
            "chains": CHAINS,
            "friction": FRICTION,
            "independent draws of the slowest direction": INDEPENDENT[quick],
            "seed": seed,
        },
        "rows": [to_json(row) for row in rows],
        "versions": found,
    }
    (out / "peers.json").write_text(json.dumps(results, indent=1) + "\n")
    path = plots.save(figure.draw([_line(row) for row in rows]), out / "figures" / "peers.png")
    sections = [
        report.Section("The picture", [report.figure(path, alt=_ALT, caption=_CAPTION)]),
        *(_section(setting, rows) for setting in dict.fromkeys(r.setting for r in rows)),
        report.Section("Settings", [report.definitions(results["settings"])]),
        report.Section("Versions", [report.definitions(found)]),
    ]
    page = report.page("isotherm and its peers, through the same instrument", _LEAD, sections)
    (out / "peers.html").write_text(page, encoding="utf-8")
    return rows


def show(rows: Sequence[PeerRow], console: Console) -> None:
    """Print the comparison, a block a setting."""
    wide = console.width >= 136
    shown = [
        i for i, name in enumerate(COLUMNS) if wide or name.startswith(("variance, worst", "T kin., noise"))
    ]
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for i in shown:
        table.add_column(COLUMNS[i].replace(", ", "\n"), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for setting in dict.fromkeys(row.setting for row in rows):
        table.add_row(f"[bold]{setting}[/bold]")
        for row in (r for r in rows if r.setting == setting):
            figures, style = cells(row.quantities), _STYLES[row.verdict]
            word = f"[{style}]{row.verdict}[/{style}]"
            table.add_row(f"  {row.method}", *(figures[i] for i in shown), word)
    console.print(table)
    for absent in dict.fromkeys(row.absent for row in rows if row.absent):
        console.print(absent, highlight=False)


def _line(row: PeerRow) -> figure.Line:
    name = row.method.split()[1].rstrip(",")
    corrected = name == "SGHMC" and row.method.endswith(("beta", "dense"))
    style = METHODS["SGHMC, corrected" if corrected else name]
    return figure.Line(row.setting, row.method, row.quantities, style, theory=False)


def _section(setting: str, rows: Sequence[PeerRow]) -> report.Section:
    header = ("sampler", *(name.removesuffix(", ") for name in COLUMNS), "verdict")
    own = [r for r in rows if r.setting == setting]
    body = [[r.method, *cells(r.quantities), report.badge(r.verdict, _KINDS[r.verdict])] for r in own]
    return report.Section(setting, [report.table(header, body)])


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


_LEAD = (
    "SGHMC and SGNHT of BlackJAX and of posteriors, each called as its own documentation calls it, beside "
    "isotherm's, on posteriors that are known exactly. All discretise the same SDE with the same step and friction "
    f"from exact draws of the posterior. Right: every mean, variance and temperature within {TOLERANCE:.0%}. A "
    "temperature along the noise that is not 1 under SGNHT is a limit of the method, whoever implements it."
)
_ALT = "Ratios of measured to right variances and temperatures for every library, sampler and setting."
_CAPTION = (
    "Dots with bars of two standard errors, one a direction. The grey band is right within "
    f"{TOLERANCE:.0%}. Samplers that do not return a momentum have no kinetic temperature."
)
