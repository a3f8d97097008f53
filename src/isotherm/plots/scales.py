"""Standard deviations between the levels of groups, with their intervals."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from isotherm.plots.effects import shortened
from isotherm.plots.style import MAIN, NARROW, literal, new_figure, tidy, title
from isotherm.tables.marginal.contrasts import Estimate
from isotherm.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_scales(found: Mapping[str, Estimate]) -> "Figure":
    """Draw positive numbers one below the other: means, and 90 % intervals as bars, from zero on."""
    figure = new_figure(NARROW, 1.3 + 0.27 * max(len(found), 2))
    ax = figure.subplots()
    for y, x in enumerate(found.values()):
        ax.plot([x.low, x.high], [y, y], color=MAIN, lw=2)
        ax.plot(x.mean, y, "o", color=MAIN, ms=5, mew=0)
    names = [visible(shortened(name)) for name in found]
    ax.set_yticks(range(len(names)), names, parse_math=False, usetex=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(left=0)
    literal(ax.set_xlabel, "standard deviation, on the linear predictor", fontsize=10)
    ax.grid(axis="y", color="#e3e5e8", lw=0.6)
    ax.set_axisbelow(True)
    tidy(ax)
    title(figure, "How much levels differ, and how far curves bend", "90 % intervals")
    return figure
