"""Predictions of a regression along a column, effects of groups, and smooth curves."""

from typing import TYPE_CHECKING

import numpy as np

from isotherm.plots.effects import shortened
from isotherm.plots.style import CHAINS, MAIN, MUTED, NARROW, literal, new_figure, tidy, title
from isotherm.tables.marginal.along import Effects
from isotherm.tables.marginal.curves import SmoothCurve
from isotherm.tables.marginal.levels import LevelEffects
from isotherm.text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (3, 1, 1, 1)))
_EXTREMES = 20  # levels of a group at each end


def effects_along(found: Effects) -> "Figure":
    """Expected responses along a column: a line with its band for numbers, points with bars for levels."""
    rows = 1 if found.is_number else len(found.values)
    figure = new_figure(NARROW, 3.4 if found.is_number else 1.5 + 0.3 * max(rows, 3))
    ax = figure.subplots()
    count = max(1, len(found.classes))
    shape = (len(found.values), count)
    mean, low, high = (x.reshape(shape) for x in (found.mean, found.low, found.high))
    for k in range(count):
        color, label = (
            CHAINS[k % len(CHAINS)] if found.classes else MAIN,
            found.classes[k] if found.classes else None,
        )
        if found.is_number:
            ax.fill_between(found.values, low[:, k], high[:, k], color=color, alpha=0.2, lw=0)
            ax.plot(found.values, mean[:, k], color=color, ls=_DASHES[k % len(_DASHES)], lw=1.6, label=label)
            continue
        y = np.arange(rows) + (k - (count - 1) / 2) * 0.7 / count
        ax.hlines(y, low[:, k], high[:, k], color=color, lw=2, label=label or "")
        ax.plot(mean[:, k], y, "o", color=color, ms=4.5, mew=0)
    if found.is_number:
        literal(ax.set_xlabel, found.column, fontsize=10)
        literal(ax.set_ylabel, found.response, fontsize=10)
    else:
        literal(ax.set_xlabel, found.response, fontsize=10)
        _names(ax, list(found.values))
    if found.classes:
        _legend(figure, ax)
    tidy(ax)
    others = (
        "the other columns averaged over"
        if found.others == "average"
        else "the other columns at typical values"
    )
    title(figure, f"{found.target} along {found.column}", f"{100 * found.interval:g} % intervals; {others}")
    return figure


def group_levels(found: LevelEffects) -> "Figure":
    """Effects of the levels of a group, sorted: all of them, or the 20 most extreme at each end."""
    index = found.extremes(_EXTREMES)
    figure = new_figure(NARROW, 1.4 + 0.2 * len(index))
    ax = figure.subplots()
    ax.axvline(0, color=MUTED, lw=0.8)
    gap = int(np.argmax(np.diff(index) > 1)) + 1 if np.any(np.diff(index) > 1) else None
    y = np.arange(len(index), dtype=float)
    if gap is not None:
        y[gap:] += 1
        ax.axhline(gap, color=MUTED, lw=0.8, ls=(0, (2, 3)))
    opacity = np.where(found.clear[index], 1.0, 0.45)
    for place, i, alpha in zip(y, index, opacity, strict=True):
        ax.plot([found.low[i], found.high[i]], [place, place], color=MAIN, lw=1.6, alpha=alpha)
        ax.plot(found.mean[i], place, "o", color=MAIN, ms=4, alpha=alpha, mew=0)
    _names(ax, [found.levels[i] for i in index], y)
    literal(ax.set_xlabel, f"effect on the linear predictor ({found.term})", fontsize=10)
    tidy(ax)
    which = (
        f"the {len(index)} most extreme of {len(found):,} levels"
        if gap is not None
        else f"{len(found):,} levels"
    )
    title(figure, f"Effects of {found.group}: {which}", f"{100 * found.interval:g} % intervals")
    return figure


def smooth(found: SmoothCurve) -> "Figure":
    """A smooth curve of a column with its band."""
    figure = new_figure(NARROW, 3.2)
    ax = figure.subplots()
    ax.axhline(0, color=MUTED, lw=0.8)
    ax.fill_between(found.x, found.low, found.high, color=MAIN, alpha=0.2, lw=0)
    ax.plot(found.x, found.mean, color=MAIN, lw=1.6)
    literal(ax.set_xlabel, found.column, fontsize=10)
    literal(ax.set_ylabel, f"s({found.column})", fontsize=10)
    tidy(ax)
    title(figure, f"The curve of {found.column}", f"on the linear predictor; {100 * found.interval:g} % band")
    return figure


def _names(ax: "Axes", names: list[str], places: np.ndarray | None = None) -> None:
    places = np.arange(len(names)) if places is None else places
    ax.set_yticks(places, [visible(shortened(name)) for name in names], parse_math=False, usetex=False)
    ax.set_ylim(float(places[-1]) + 0.6, -0.6)
    ax.grid(axis="y", color="#e3e5e8", lw=0.6)
    ax.set_axisbelow(True)


def _legend(figure: "Figure", ax: "Axes") -> None:
    """Name the classes below the axes, where they hide nothing."""
    handles, labels = ax.get_legend_handles_labels()
    columns = min(len(labels), 4)
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, fontsize=9, frameon=False
    )
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(visible(shortened(label)))
