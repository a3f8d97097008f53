"""The report page and the printed tables of the logistic regression experiment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from isotherm.reporting import page as report
from isotherm.studies.experiments import verdicts
from isotherm.studies.experiments.logistic.figures import step_text
from isotherm.studies.experiments.logistic.table import NEAR, at, find

Panels = tuple[Sequence[str], Sequence[float]]
_TERMINAL_COLUMNS = ("method", "h", "mean, all", "by chance", "area, all", "covariance", "T")


def show(results: dict[str, Any], console: Console) -> None:
    """Print the convergence, the distances from HMC and the verdicts."""
    names, distances = _distances(results)
    pick = lambda line: tuple(x for x, name in zip(line, names, strict=True) if name in _TERMINAL_COLUMNS)
    verdicts.print_table("Test log-likelihood of the running mean", *_convergence(results), console)
    title, short = "Distance of the samples from HMC, A = 10", [pick(line) for line in distances]
    verdicts.print_table(title, pick(names), short, console)
    verdicts.show(results["claims"], console)


def write_page(
    results: dict[str, Any],
    figures: dict[str, Path],
    *,
    paper: Panels,
    beyond: Panels,
    frictions: Sequence[float],
) -> str:
    """Return the report as one HTML document."""
    s, settings, truth = results["s"], results["settings"], results["reference"]
    lead = (
        "Logistic regression on the sevens and nines of MNIST: 12,214 rows projected to 100 dimensions, with "
        f"gradients from {settings['batch_size']} rows. {verdicts.count(results['claims'])} Marginals are from "
        f"{settings['samples']:,} samples, curves from {settings['chains']} chains of {settings['passes']} passes. "
        "The paper does not state the scale of the projection. The verdicts are for the scale at which the paper's "
        "steps behave as it describes (see “What the paper leaves open”)."
    )
    if settings["samples"] < 1_000_000:
        lead += " The paper has 1,000,000 samples and 200 passes; with fewer, more of each distance is due to chance."
    s_text = ", ".join(f"{s[f'{h:g}']:.2g} at {step_text(h)}" for h in beyond[1])
    sections = [
        report.Section("The paper's claims and our results", [verdicts.table(results["claims"])]),
        report.Section(
            "Figure 2, top row: convergence",
            [
                report.figure(
                    figures["figure2-convergence"],
                    alt="Test log-likelihood against data passes, by step size and friction",
                    caption="Test log-likelihood of the running posterior mean. Lines are medians over chains, bands "
                    "their ranges. The line at the top is the posterior mean by HMC. A is the friction, h the step "
                    "size and s the largest eigenvalue of h² times the gradient noise covariance at the mode, which "
                    "limits h. The curves dip because the momentum gained during the descent carries the chains past "
                    "the mode.",
                ),
                *_tables("", *_convergence(results, *paper, frictions)),
            ],
        ),
        report.Section(
            "Figure 2, bottom row: the distribution of the samples",
            [
                report.figure(
                    figures["figure2-marginals"],
                    alt="95 % ellipses in dimensions 2 and 5, by step size",
                    caption="95 % ellipses, means (crosses) and thinned samples of CCAdL. HMC is black, with its "
                    "mean as a circle.",
                ),
                report.paragraph(_DISTANCES),
                *_tables("", *_distances(results, *paper)),
            ],
        ),
        report.Section(
            "Beyond the paper: larger steps",
            [
                report.paragraph(
                    "One, three and ten times the paper's largest step, with the symmetric scheme and the "
                    f"covariances that need no per-row gradients. s is {s_text}. In general the Euler schemes are "
                    "accurate up to s = 0.25 and the symmetric scheme up to 4 (matrix-free: 0.5); some problems "
                    "allow more, as the table shows. All chains start at w = 0, far from the mode. This is hard for "
                    "a thermostat: the heat released during the descent raises xi, which decays slowly."
                ),
                report.figure(
                    figures["beyond-convergence"],
                    alt="Test log-likelihood against data passes at larger steps",
                    caption="Test log-likelihood of the running posterior mean at larger steps. Each panel names the "
                    "methods that are not visible.",
                ),
                report.figure(
                    figures["beyond-marginals"],
                    alt="95 % ellipses at larger steps",
                    caption=f"95 % ellipses from {settings['beyond_samples']:,} samples at larger steps. HMC is "
                    "black.",
                ),
                *_tables("", *_convergence(results, *beyond, frictions)),
                *_tables("", *_distances(results, *beyond)),
            ],
        ),
        report.Section(
            "The reference",
            [
                report.paragraph(
                    f"{truth['runs']} runs of HMC with {truth['draws']:,} draws each; acceptance rate "
                    f"{truth['accepted']:.0%}, R-hat {truth['rhat']:.4f}. The means of the runs are at most "
                    f"{truth['largest_difference']:.2f} posterior standard deviations apart. The test log-likelihood "
                    f"of the mean is {truth['test_log_likelihood']:.4f}."
                )
            ],
        ),
        report.Section("What the paper leaves open", [report.bullets(results["inferred"])]),
        report.Section("Settings", [report.definitions(settings)]),
        report.Section("Versions", [report.definitions(results["versions"])]),
    ]
    return report.page("CCAdL, section 4.2: Bayesian logistic regression", lead, sections)


_DISTANCES = (
    "Distances from HMC, in dimensions 2 and 5 and in all 100. “Mean” is the distance of the means in "
    "posterior standard deviations, rms over dimensions; its “by chance” follows from the autocorrelation time "
    "and the error of the reference. “Area” is the area of the ellipse divided by that of HMC, with median and "
    "range over all 4,950 pairs of dimensions. “Covariance” is the relative error of the whole covariance in "
    "the metric of the reference, followed by the error expected by chance. The area depends on pairs of "
    "coordinates alone; the covariance also covers the narrow directions between them, where excess heat "
    "appears first. T, the kinetic temperature, should be 1. xi, the friction of the thermostat, should be "
    "near A with CCAdL; with SGNHT it is above A, since it also absorbs the gradient noise. Times are in "
    "steps; a pass has 24."
)


def _tables(caption: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[report.Html]:
    return [report.table(header, lines, caption=caption)]


def _convergence(
    results: dict[str, Any],
    methods: Sequence[str] | None = None,
    steps: Sequence[float] | None = None,
    frictions: Sequence[float] | None = None,
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a table of values after 50 passes and at the end, one row per method, step and friction."""
    rows = results["convergence"]
    if methods is not None and steps is not None and frictions is not None:
        rows = [find(rows, m, h, A) for h in steps for A in frictions for m in methods]
    last = rows[0]["passes"][-1]
    checkpoints = [50, last] if last > 50 else [last]
    window = f"T, passes {last // 2} to {last}"
    header = (
        "method",
        "h",
        "A",
        *(f"after {c} passes" for c in checkpoints),
        f"passes until within {NEAR}",
        window,
    )
    return header, [
        (
            r["method"] + (f" ({r['died']} not finite)" if r["died"] else ""),
            f"{r['step_size']:g}",
            f"{r['friction']:g}",
            *(f"{at(r, c):.3f}" if np.isfinite(at(r, c)) else "–" for c in checkpoints),
            "–" if r["passes_to_near"] is None else str(r["passes_to_near"]),
            "–" if r["kinetic"] is None else f"{r['kinetic']:.2f}",
        )
        for r in rows
    ]


def _distances(
    results: dict[str, Any], methods: Sequence[str] | None = None, steps: Sequence[float] | None = None
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows = results["marginals"]
    if methods is not None and steps is not None:
        rows = [find(rows, m, h, results["marginals"][0]["friction"]) for h in steps for m in methods]
    header = (
        "method",
        "h",
        "mean, 2 and 5",
        "area, 2 and 5",
        "mean, all",
        "by chance",
        "area, all",
        "covariance",
        "by chance",
        "samples",
        "autocorr. time, steps",
        "burn-in, steps",
        "T",
        "xi",
    )
    lines: list[tuple[str, ...]] = []
    for r in rows:
        h = f"{r['step_size']:g}"
        if r["died"]:
            lines.append((f"{r['method']} (not finite)", h, *(("–",) * (len(header) - 2))))
            continue
        low, high = r["area_ratio_range"]
        lines.append(
            (
                r["method"],
                h,
                f"{r['mean_distance']:.2f}",
                f"{r['area_ratio']:.2f}",
                f"{r['mean_rms']:.3f}",
                f"{r['mean_rms_by_chance']:.3f}",
                f"{r['area_ratio_median']:.2f} ({low:.2f} to {high:.2f})",
                f"{r['covariance_error']:.2f}",
                f"{r['covariance_by_chance']:.2f}",
                f"{r['samples']:,}",
                f"{r['autocorrelation_time']:.0f} (worst {r['autocorrelation_time_worst']:.0f})",
                f"{r['burn_in']:,}" + ("" if r["stabilised"] else " (not stable)"),
                f"{r['kinetic']:.2f}",
                "–" if r["xi"] is None else f"{r['xi']:.3g}",
            )
        )
    return header, lines
