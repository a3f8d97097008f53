"""The figure of the validation table: measured variances and temperatures beside theory's predictions."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.plots import EXACT, METHODS, Style, new_figure
from isotherm.studies.validation.measure import Quantity
from isotherm.studies.validation.show import label
from isotherm.studies.validation.verdict import TOLERANCE, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = {
    "variance": "variance along principal axes",
    "configurational along noise": "configurational temperature along the noise",
    "kinetic along noise": "kinetic temperature along the noise",
}
_SHOWN = 12  # directions per row; if there are more, the extremes and some in between
_LEGEND_COLUMNS = 4
_COLUMN_GAP = 0.08  # in column widths, so that tick labels of neighbours stay apart
_FAILS = "#CC0000"
_OTHER = dataclasses.replace(EXACT, marker="o")
_THEORY: dict[str, Any] = {
    "marker": "D",
    "mfc": "none",
    "mec": "0.35",
    "ms": 4.5,
    "mew": 0.7,
    "linestyle": "",
}
_LABELS = {style: name for name, style in METHODS.items()} | {
    METHODS["SGHMC, corrected"]: "SGHMC with a noise estimate",
    _OTHER: "other samplers",
}


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the figure, under the heading `group`. `theory` says whether to draw the predictions."""

    group: str
    label: str
    quantities: Sequence[Quantity]
    style: Style
    theory: bool = True


def line_of(row: Row) -> Line:
    """Return the line of a row of the validation table; it is red if the row does not pass."""
    name = row.method.split()[0]
    controlled = name == "SGHMC" and row.method != "SGHMC"
    style = METHODS.get("SGHMC, corrected" if controlled else name, _OTHER)
    if not row.passes:
        style = dataclasses.replace(style, color=_FAILS)
    return Line(row.target, label(row), row.quantities, style)


def draw(lines: Sequence[Line]) -> "Figure":
    """Return the figure, with one line per row and one column per quantity, and a legend of its marks."""
    groups = list(dict.fromkeys(line.group for line in lines))
    lines = sorted((x for x in lines if x.quantities), key=lambda x: groups.index(x.group))
    positions, headings, y = [], {}, 0.0
    for group in dict.fromkeys(line.group for line in lines):
        headings[group], y = y + 0.3, y + 1.2
        for _ in (x for x in lines if x.group == group):
            positions.append(y)
            y += 1.0
    figure = new_figure(13, 0.26 * y + 2.1)
    axes = figure.subplots(1, len(_COLUMNS), sharey=True, gridspec_kw={"wspace": _COLUMN_GAP})
    for ax, (name, title) in zip(axes, _COLUMNS.items(), strict=True):
        ax.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color="0.9", zorder=0)
        ax.axvline(1, color="0.6", linewidth=0.8, zorder=1)
        for line, height in zip(lines, positions, strict=True):
            _draw_line(ax, line, name, height)
        ax.set_title(title, fontsize=10, loc="left")
        ax.set_xscale("log")
        low, high = _limits(lines, name)
        ax.set_xlim(low, high)
        fine, coarse = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0), (0.5, 0.7, 1, 1.5, 2, 3, 5)
        ticks = [x for x in (fine if high < 2.5 * low else coarse) if low < x < high]
        ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
        ax.set_xticks([], minor=True)
        ax.grid(axis="x", color="0.93", zorder=0)
        ax.set_xlabel("ratio to the exact value")
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(positions, [line.label for line in lines], fontsize=8)
    for group, height in headings.items():
        axes[0].annotate(
            group,
            (0, height),
            xycoords=("axes fraction", "data"),
            xytext=(-6, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=8.5,
            fontweight="bold",
        )
    axes[0].set_ylim(y + 0.2, -0.2)
    handles = _legend_handles(lines)
    columns = min(_LEGEND_COLUMNS, len(handles))
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False, fontsize=9)
    return figure


def _legend_handles(lines: Sequence[Line]) -> list[Any]:
    """Return a handle for each kind of mark in the figure: first what marks mean, then the samplers."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    measured = Line2D([], [], marker="o", color="0.35", ms=3, lw=0.8, label="measured ± 2 standard errors")
    handles: list[Any] = [measured]
    if any(line.theory for line in lines):
        handles.append(Line2D([], [], **_THEORY, label="predicted by theory at this step size"))
    handles.append(Patch(color="0.9", label=f"within {TOLERANCE:.0%} of the exact value"))
    if any(line.style.color == _FAILS for line in lines):
        handles.append(Line2D([], [], marker="o", color=_FAILS, ms=3, lw=0.8, label="row that does not pass"))
    drawn = {line.style for line in lines}
    for style, name in _LABELS.items():
        if style in drawn:
            handles.append(Line2D([], [], marker=style.marker, color=style.color, ms=4, lw=0.8, label=name))
    return handles


def _draw_line(ax: Any, line: Line, name: str, y: float) -> None:
    q = _find(line, name)
    if q is None:
        return
    order = np.argsort(q.value)
    if len(order) > _SHOWN:
        order = order[np.unique(np.linspace(0, len(order) - 1, _SHOWN).astype(int))]
    heights = y + (np.linspace(-0.25, 0.25, len(order)) if len(order) > 1 else np.zeros(1))
    if line.theory:
        ax.plot(q.predicted[order], heights, **_THEORY, zorder=2)
    ax.errorbar(
        q.value[order],
        heights,
        xerr=2 * q.error[order],
        fmt=line.style.marker,
        color=line.style.color,
        ms=3,
        elinewidth=0.8,
        linestyle="",
        zorder=3,
    )


def _find(line: Line, name: str) -> Quantity | None:
    return next((q for q in line.quantities if q.name == name), None)


def _limits(lines: Sequence[Line], name: str) -> tuple[float, float]:
    """Return the range of the axis, in which every mark is visible."""
    measured = [(x, q) for x in lines if (q := _find(x, name)) is not None]
    marks = [q.value for _, q in measured] + [q.predicted for x, q in measured if x.theory]
    values = np.concatenate([*marks, np.ones(1)])
    values = values[np.isfinite(values) & (values > 0)]
    return min(0.8, 0.95 * values.min()), max(1.25, 1.05 * values.max())
