"""Calibration plots: observed frequencies against predicted probabilities."""

from typing import TYPE_CHECKING

import numpy as np

from isotherm.plots.style import BAND, EXACT, MAIN, MUTED, literal, new_figure, tidy, title
from isotherm.scores import Calibration

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def calibration(curve: Calibration) -> "Figure":
    """Observed against predicted, with bars of ±2 standard errors; below, the number of cases of each point.

    The counts are left out if they are all equal. Bars end at 0 and 1. So do the axes, unless all
    probabilities are small.
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
    bars = np.stack(
        [np.minimum(2 * curve.error, curve.observed), np.minimum(2 * curve.error, 1 - curve.observed)]
    )
    ax.errorbar(curve.predicted, curve.observed, bars, color=MAIN, fmt="o-", ms=4, lw=1.2, elinewidth=1)
    top = _top(curve)
    ax.set(xlim=(-0.02 * top, 1.02 * top), ylim=(-0.02 * top, 1.02 * top))
    literal(ax.set_ylabel, curve.observed_as, fontsize=10)
    literal(below.set_xlabel, curve.predicted_as, fontsize=10)
    ax.text(
        0.03, 0.97, "more often than predicted", va="top", fontsize=9, color=MUTED, transform=ax.transAxes
    )
    ax.text(
        0.97, 0.03, "less often than predicted", ha="right", fontsize=9, color=MUTED, transform=ax.transAxes
    )
    tidy(ax)
    title(figure, f"Calibration error {curve.calibration_error:.3f} ({curve.by_chance:.3f} by chance alone)")
    return figure


def _top(curve: Calibration) -> float:
    """Return the end of the axes: 1, or a smaller round number that holds all points if they are below a third."""
    highest = float(max(curve.predicted.max(), np.max(curve.observed + 2 * curve.error)))
    if not 0 < highest < 1 / 3:
        return 1.0
    unit = 10.0 ** np.floor(np.log10(highest))
    return float(np.ceil(highest / unit) * unit)
