"""The report page and the printed table of the Gaussian experiment."""

from pathlib import Path
from typing import Any

from rich.console import Console

from isotherm.reporting import page as report
from isotherm.studies.experiments import verdicts
from isotherm.studies.experiments.gaussian.table import COLUMNS, Column


def show(results: dict[str, Any], console: Console) -> None:
    """Print Table 1 and the verdicts."""
    from isotherm.terminal import Table, literal

    title = "Table 1: RMSE x 10^4 and autocorrelation time, medians over data sets (range)"
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("", no_wrap=True)
    for name in ("RMSE", "", "chance", "paper", "time", "", "paper"):
        table.add_column(name, justify="right", no_wrap=True)
    for column in COLUMNS:
        table.add_row(literal(str(column), "bold"))
        for row in _rows_of(results, column):
            failures = f" ({row['dead_chains']} failed)" if row["dead_chains"] else ""
            table.add_row(
                literal(f"  {row['label']}").append(failures, "red"),
                _in_ten_thousandths(row["rmse"]),
                _range(row["rmse_range"], _in_ten_thousandths),
                _in_ten_thousandths(row["rmse_by_chance"]),
                _in_ten_thousandths(row["paper_rmse"]),
                _time(row["autocorrelation_time"]),
                _range(row["autocorrelation_time_range"], lambda t: f"{t:.0f}"),
                _time(row["paper_autocorrelation_time"]),
            )
    console.print(table)
    note = "chance: the error of an unbiased chain with the same length and autocorrelation time"
    console.print(literal(note, "dim"))
    console.print()
    verdicts.show(results["claims"], console)


def write_page(results: dict[str, Any], figures: dict[str, Path]) -> str:
    """Return the report as one HTML document."""
    settings = results["settings"]
    failed = sum(r["dead_chains"] for r in results["rows"])
    chains = sum(r["data_sets"] for r in results["rows"])
    lead = (
        f"Mean and precision of a normal distribution from {settings['num_data']} numbers, with gradients "
        f"from {settings['batch_size']} of them. {verdicts.count(results['claims'])} "
        f"{settings['data_sets']} data sets, {settings['num_samples']:,} samples per "
        f"chain; {failed} of {chains} chains failed."
    )
    if settings["num_samples"] < 1_000_000:
        lead += " The paper's chains have 1,000,000 samples; with fewer, more of each error is due to chance."
    sections = [
        report.Section("The paper's claims and our results", [verdicts.table(results["claims"])]),
        report.Section("Table 1", [report.paragraph(_TABLE_TEXT), *_tables(results)]),
        report.Section("Figures", _figures(results, figures)),
        report.Section("What the paper leaves open", [report.bullets(results["inferred"])]),
        report.Section("Settings", [report.definitions(_settings(settings))]),
        report.Section("Versions", [report.definitions(results["versions"])]),
    ]
    if failed:
        sections.insert(2, report.Section("Failed chains", [report.bullets(_failures(results))]))
    return report.page("CCAdL, section 4.1: Bayesian inference for a Gaussian distribution", lead, sections)


_TABLE_TEXT = (
    "Medians over data sets, with ranges in brackets, next to the number printed in the paper. The "
    "smallest error of each table is bold. The paper has one data set, which is not published. "
    "“By chance” is the error that an unbiased chain with the same length and autocorrelation time would "
    "have: errors near it say nothing about bias. T is the kinetic temperature, which should be 1. "
    "“Clipped” is the share of steps in which SGHMC would have had to add noise of negative variance."
)


def _tables(results: dict[str, Any]) -> list[report.Html]:
    header = ("Method", "RMSE", "paper", "by chance", "Autocorr. time", "paper", "T", "clipped")
    tables = []
    for column in COLUMNS:
        rows = _rows_of(results, column)
        best = min((r["rmse"] for r in rows if r["rmse"] is not None), default=None)
        lines = []
        for row in rows:
            rmse = f"{_rmse(row['rmse'])} {_range(row['rmse_range'], _rmse)}"
            lines.append(
                (
                    row["label"] + (f" ({row['dead_chains']} failed)" if row["dead_chains"] else ""),
                    report.strong(rmse) if row["rmse"] == best is not None else rmse,
                    _rmse(row["paper_rmse"]),
                    _rmse(row["rmse_by_chance"]),
                    f"{_time(row['autocorrelation_time'])} "
                    f"{_range(row['autocorrelation_time_range'], _time)}",
                    _time(row["paper_autocorrelation_time"]),
                    "–" if row["kinetic_temperature"] is None else f"{row['kinetic_temperature']:.3f}",
                    "–" if row["clipped_share"] is None else f"{row['clipped_share']:.1%}",
                )
            )
        tables.append(report.table(header, lines, caption=str(column)))
    return tables


def _figures(results: dict[str, Any], figures: dict[str, Path]) -> list[report.Html]:
    return [
        report.figure(
            figures["figure1"],
            alt="Marginal densities of mu and gamma for four combinations of step size and friction, exact "
            "and from each method",
            caption="Figure 1. Marginal densities of mu (top) and gamma (bottom) for the first data set; "
            "the inset enlarges the peak.",
        ),
        report.figure(
            figures["table1"],
            alt="Error and autocorrelation time of each method in each column, with the paper's numbers",
            caption=f"Table 1 as a figure. Dots are data sets ({results['settings']['data_sets']}), large "
            "markers medians, vertical lines ranges, black bars the paper's numbers, grey bars the error "
            "due to chance alone.",
        ),
    ]


def _settings(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": f"{settings['data_sets']} samples of N = {settings['num_data']} numbers from N(0, 1)",
        "batch": f"n = {settings['batch_size']}, with replacement",
        "chains": f"one per data set, method and column: {settings['num_samples']:,} samples after a "
        f"burn-in of {settings['burn_in']:,} steps, no thinning",
        "scheme": "Euler, Algorithm 1 of the paper; mass 1, temperature 1, thermal mass 2",
        "covariance": "dense, from the per-row gradients of the batch, averaged with kappa_t = 1/t",
        "precision": "float32",
        "seed": settings["seed"],
    }


def _failures(results: dict[str, Any]) -> list[str]:
    return [
        f"{row['label']}, {Column(row['step_size'], row['friction'])}: {failure}"
        for row in results["rows"]
        for failure in row["failures"]
    ]


def _rows_of(results: dict[str, Any], column: Column) -> list[dict[str, Any]]:
    key = (column.step_size, column.friction)
    return [r for r in results["rows"] if (r["step_size"], r["friction"]) == key]


def _rmse(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _time(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _in_ten_thousandths(value: float | None) -> str:
    return "–" if value is None else f"{1e4 * value:.0f}"


def _range(bounds: list[float] | None, to_text: Any) -> str:
    return "–" if bounds is None else f"[{to_text(bounds[0])}, {to_text(bounds[1])}]"
