"""The page and the printed tables of the restricted Boltzmann machines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from isotherm.reporting import page as report
from isotherm.studies.experiments import verdicts
from isotherm.studies.experiments.drbm.claims import final, frictions

Lines = list[tuple[str, ...]]


def show(results: dict[str, Any], console: Console) -> None:
    """Print the errors at the largest steps and the verdicts."""
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
    """The report as one HTML document."""
    settings = results["settings"]
    names = ", ".join(t["data"] for t in results["table2"])
    lead = (
        f"Discriminative restricted Boltzmann machines on {names}: test error against passes over the data. "
        f"{verdicts.count(results['claims'])} Chains of {settings['passes']} passes, the first fifth burn-in. "
        "h is the time step, A the friction or the strength of the artificial noise. Three of the claims are judged "
        "twice, for the mean of the parameters and for the averaged prediction; “partly” is some of the paper's data "
        "sets and not all."
    )
    if "covertype" in names:
        lead += " covertype stands in for acoustic, which is not here, and is not judged."
    if settings["passes"] < 100:
        lead += " The paper's chains have 100 passes: this is a quick look at a few of its panels."
    sections = [
        report.Section("What the paper says, and what came out", [verdicts.table(results["claims"])]),
        report.Section("Table 2: the data", _table2(results)),
        report.Section(
            "Figure 3",
            [
                report.figure(
                    figures["figure3-mean"],
                    alt="Test error of the posterior mean against data passes",
                    caption="Test error of the posterior mean of the parameters, as in the paper. Colour is the "
                    "method, dashes the friction A. Curves that leave the plot at the top are in the table below: "
                    "where the averaged prediction (next figure) stays low, the chain has learnt, and it is the mean "
                    "over rearranged hidden units that means nothing. Methods whose curves coincide hide each other.",
                ),
                report.figure(
                    figures["figure3-predictive"],
                    alt="Test error of the averaged prediction against data passes",
                    caption="The same chains, test error of the averaged predictive distribution, which does not "
                    "care how the hidden units are arranged.",
                ),
                report.figure(
                    figures["spread"],
                    alt="Test error against friction at the largest step",
                    caption="Error at the end against A at the largest step of each data set: a flat line is robust.",
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
        sections.append(report.Section("What else was tried", _variants(results)))
    if results["hidden_units"]:
        sections.append(report.Section("How many hidden units", _hidden(results)))
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
        report.paragraph("“Majority” is the error of always naming the most frequent class."),
    ]


def _errors(results: dict[str, Any], methods: Sequence[str]) -> tuple[tuple[str, ...], Lines]:
    """One row a data set, step and method; a column a friction."""
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
                own = [_pair(cells, t["data"], m, h, A) for A in values]
                lines.append((t["data"], f"{h:g}", m, *own))
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
                own = [_pair(cells, t["data"], m, h, A) for h in steps]
                lines.append((t["data"], m, f"{A:g}", *own))
    header = ("data set", "method", "A", *(f"{f} × largest h" for f in factors))
    return [
        report.paragraph(
            "The paper's largest step of each data set, three and ten times it, with the symmetric scheme and other "
            "covariances: test error of the posterior mean / of the averaged prediction."
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
            own = [_pair(cells, t["data"], m, h, A, name) for m in ("SGNHT", "CCAdL")]
            lines.append((t["data"], results["variants"][name], *own))
    return [
        report.paragraph(
            f"Scale of the inputs, prior, initialisation and batch size, at the largest step and A = {A:g}, "
            f"after {results['settings']['variant_passes']} passes: posterior mean / averaged "
            "prediction. Larger batches at as many passes are fewer steps. Where the two methods are equal under a "
            "change, the verdicts above on a small A depend on what was changed."
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
            "Error of the averaged prediction on the rows left out, by number of hidden units: CCAdL at A = 10 and "
            f"the largest step, {results['settings']['cv_passes']} passes, {results['settings']['folds']} folds of "
            "the training rows."
        ),
        report.table(("data set", *(f"{n} units" for n in numbers), "best", "paper"), lines),
    ]
