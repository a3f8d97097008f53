"""The validation report: one self-contained HTML page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isotherm.reporting import page as report
from isotherm.studies.validation.calibration.study import Calibration
from isotherm.studies.validation.known import TARGETS
from isotherm.studies.validation.show import HEADER, cells, label, size
from isotherm.studies.validation.table import summarise
from isotherm.studies.validation.verdict import FALSE_ALARMS, RESOLUTION, TOLERANCE, Row

_KINDS = {"holds": "good", "known limit": "fair", "unresolved": "bad", "fails": "bad"}


def write_page(
    rows: Sequence[Row],
    calibrations: Sequence[Calibration],
    results: dict[str, Any],
    figures: dict[str, Path],
) -> str:
    """Return the report as one HTML document."""
    lead = " ".join([*([summarise(rows)] if rows else []), *(c.sentence for c in calibrations)])
    sections = []
    if rows:
        sections += [
            report.Section("What is measured", [report.paragraph(text) for text in _METHOD]),
            report.Section("Figure", _table_figure(figures)),
            *(_section(name, rows) for name in dict.fromkeys(r.target for r in rows)),
        ]
    if calibrations:
        drawing = report.figure(figures["calibration"], alt=_CALIBRATION_ALT, caption=_CALIBRATION_CAPTION)
        sections.append(report.Section("Simulation-based calibration", [drawing]))
    sections += [
        report.Section("Settings", [report.definitions(results["settings"])]),
        report.Section("Versions", [report.definitions(results["versions"])]),
    ]
    return report.page("isotherm: validation", lead, sections)


def _table_figure(figures: dict[str, Path]) -> list[report.Html]:
    """Return the figure of the table, or nothing if no row has a measured quantity."""
    path = figures.get("table")
    return [] if path is None else [report.figure(path, alt=_ALT, caption=_CAPTION)]


def _section(target: str, rows: Sequence[Row]) -> report.Section:
    target_rows = [r for r in rows if r.target == target]
    body = [[label(r), *cells(r.quantities), report.badge(r.verdict, _KINDS[r.verdict])] for r in target_rows]
    parts = [report.table(HEADER, body)]
    reasons = [f"{label(r)}: {r.reason}{size(r)}" for r in target_rows if r.reason]
    if reasons:
        parts.append(report.bullets(reasons))
    about = (TARGETS[target].__doc__ or "").split("\n")[0]
    return report.Section(target, [report.paragraph(about), *parts])


_METHOD = (
    "Each row runs independent chains with minibatch gradients on a posterior that is known exactly, starting from "
    "exact draws of it. Figures are ratios to the exact value, except means, which are in posterior standard "
    "deviations; (n) is the standard error in the last digits, from the spread of the chains. The columns 'noise' "
    "show the worst of the leading eigenvectors, and the last, of the gradient noise. A thermostat holds the mean "
    "temperature of all directions at 1 even if the samples are wrong: a wrong sampler shows only in such "
    "directions.",
    "Theory predicts what each scheme gives at its finite step: the stationary moments of its linear recursion "
    "under the covariance of the noise. The measurement must agree with the prediction. A row holds if the "
    f"prediction is within {TOLERANCE:.0%} of the exact value. If theory predicts a larger error, the row is a known "
    "limit, and the error must show, beyond chance and with its sign. A measurement may miss half of a predicted "
    "error on targets that are not Gaussian and, under a thermostat, a share of the order of xi's relative "
    f"variance. A row too short to detect an error of {RESOLUTION:.0%} does not pass. If every sampler behaved as "
    f"predicted, some row of the full table would fail by chance with {FALSE_ALARMS:.1%} of seeds.",
)
_ALT = "Measured variances and temperatures of every row as ratios to the exact values, beside theory's predictions."
_CAPTION = (
    "Dots with bars of two standard errors are measured, one for each direction. Open diamonds are theory's "
    f"predictions for the scheme at this step size. The grey band is within {TOLERANCE:.0%} of the exact value. Rows "
    "in red do not pass."
)
_CALIBRATION_ALT = (
    "Empirical distribution of the ranks minus the uniform one, with simultaneous bands, and rank histograms."
)
_CALIBRATION_CAPTION = (
    "Parameters are drawn from the prior and data from the likelihood. The rank of the true value among posterior "
    "draws is uniform if the whole path from data to draws is correct. Top: the distribution function of the ranks "
    "minus the uniform one, with its simultaneous band. Bottom: the histograms."
)
