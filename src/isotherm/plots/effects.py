"""The coefficients of a regression with their intervals: a forest plot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from isotherm.plots.style import MAIN, MUTED, NARROW, literal, new_figure, tidy, title
from isotherm.tables.coefficients import Effect
from isotherm.text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST = 26  # characters of a name; the middle of a longer one is left out
_LARGEST_LOG = 30.0  # logarithms of ratios are drawn up to this


def draw_effects(shown: Sequence[Effect], total: int, label: str, *, ratio: bool) -> "Figure":
    """Draw effects one below the other: means, and 90 % intervals as bars; as ratios if `ratio`.

    Pale marks have an interval that holds "no effect". `total` is the number of effects of the model. The figure fits
    a phone.
    """
    figure = new_figure(NARROW, 1.2 + 0.27 * len(shown))
    ax = figure.subplots()
    to_axis = lambda x: float(np.exp(np.clip(x, -_LARGEST_LOG, _LARGEST_LOG))) if ratio else x
    ax.axvline(to_axis(0.0), color=MUTED, lw=0.8)
    for y, effect in enumerate(shown):
        opacity = 1.0 if effect.clear else 0.45
        ax.plot([to_axis(effect.low), to_axis(effect.high)], [y, y], color=MAIN, lw=2, alpha=opacity)
        ax.plot(to_axis(effect.mean), y, "o", color=MAIN, ms=5, alpha=opacity, mew=0)
    if ratio:
        _ratio_axis(ax)
    names = [visible(shortened(effect.name)) for effect in shown]
    ax.set_yticks(range(len(shown)), names, parse_math=False, usetex=False)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    literal(ax.set_xlabel, label, fontsize=10)
    ax.grid(axis="y", color="#e3e5e8", lw=0.6)
    ax.set_axisbelow(True)
    tidy(ax)
    which = f"The {len(shown)} largest of {total:,} effects" if total > len(shown) else "Effects"
    title(figure, f"{which}, with 90 % intervals")
    return figure


def _ratio_axis(ax: "Axes") -> None:
    """Give the axis of ratios a logarithmic scale with round numbers."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    ax.set_xscale("log")
    low, high = ax.get_xlim()
    close = high < 8 * low
    locator = (
        MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]) if close else LogLocator(subs=(1.0, 2.0, 5.0), numticks=6)
    )
    ticks = [x for x in locator.tick_values(low, high) if low <= x <= high]
    if len(ticks) > 7:
        ticks = [x for x in LogLocator(numticks=7).tick_values(low, high) if low <= x <= high]
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.set_xticks([], minor=True)


def shortened(name: str) -> str:
    """Return a name without its middle if it is long."""
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[:half]}…{name[1 - half :]}"
