"""The picture of the validation table: measured variances and temperatures beside theory's."""

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
    "variance": "variance, by principal axis",
    "configurational along noise": "configurational temperature, along the noise",
    "kinetic along noise": "kinetic temperature, along the noise",
}
_SHOWN = 12  # directions of a row; of more, the extremes and some between


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the picture, under the heading `group`. Theory's diamonds are drawn where there is a theory."""

    group: str
    label: str
    quantities: Sequence[Quantity]
    style: Style
    theory: bool = True


def line_of(row: Row) -> Line:
    """A row of the validation table; one that does not pass is red."""
    name = row.method.split()[0]
    controlled = name == "SGHMC" and row.method != "SGHMC"
    style = METHODS.get("SGHMC, corrected" if controlled else name, EXACT)
    if not row.passes:
        style = dataclasses.replace(style, color="#CC0000")
    return Line(row.target, label(row), row.quantities, style)


def draw(lines: Sequence[Line]) -> "Figure":
    """Dots with error bars are measured, open diamonds are theory, the grey band is right."""
    groups = list(dict.fromkeys(line.group for line in lines))
    lines = sorted((x for x in lines if x.quantities), key=lambda x: groups.index(x.group))
    positions, headings, y = [], {}, 0.0
    for group in dict.fromkeys(line.group for line in lines):
        headings[group], y = y + 0.3, y + 1.2
        for _ in (x for x in lines if x.group == group):
            positions.append(y)
            y += 1.0
    figure = new_figure(13, 0.26 * y + 1.4)
    axes = figure.subplots(1, len(_COLUMNS), sharey=True)
    for ax, (name, title) in zip(axes, _COLUMNS.items(), strict=True):
        ax.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color="0.9", zorder=0)
        ax.axvline(1, color="0.6", linewidth=0.8, zorder=1)
        for line, height in zip(lines, positions, strict=True):
            _draw_line(ax, line, name, height)
        ax.set_title(title, fontsize=10, loc="left")
        ax.set_xscale("log")
        low, high = _limits(lines, name)
        ax.set_xlim(low, high)
        spaced = (
            (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0) if high < 2.5 * low else (0.5, 0.7, 1, 1.5, 2, 3, 5)
        )
        marks = [x for x in spaced if low < x < high]
        ax.set_xticks(marks, [f"{x:g}" for x in marks])
        ax.set_xticks([], minor=True)
        ax.grid(axis="x", color="0.93", zorder=0)
        ax.set_xlabel("ratio to the right value")
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
    axes[0].set_ylim(y + 0.2, 0.2)
    return figure


def _draw_line(ax: Any, line: Line, name: str, y: float) -> None:
    q = _find(line, name)
    if q is None:
        return
    order = np.argsort(q.value)
    if len(order) > _SHOWN:
        order = order[np.unique(np.linspace(0, len(order) - 1, _SHOWN).astype(int))]
    heights = y + (np.linspace(-0.25, 0.25, len(order)) if len(order) > 1 else np.zeros(1))
    if line.theory:
        theory = q.predicted[order]
        ax.plot(theory, heights, "D", mfc="none", mec="0.35", ms=4.5, mew=0.7, linestyle="", zorder=2)
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
    values = np.concatenate([q.value for x in lines if (q := _find(x, name)) is not None] + [np.ones(1)])
    values = values[np.isfinite(values) & (values > 0)]
    return min(0.8, 0.95 * values.min()), max(1.25, 1.05 * values.max())
