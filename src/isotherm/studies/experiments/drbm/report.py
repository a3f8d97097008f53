"""The report page and the printed tables of the restricted Boltzmann machine experiment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from isotherm.reporting import page as report
from isotherm.studies.experiments import verdicts
from isotherm.studies.experiments.drbm.claims import final, frictions

Lines = list[tuple[str, ...]]


def show(results: dict[str, Any], console: Console) -> None:
    """Print the errors at the end and the verdicts."""
    title = "Test error at the end: posterior mean / averaged prediction"
    verdicts.print_table(title, *_errors(results, ("SGHMC", "SGNHT", "CCAdL")), console)
    verdicts.show(results["claims"], console)


def write_page(
    results: dict[str, Any],
    figures: dict[str, Path],
    *,
    paper: Sequence[str],
    beyond: Sequence[str],
    factors: Sequence[int],
) -> str:
    """Return the report as one HTML document."""
    settings = results["settings"]
    names = ", ".join(t["data"] for t in results["table2"])
    lead = (
        f"Discriminative restricted Boltzmann machines on {names}: test error against passes over the data. "
        f"{verdicts.count(results['claims'])} Chains have {settings['passes']} passes, of which the first fifth is "
        "burn-in. h is the step size, A the friction or the strength of the artificial noise. Three of the claims "
        "are judged twice: for the mean of the parameters and for the averaged prediction. “Partly” means in some of "
        "the paper's data sets but not in all."
    )
    if "covertype" in names:
        lead += " covertype replaces acoustic, which was not available, and is not judged."
    if settings["passes"] < 100:
        lead += (
            " The paper's chains have 100 passes; this run is shorter and covers only a few of its panels."
        )
    sections = [
        report.Section("The paper's claims and our results", [verdicts.table(results["claims"])]),
        report.Section("Table 2: the data", _table2(results)),
        report.Section(
            "Figure 3",
            [
                report.figure(
                    figures["figure3-mean"],
                    alt="Test error of the posterior mean against data passes",
                    caption="Test error of the posterior mean of the parameters, as in the paper. Colours are "
                    "methods. Solid lines have the friction A that is best at the end, dotted ones the worst. For "
                    "other A, and for curves that leave the plot at the top, see the table below. Where the "
                    "averaged prediction (next figure) stays low, the chain has learnt, but its hidden units were "
                    "permuted along the way, so that the mean of the parameters is meaningless. Curves that "
                    "coincide hide each other.",
                ),
                report.figure(
                    figures["figure3-predictive"],
                    alt="Test error of the averaged prediction against data passes",
                    caption="Test error of the averaged predictive distribution for the same chains. It does not "
                    "depend on the order of the hidden units.",
                ),
                report.figure(
                    figures["spread"],
                    alt="Test error against friction at the largest step",
                    caption="Error at the end against A, at the largest step of each data set. A flat line means "
                    "that the method is robust in A.",
                ),
                report.table(
                    *_errors(results, paper), caption="At the end: posterior mean / averaged prediction"
                ),
            ],
        ),
    ]
    if settings["beyond"]:
        sections.append(
            report.Section("Beyond the paper: larger steps", _beyond(results, figures, beyond, factors))
        )
    if settings["variant_passes"]:
        sections.append(report.Section("Other settings", _variants(results)))
    if results["hidden_units"]:
        sections.append(report.Section("Number of hidden units", _hidden(results)))
    sections += [
        report.Section("What the paper leaves open", [report.bullets(results["inferred"])]),
        report.Section("Settings", [report.definitions(settings)]),
        report.Section("Versions", [report.definitions(results["versions"])]),
    ]
    return report.page("CCAdL, section 4.3: discriminative restricted Boltzmann machines", lead, sections)


def _table2(results: dict[str, Any]) -> list[report.Html]:
    header = (
        "data set",
        "training / test",
        "classes",
        "features",
        "hidden units",
        "parameters",
        "batch",
        "majority",
    )
    return [
        report.table(
            header,
            [
                (
                    t["data"],
                    f"{t['train']:,} / {t['test']:,}",
                    t["classes"],
                    t["features"],
                    t["hidden"],
                    t["parameters"],
                    t["batch_size"],
                    f"{t['majority']:.3f}",
                )
                for t in results["table2"]
            ],
        ),
        report.paragraph("“Majority” is the error of always predicting the most frequent class."),
    ]


def _errors(results: dict[str, Any], methods: Sequence[str]) -> tuple[tuple[str, ...], Lines]:
    """Return a table of errors with one row per data set, step and method, and one column per friction."""
    cells = results["cells"]
    values = frictions(cells)
    header = ("data set", "h", "method", *(f"A = {A:g}" for A in values))
    lines: Lines = []
    for t in results["table2"]:
        steps = sorted(
            {c["step_size"] for c in cells if c["data"] == t["data"] and c["method"] == methods[0]}
        )
        for h in [h for h in steps if h in t["steps"]]:
            for m in methods:
                pairs = [_pair(cells, t["data"], m, h, A) for A in values]
                lines.append((t["data"], f"{h:g}", m, *pairs))
    return header, lines


def _pair(cells: list[dict[str, Any]], data: str, method: str, h: float, A: float, variant: str = "") -> str:
    mean, predictive = (
        final(cells, data, method, h, A, k, variant) for k in ("mean_error", "predictive_error")
    )
    return "not finite" if mean == predictive == 1 else f"{mean:.3f} / {predictive:.3f}"


def _beyond(
    results: dict[str, Any], figures: dict[str, Path], methods: Sequence[str], factors: Sequence[int]
) -> list[report.Html]:
    cells, values = results["cells"], results["settings"]["beyond_frictions"]
    lines: Lines = []
    for t in results["table2"]:
        for m in methods:
            for A in values:
                steps = [round(f * t["steps"][-1], 12) for f in factors]
                pairs = [_pair(cells, t["data"], m, h, A) for h in steps]
                lines.append((t["data"], m, f"{A:g}", *pairs))
    header = ("data set", "method", "A", *(f"{f} × largest h" for f in factors))
    return [
        report.paragraph(
            "One, three and ten times the paper's largest step for each data set, with the symmetric scheme and "
            "other covariances. Entries are test errors of the posterior mean / of the averaged prediction."
        ),
        report.figure(
            figures["beyond"],
            alt="Test error at larger steps",
            caption="Test error of the averaged prediction at larger steps.",
        ),
        report.table(header, lines),
    ]


def _variants(results: dict[str, Any]) -> list[report.Html]:
    cells = results["cells"]
    names = list(dict.fromkeys(c["variant"] for c in cells if c["variant"]))
    A = min(c["friction"] for c in cells)
    lines: Lines = []
    for t in results["table2"]:
        h = t["steps"][-1]
        for name in names:
            pairs = [_pair(cells, t["data"], m, h, A, name) for m in ("SGNHT", "CCAdL")]
            lines.append((t["data"], results["variants"][name], *pairs))
    return [
        report.paragraph(
            "Changes of the input scale, prior, initialisation and batch size, at the largest step and "
            f"A = {A:g}, after {results['settings']['variant_passes']} passes. Entries are test errors of the "
            "posterior mean / of the averaged prediction. With larger batches the same number of passes has fewer "
            "steps. Where a change makes the two methods equal, the verdicts above on a small A depend on that "
            "setting."
        ),
        report.table(("data set", "change", "SGNHT", "CCAdL"), lines),
    ]


def _hidden(results: dict[str, Any]) -> list[report.Html]:
    rows = results["hidden_units"]
    numbers = list(rows[0]["errors"])
    lines = [
        (
            r["data"],
            *(f"{r['errors'][n]:.3f} ± {r['spread'][n]:.3f}" for n in numbers),
            str(r["best"]),
            str(r["paper"]),
        )
        for r in rows
    ]
    return [
        report.paragraph(
            "Error of the averaged prediction on the held-out rows, by number of hidden units, for CCAdL at A = 10 "
            f"and the largest step: {results['settings']['cv_passes']} passes, {results['settings']['folds']} folds "
            "of the training rows."
        ),
        report.table(("data set", *(f"{n} units" for n in numbers), "best", "paper"), lines),
    ]
