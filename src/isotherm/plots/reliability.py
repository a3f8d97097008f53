"""Calibration plots: observed frequencies against predicted probabilities."""

from typing import TYPE_CHECKING

import numpy as np

from isotherm.plots.style import BAND, EXACT, MAIN, MUTED, new_figure, tidy, title
from isotherm.scores import Calibration

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def calibration(curve: Calibration) -> "Figure":
    """Observed against predicted, with bars of ±2 standard errors; below, the number of cases of each point.

    The counts are left out if they are all equal.
    """
    with_counts = len(np.unique(curve.count)) > 1
    figure = new_figure(4.8, 5.6 if with_counts else 4.9)
    if with_counts:
        ax, below = figure.subplots(2, 1, sharex=True, height_ratios=(5, 1))
        width = 0.8 * float(np.min(np.diff(curve.predicted), initial=0.1))
        below.bar(curve.predicted, curve.count, width=width, color=BAND, ec=MUTED, lw=0.5)
        below.set_ylabel("cases", fontsize=10)
        below.locator_params(axis="y", nbins=3)
        tidy(below)
    else:
        ax = below = figure.subplots()
    ax.plot([0, 1], [0, 1], color=EXACT.color, lw=0.8)
    ax.errorbar(
        curve.predicted, curve.observed, 2 * curve.error, color=MAIN, fmt="o-", ms=4, lw=1.2, elinewidth=1
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_ylabel(curve.observed_as, fontsize=10)
    below.set_xlabel(curve.predicted_as, fontsize=10)
    ax.text(
        0.03, 0.97, "more often than predicted", va="top", fontsize=9, color=MUTED, transform=ax.transAxes
    )
    ax.text(
        0.97, 0.03, "less often than predicted", ha="right", fontsize=9, color=MUTED, transform=ax.transAxes
    )
    tidy(ax)
    title(figure, f"Calibration error {curve.calibration_error:.3f} ({curve.by_chance:.3f} by chance alone)")
    return figure
