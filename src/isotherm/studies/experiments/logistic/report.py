"""The page and the printed tables of the logistic regression."""

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
_NARROW = ("method", "h", "mean, all", "by chance", "area, all", "covariance", "T")  # columns for a terminal


def show(results: dict[str, Any], console: Console) -> None:
    """Print convergence, distances and the verdicts."""
    names, distances = _distances(results)
    pick = lambda line: tuple(x for x, name in zip(line, names, strict=True) if name in _NARROW)
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
    """The report as one HTML document."""
    s, settings, truth = results["s"], results["settings"], results["reference"]
    lead = (
        "Logistic regression on the sevens and nines of MNIST, 12,214 rows projected to 100 dimensions, gradients "
        f"from {settings['batch_size']} of them. {verdicts.count(results['claims'])} Marginals from "
        f"{settings['samples']:,} samples, curves from {settings['chains']} chains over {settings['passes']} passes. "
        "The scale of the projection is not published; the verdicts are for the one at which the paper's steps "
        "behave as the paper says (below: what the paper leaves open)."
    )
    if settings["samples"] < 1_000_000:
        lead += (
            " The paper has 1,000,000 samples and 200 passes: with fewer, more of every distance is chance."
        )
    wide = ", ".join(f"{s[f'{h:g}']:.2g} at {step_text(h)}" for h in beyond[1])
    sections = [
        report.Section("What the paper says, and what came out", [verdicts.table(results["claims"])]),
        report.Section(
            "Figure 2, top row: convergence",
            [
                report.figure(
                    figures["figure2-convergence"],
                    alt="Test log-likelihood against data passes by step and friction",
                    caption="Test log-likelihood of the running posterior mean; lines are medians over chains, bands "
                    "their range. The line at the top is the mean of HMC. A is the friction, h the time step and s "
                    "the largest eigenvalue of h² times the covariance of the gradient at the mode: it limits h. "
                    "The dip: momentum gained on the way down carries the chains past the mode.",
                ),
                *_tables("", *_convergence(results, *paper, frictions)),
            ],
        ),
        report.Section(
            "Figure 2, bottom row: the distribution of the samples",
            [
                report.figure(
                    figures["figure2-marginals"],
                    alt="Ellipses of 95 % in dimensions 2 and 5 by step",
                    caption="Ellipses of 95 %, means (crosses) and a thinned cloud of CCAdL's samples; HMC is black, "
                    "its mean a circle.",
                ),
                report.paragraph(_DISTANCES),
                *_tables("", *_distances(results, *paper)),
            ],
        ),
        report.Section(
            "Beyond the paper: larger steps",
            [
                report.paragraph(
                    "The paper's largest step, three and ten times it, with the symmetric scheme and the covariances "
                    f"that need no gradient per row. s is {wide}. In general Euler's schemes are to be trusted up to "
                    "s = 0.25 and the symmetric one up to 4 (matrix-free: 0.5); a problem may be kinder than that, "
                    "as the table shows. All chains start at w = 0, far from the mode, which is hard on a "
                    "thermostat: heat from the way down stays in xi, and leaves slowly."
                ),
                report.figure(
                    figures["beyond-convergence"],
                    alt="Test log-likelihood against data passes at larger steps",
                    caption="Test log-likelihood of the running posterior mean at larger steps. Methods that are not "
                    "drawn are named in the panel.",
                ),
                report.figure(
                    figures["beyond-marginals"],
                    alt="Ellipses of 95 % at larger steps",
                    caption=f"Ellipses of 95 % from {settings['beyond_samples']:,} samples at the larger steps; HMC "
                    "is black.",
                ),
                *_tables("", *_convergence(results, *beyond, frictions)),
                *_tables("", *_distances(results, *beyond)),
            ],
        ),
        report.Section(
            "The reference",
            [
                report.paragraph(
                    f"{truth['runs']} runs of HMC, {truth['draws']:,} draws each, {truth['accepted']:.0%} accepted: "
                    f"R-hat {truth['rhat']:.4f}, means of runs at most {truth['largest_difference']:.2f} posterior "
                    f"standard deviations apart, test log-likelihood of the mean {truth['test_log_likelihood']:.4f}."
                )
            ],
        ),
        report.Section("What the paper leaves open", [report.bullets(results["inferred"])]),
        report.Section("Settings", [report.definitions(settings)]),
        report.Section("Versions", [report.definitions(results["versions"])]),
    ]
    return report.page("CCAdL, section 4.2: Bayesian logistic regression", lead, sections)


_DISTANCES = (
    "Distance of means and area of ellipses, in dimensions 2 and 5 and in all 100: the mean's distance in "
    "posterior standard deviations, rms over dimensions (“by chance” from the autocorrelation time and the "
    "reference's own error); the area of the ellipse over that of HMC, median and range over all 4,950 pairs "
    "of dimensions; the error of the whole covariance, relative, in the reference's metric, and what chance "
    "would make of it. The area sees pairs of coordinates; the covariance also sees the narrow directions "
    "between them, where heat shows first. T, the kinetic temperature, should be 1. xi, the thermostat's "
    "friction, should be near A under CCAdL, and stands above A under SGNHT, which takes up the gradient "
    "noise in it. Times are in steps, of which a pass has 24."
)


def _tables(caption: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[report.Html]:
    return [report.table(header, lines, caption=caption)]


def _convergence(
    results: dict[str, Any],
    methods: Sequence[str] | None = None,
    steps: Sequence[float] | None = None,
    frictions: Sequence[float] | None = None,
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """After 50 passes and at the end; one row a method, step and friction."""
    rows = results["convergence"]
    if methods is not None and steps is not None and frictions is not None:
        rows = [find(rows, m, h, A) for h in steps for A in frictions for m in methods]
    last = rows[0]["passes"][-1]
    ends = [50, last] if last > 50 else [last]
    window = f"T, passes {last // 2} to {last}"
    header = ("method", "h", "A", *(f"after {e} passes" for e in ends), f"passes until within {NEAR}", window)
    return header, [
        (
            r["method"] + (f" ({r['died']} died)" if r["died"] else ""),
            f"{r['step_size']:g}",
            f"{r['friction']:g}",
            *(f"{at(r, e):.3f}" if np.isfinite(at(r, e)) else "–" for e in ends),
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
