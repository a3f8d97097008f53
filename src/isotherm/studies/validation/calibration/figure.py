"""The figure of the calibration: how far the ranks are from uniform, as a curve and as a histogram."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from isotherm import plots
from isotherm.studies.validation.calibration.ranks import cumulative_counts
from isotherm.studies.validation.calibration.study import FALSE_ALARM, Calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BARS = 13  # 65 ranks, five to a bar
_BAR_LEVEL = 0.99
# Curves differ in both colour and dashes, so that either is enough.
_STYLES = [plots.METHODS[name] for name in ("CCAdL", "SGHMC", "SGNHT")] + [plots.EXACT]


def draw(calibrations: Sequence[Calibration]) -> "Figure":
    """Return a figure with a column per model: the distribution function of the ranks, and their histogram."""
    figure = plots.new_figure(5.6 * len(calibrations), 7)
    axes = figure.subplots(2, len(calibrations), squeeze=False, height_ratios=(3, 2))
    for (upper, lower), c in zip(axes.T, calibrations, strict=True):
        _draw_curves(upper, c)
        _draw_histogram(lower, c)
        upper.set_title(f"{c.model}, {c.replicates} data sets", fontsize=11)
        for ax in (upper, lower):
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_xlim(0, 1)
    return figure


def _draw_curves(ax: "Axes", c: Calibration) -> None:
    share = np.arange(c.draws + 2) / (c.draws + 1)
    low, high = (np.concatenate([[0], x, [c.replicates]]) / c.replicates - share for x in c.band)
    label = f"band: left by chance in 1 of {1 / FALSE_ALARM:.0f} studies"
    ax.fill_between(share, low, high, color="#dfe2e6", lw=0, label=label)
    ax.axhline(0, color="#8a8f98", lw=0.8)
    for i, (name, style) in enumerate(zip(c.quantities, _styles(c), strict=True)):
        counts = np.concatenate([[0], cumulative_counts(c.ranks[:, i], c.draws), [c.replicates]])
        y = counts / c.replicates - share
        ax.plot(share, y, color=style.color, ls=style.dashes, lw=1.6, label=name)
    top = 1.75 * float(max(high.max(), -low.min()))  # room for the legend above the band
    ax.set_ylim(-top / 1.6, top)
    ax.set_xlabel("rank of the true value, as a share of the draws")
    ax.set_ylabel("share of ranks below, minus uniform")
    ax.legend(loc="upper center", frameon=False, fontsize=9, ncols=2)


def _draw_histogram(ax: "Axes", c: Calibration) -> None:
    from scipy import stats

    size = -(-(c.draws + 1) // _BARS)
    expected = c.replicates * size / (c.draws + 1)
    tail = (1 - _BAR_LEVEL) / 2
    low, high = stats.binom.ppf((tail, 1 - tail), c.replicates, size / (c.draws + 1))
    ax.axhspan(
        low, high, color="#dfe2e6", lw=0, label=f"{_BAR_LEVEL:.0%} interval of a bar if ranks are uniform"
    )
    ax.axhline(expected, color="#8a8f98", lw=0.8)
    edges = np.arange(_BARS + 1) * size / (c.draws + 1)
    most = 0
    for i, style in enumerate(_styles(c)):
        counts = np.bincount(c.ranks[:, i] // size, minlength=_BARS)
        ax.stairs(counts, edges, color=style.color, ls=style.dashes, lw=1.4)
        most = max(most, int(counts.max()))
    ax.set_ylim(0, 1.25 * max(most, float(high)))
    ax.locator_params(axis="y", integer=True)
    ax.set_xlabel("rank of the true value, as a share of the draws")
    ax.set_ylabel(f"data sets per {size} ranks")
    ax.legend(loc="upper center", frameon=False, fontsize=9)


def _styles(c: Calibration) -> list[plots.Style]:
    # The last quantity, the log-likelihood, looks the same in every model.
    return [*_STYLES[: len(c.quantities) - 1], _STYLES[-1]]
