"""`isotherm validate`: runs the table and the calibration, and writes the report."""

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from isotherm import plots
from isotherm.progress import Progress
from isotherm.studies.validation import figure
from isotherm.studies.validation.calibration import figure as calibration_figure
from isotherm.studies.validation.calibration import study as calibration
from isotherm.studies.validation.page import write_page
from isotherm.studies.validation.show import markdown, show
from isotherm.studies.validation.table import CHAINS, RELAXATIONS, cases, run_table, summarise, to_json
from isotherm.studies.validation.verdict import Row
from isotherm.terminal import literal
from isotherm.versions import versions


def validate(
    out: Path,
    *,
    quick: bool,
    seed: int,
    console: Console,
    calibrate: bool = True,
    only: str = "",
    sampler: str | None = None,
) -> bool:
    """Run, print and write `results.json`, `table.md`, `figures/` and `report.html` under `out`.

    Return whether every row passes and every calibration holds. Only rows whose name contains `only` are run. With
    `sampler`, a function `file.py:function` of `Scales`, the rows are those of that sampler.
    """
    plots.require_matplotlib()
    began = time.perf_counter()
    chosen = [c for c in cases(quick=quick, sampler=sampler) if only in c.name]
    rows: list[Row] = []
    if chosen:
        with Progress("table", len(chosen), console=console, lines=True) as bar:
            bar.say("compiling")

            def done(row: Row) -> None:
                bar.advance()
                bar.say(f"{row.name}: {row.verdict}")
                bar.milestone(f"{row.name}: {row.verdict}")

            rows = run_table(chosen, quick=quick, seed=seed, done=done)
        show(rows, console)
    calibrations: list[calibration.Calibration] = []
    if calibrate:
        pieces = calibration.num_pieces(quick)
        with Progress("calibration", pieces, console=console, lines=True) as bar:

            def advance(what: str) -> None:
                bar.advance()
                bar.say(what)
                if bar.done % max(1, pieces // 10) == 0:
                    bar.milestone(what)

            calibrations = calibration.calibrate(quick=quick, seed=seed, advance=advance)
    good = all(r.passes for r in rows) and all(c.holds for c in calibrations)
    results: dict[str, Any] = {
        "validation": "quick" if quick else "full",
        "passes": good,
        "rows": [to_json(row) for row in rows],
        "calibration": [c.to_json() for c in calibrations],
        "settings": {
            "rows": len(rows),
            "chains": CHAINS,
            "relaxation times of the slowest direction": f"{RELAXATIONS[quick]:,.0f}",
            "calibration replicates": [c.replicates for c in calibrations],
            "seed": seed,
            "seconds": round(time.perf_counter() - began),
        },
        "versions": versions(),
    }
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    figures: dict[str, Path] = {}
    if any(row.quantities for row in rows):
        (out / "table.md").write_text(markdown(rows), encoding="utf-8")
        figures["table"] = plots.save(
            figure.draw([figure.line_of(r) for r in rows]), out / "figures" / "table.png"
        )
    if calibrations:
        figures["calibration"] = plots.save(
            calibration_figure.draw(calibrations), out / "figures" / "calibration.png"
        )
    (out / "report.html").write_text(write_page(rows, calibrations, results, figures), encoding="utf-8")
    for sentence in [*([summarise(rows)] if rows else []), *(c.sentence for c in calibrations)]:
        console.print(literal(sentence))
    return good
