"""`isotherm validate --peers`: runs the comparison with other libraries and writes the report."""

import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from isotherm import plots
from isotherm.plots import METHODS
from isotherm.progress import Progress
from isotherm.reporting import page as report
from isotherm.studies.validation import figure
from isotherm.studies.validation.peers.table import (
    CHAINS,
    FRICTION,
    RELAXATIONS,
    PeerRow,
    names,
    run_peers,
    to_json,
)
from isotherm.studies.validation.show import HEADER, cells, print_table
from isotherm.studies.validation.verdict import TOLERANCE
from isotherm.terminal import literal
from isotherm.versions import versions

_STYLES = {"right": "green", "off": "red", "not finite": "red", "not resolved": "yellow", "absent": "dim"}
_KINDS = {"right": "good", "off": "bad", "not finite": "bad", "not resolved": "fair", "absent": "fair"}
_LIBRARIES = ("blackjax", "posteriors", "torch")


def compare(out: Path, *, quick: bool, seed: int, console: Console, only: str = "") -> list[PeerRow]:
    """Run the comparison, print it, and write `peers.json`, `figures/peers.png` and `peers.html` under `out`."""
    plots.require_matplotlib()
    chosen = names(only)
    with Progress("peers", len(chosen), console=console, lines=True) as bar:

        def done(row: PeerRow) -> None:
            bar.advance()
            bar.say(f"{row.method}, {row.setting}: {row.verdict}")
            bar.milestone(f"{row.method}, {row.setting}: {row.verdict}")

        rows = run_peers(chosen, quick=quick, seed=seed, done=done)
    show(rows, console)
    installed = versions() | {name: _version(name) for name in _LIBRARIES}
    results = {
        "settings": {
            "chains": CHAINS,
            "friction": FRICTION,
            "relaxation times": RELAXATIONS[quick],
            "seed": seed,
        },
        "rows": [to_json(row) for row in rows],
        "versions": installed,
    }
    (out / "peers.json").write_text(json.dumps(results, indent=1) + "\n")
    lines = [_line(row) for row in rows if row.quantities]
    drawings = []
    if lines:
        path = plots.save(figure.draw(lines), out / "figures" / "peers.png")
        drawings.append(report.figure(path, alt=_ALT, caption=_CAPTION))
    sections = [
        report.Section("Figure", drawings),
        *(_section(setting, rows) for setting in dict.fromkeys(r.setting for r in rows)),
        report.Section("Settings", [report.definitions(results["settings"])]),
        report.Section("Versions", [report.definitions(installed)]),
    ]
    page = report.page("isotherm and other libraries on the same targets", _LEAD, sections)
    (out / "peers.html").write_text(page, encoding="utf-8")
    return rows


def show(rows: Sequence[PeerRow], console: Console) -> None:
    """Print the comparison, grouped by setting."""
    print_table([(r.setting, r.method, r.quantities, r.verdict, _STYLES[r.verdict]) for r in rows], console)
    for absent in dict.fromkeys(row.absent for row in rows if row.absent):
        console.print(literal(absent))


def _line(row: PeerRow) -> figure.Line:
    name = row.method.split()[1].rstrip(",")
    corrected = name == "SGHMC" and row.method.endswith(("beta", "dense"))
    style = METHODS["SGHMC, corrected" if corrected else name]
    return figure.Line(row.setting, row.method, row.quantities, style, theory=False)


def _section(setting: str, rows: Sequence[PeerRow]) -> report.Section:
    setting_rows = [r for r in rows if r.setting == setting]
    body = [
        [r.method, *cells(r.quantities), report.badge(r.verdict, _KINDS[r.verdict])] for r in setting_rows
    ]
    return report.Section(setting, [report.table(HEADER, body)])


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


_LEAD = (
    "SGHMC and SGNHT of BlackJAX and of posteriors, called as their documentation does, beside isotherm's, on "
    "posteriors that are known exactly. All discretise the same SDE with the same step size and friction, starting "
    "from exact draws of the posterior. A row is right if every mean, variance and temperature is within "
    f"{TOLERANCE:.0%}. Under SGNHT, a temperature along the noise that differs from 1 is a limit of the method, "
    "not of an implementation."
)
_ALT = "Measured variances and temperatures as ratios to the exact values, for every library, sampler and setting."
_CAPTION = (
    "Dots with bars of two standard errors are measured, one for each direction. The grey band is within "
    f"{TOLERANCE:.0%} of the exact value. Samplers that do not return a momentum have no kinetic temperature."
)
