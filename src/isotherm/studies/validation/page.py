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
    """The report as one HTML document."""
    lead = " ".join([*([summarise(rows)] if rows else []), *(c.sentence for c in calibrations)])
    sections = []
    if rows:
        sections += [
            report.Section("What is measured", [report.paragraph(text) for text in _METHOD]),
            report.Section("The picture", _picture(figures)),
            *(_section(name, rows) for name in dict.fromkeys(r.target for r in rows)),
        ]
    if calibrations:
        picture = report.figure(figures["calibration"], alt=_CALIBRATION_ALT, caption=_CALIBRATION_CAPTION)
        sections.append(report.Section("Simulation-based calibration", [picture]))
    sections += [
        report.Section("Settings", [report.definitions(results["settings"])]),
        report.Section("Versions", [report.definitions(results["versions"])]),
    ]
    return report.page("isotherm: validation", lead, sections)


def _picture(figures: dict[str, Path]) -> list[report.Html]:
    """Absent where no row got as far as a number."""
    path = figures.get("table")
    return [] if path is None else [report.figure(path, alt=_ALT, caption=_CAPTION)]


def _section(target: str, rows: Sequence[Row]) -> report.Section:
    own = [r for r in rows if r.target == target]
    body = [[label(r), *cells(r.quantities), report.badge(r.verdict, _KINDS[r.verdict])] for r in own]
    parts = [report.table(HEADER, body)]
    reasons = [f"{label(r)}: {r.reason}{size(r)}" for r in own if r.reason]
    if reasons:
        parts.append(report.bullets(reasons))
    about = (TARGETS[target].__doc__ or "").split("\n")[0]
    return report.Section(target, [report.paragraph(about), *parts])


_METHOD = (
    "Every row runs independent chains on a posterior that is known exactly, with minibatch gradients, from exact "
    "draws of it. All figures are ratios to the right value, except means, which are in posterior standard "
    "deviations; (n) is the standard error in the last digit, from the spread of the chains. 'Noise' is the worst of "
    "the leading and the quietest eigenvectors of the gradient noise: a thermostat holds the mean temperature of "
    "all directions at 1 whatever the samples are, and it is there that a wrong sampler shows.",
    "Theory says what each scheme makes at its finite step: the stationary moments of its linear recursion, with the "
    "noise's own covariance, and the measurement has to agree with it. A row holds where the prediction is within "
    f"{TOLERANCE:.0%} of right. Where theory predicts more, the error must show, beyond chance and with its sign: "
    "the row is a known limit. Half of a predicted error is granted on targets that are not Gaussian; under a "
    "thermostat a share of the order of xi's relative variance. A row that could not have seen an error of "
    f"{RESOLUTION:.0%} does not pass. Were every sampler as predicted, some row of the full table would fail by "
    f"chance in {FALSE_ALARMS:.1%} of seeds.",
)
_ALT = "Ratios of measured to right variances and temperatures for every row, beside theory's predictions."
_CAPTION = (
    "Dots with bars of two standard errors are measured, one a direction; open diamonds are theory's prediction for "
    f"the scheme at this step; the grey band is right within {TOLERANCE:.0%}. Red: does not pass."
)
_CALIBRATION_ALT = (
    "Empirical distribution of ranks minus the uniform one, with simultaneous bands, and rank histograms."
)
_CALIBRATION_CAPTION = (
    "Parameters drawn from the prior, data from the likelihood, and the rank of the truth among posterior draws: "
    "uniform where the whole path from data to draws is right. Above the difference of the ranks' distribution from "
    "the uniform one with its simultaneous band, below the histograms."
)
