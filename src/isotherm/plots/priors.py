"""What the priors of a regression say of its target, beside the data."""

import math
from typing import TYPE_CHECKING

import numpy as np

from isotherm.plots.style import BAND, EXACT, MAIN, MUTED, WIDE, literal, new_figure, panel_axes, tidy, title
from isotherm.tables.priors.predictive import PriorLines, PriorPredictive, PriorStatistic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STATISTICS, _BINS, _PER_ROW = 4, 40, 3
_MOST_CHARACTERS = 20  # of all levels below a panel, unless they are turned
_FAR = 50.0  # ratio of a spread to that of the data from which an axis is logarithmic away from zero


def prior_predictive(found: PriorPredictive) -> "Figure":
    """Statistics of the target under the priors, with those of the data as lines, and predictions along columns."""
    statistics = found.statistics[:_STATISTICS]
    panels = len(statistics) + len(found.lines)
    figure = new_figure(WIDE, 1.0 + 2.5 * math.ceil(panels / _PER_ROW))
    axes = panel_axes(figure, panels, _PER_ROW)
    shares = found.model.family.has_classes
    for ax, statistic in zip(axes, statistics, strict=False):
        _histogram(ax, statistic, found.model.target, shares="share" in statistic.name)
    for ax, lines in zip(axes[len(statistics) :], found.lines, strict=True):
        _lines(ax, lines, found.data, shares=shares)
        literal(ax.set_ylabel, _ylabel(found), fontsize=9)
    note = "Bars and thin lines: draws from the priors. Black: the data."
    title(figure, f"{found.model.target} under the priors, before the data", note)
    return figure


def _histogram(ax: "Axes", statistic: PriorStatistic, target: str, *, shares: bool) -> None:
    values = statistic.draws[np.isfinite(statistic.draws)]
    if shares:
        edges = np.linspace(0, 1, _BINS // 2 + 1)
    else:
        unit = _unit(np.append(values, statistic.data), abs(statistic.data))
        far = unit is not None
        put, back = (np.arcsinh, np.sinh) if far else (np.asarray, np.asarray)
        scale = unit if unit is not None else 1.0
        spread = put(np.append(values, statistic.data) / scale)
        edges = scale * back(np.linspace(spread.min(), spread.max(), _BINS + 1))
        if far:
            ax.set_xscale("asinh", linear_width=scale)
            _few_ticks(ax.xaxis)
    ax.hist(values, np.unique(edges).tolist(), color=BAND, ec=MUTED, lw=0.5)
    ax.axvline(statistic.data, color=EXACT.color, lw=1.4)
    literal(ax.set_xlabel, f"{statistic.name} of {target}" if not shares else statistic.name, fontsize=9)
    ax.set_yticks([])
    tidy(ax)


def _lines(ax: "Axes", lines: PriorLines, data: np.ndarray, *, shares: bool) -> None:
    is_number = not isinstance(lines.values[0], str)
    x = np.asarray(lines.values) if is_number else np.arange(len(lines.values))
    ax.plot(x, lines.draws.T, color=MAIN, lw=0.6, alpha=0.5, marker="" if is_number else ".")
    if not is_number:
        literal_ticks(ax, [str(value) for value in lines.values])
    if shares:
        ax.set_ylim(-0.02, 1.02)
    else:
        low, high = (float(v) for v in np.quantile(data, (0.05, 0.95)))
        ax.axhspan(low, high, color=EXACT.color, alpha=0.15, lw=0)
        unit = _unit(lines.draws, max(abs(low), abs(high)))
        if unit is not None:
            ax.set_yscale("asinh", linear_width=unit)
            _few_ticks(ax.yaxis)
    literal(ax.set_xlabel, lines.column, fontsize=9)
    tidy(ax)


def literal_ticks(ax: "Axes", names: list[str]) -> None:
    """Name the places 0, 1, ... of the horizontal axis."""
    from isotherm.plots.effects import shortened
    from isotherm.text import visible

    shown = [visible(shortened(x)) for x in names]
    ax.set_xticks(range(len(names)), shown, parse_math=False, usetex=False)
    if sum(map(len, names)) > _MOST_CHARACTERS:
        ax.tick_params(axis="x", labelrotation=30)


def _ylabel(found: PriorPredictive) -> str:
    model = found.model
    if model.family.has_classes:
        return f"probability of {model.classes[-1]}"
    return f"expected {model.target}"


def _unit(values: np.ndarray, typical: float) -> float | None:
    """Return where a logarithmic axis begins, if the values reach far beyond a typical one; else `None`."""
    largest = float(np.max(np.abs(values)))
    return typical if 0 < typical * _FAR < largest else None


def _few_ticks(axis: object) -> None:
    """Put ticks of an axis at few powers of ten."""
    from matplotlib.ticker import AsinhLocator, FuncFormatter

    scale = axis.get_transform().linear_width  # pyrefly: ignore
    axis.set_major_locator(AsinhLocator(scale, numticks=5, base=10))  # pyrefly: ignore
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.3g}"))  # pyrefly: ignore
