"""The picture of the validation table: measured variances and temperatures beside theory's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.plots import METHODS, Style, new_figure
from isotherm.validation.show import label
from isotherm.validation.verdict import TOLERANCE, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = {
    "variance": "variance, by principal axis",
    "configurational along noise": "configurational temperature, along the noise",
    "kinetic along noise": "kinetic temperature, along the noise",
}
_SHOWN = 12  # directions of a row; of more, the extremes and some between


def draw(rows: Sequence[Row]) -> "Figure":
    """A line a row: dots with error bars are measured, open diamonds are theory, the grey band is right."""
    targets = list(dict.fromkeys(r.target for r in rows))
    rows = sorted((r for r in rows if r.quantities), key=lambda r: targets.index(r.target))
    positions, headings, y = {}, {}, 0.0
    for target in targets:
        headings[target], y = y + 0.3, y + 1.2
        for row in (r for r in rows if r.target == target):
            positions[row.name] = y
            y += 1.0
    figure = new_figure(13, 0.26 * y + 1.4)
    axes = figure.subplots(1, len(_COLUMNS), sharey=True)
    for ax, (name, title) in zip(axes, _COLUMNS.items(), strict=True):
        ax.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color="0.9", zorder=0)
        ax.axvline(1, color="0.6", linewidth=0.8, zorder=1)
        for row in rows:
            _draw_row(ax, row, name, positions[row.name])
        ax.set_title(title, fontsize=10, loc="left")
        ax.set_xscale("log")
        low, high = _limits(rows, name)
        ax.set_xlim(low, high)
        marks = [x for x in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0) if low < x < high]
        ax.set_xticks(marks, [f"{x:g}" for x in marks])
        ax.set_xticks([], minor=True)
        ax.grid(axis="x", color="0.93", zorder=0)
        ax.set_xlabel("ratio to the right value")
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(list(positions.values()), [label(row) for row in rows], fontsize=8)
    for target, height in headings.items():
        axes[0].annotate(
            target,
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


def _draw_row(ax: Any, row: Row, name: str, y: float) -> None:
    q = row[name]
    if q is None:
        return
    style = _style(row.method)
    order = np.argsort(q.value)
    if len(order) > _SHOWN:
        order = order[np.unique(np.linspace(0, len(order) - 1, _SHOWN).astype(int))]
    offsets = np.linspace(-0.25, 0.25, len(order)) if len(order) > 1 else np.zeros(1)
    color = style.color if row.passes else "#CC0000"
    ax.plot(
        q.predicted[order], y + offsets, "D", mfc="none", mec="0.35", ms=4.5, mew=0.7, linestyle="", zorder=2
    )
    ax.errorbar(
        q.value[order],
        y + offsets,
        xerr=2 * q.error[order],
        fmt=style.marker,
        color=color,
        ms=3,
        elinewidth=0.8,
        linestyle="",
        zorder=3,
    )


def _style(method: str) -> Style:
    name = method.split()[0]
    controlled = name == "SGHMC" and method != "SGHMC"
    return METHODS["SGHMC, corrected" if controlled else name]


def _limits(rows: Sequence[Row], name: str) -> tuple[float, float]:
    values = np.concatenate([q.value for r in rows if (q := r[name]) is not None] + [np.ones(1)])
    values = values[np.isfinite(values) & (values > 0)]
    return min(0.8, 0.95 * values.min()), max(1.25, 1.05 * values.max())
