"""Figure 3 of the paper, the same panels for larger steps, and error against friction.

All are drawn from the saved results alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm import plots
from isotherm.studies.experiments.drbm.claims import errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BEST: dict[str, Any] = {"ls": "-", "lw": 1.8}  # the friction of a method in a panel
_WORST: dict[str, Any] = {"ls": (0, (1.5, 1.2)), "lw": 1.2}
_NAMES = {"mean_error": "posterior mean", "predictive_error": "averaged prediction"}


def draw_panels(
    results: dict[str, Any],
    methods: Sequence[str],
    kind: str,
    frictions: Sequence[float],
    factors: Sequence[int] | None = None,
) -> "Figure":
    """Draw test error against data passes, one row per data set and one column per step.

    Each method has two lines, in its colour: the friction with the least error at the end, and the one with the most.
    """
    tables = results["table2"]
    steps = [_steps(results, t, factors) for t in tables]
    figure = plots.new_figure(11.5, 3.1 * len(tables) + 0.9)
    axes = figure.subplots(len(tables), len(steps[0]), sharex=True, sharey="row", squeeze=False)
    for line, table, row_steps in zip(axes, tables, steps, strict=True):
        for ax, h in zip(line, row_steps, strict=True):
            for method in methods:
                cells = [
                    c
                    for c in results["cells"]
                    if (c["data"], c["step_size"], c["variant"], c["method"])
                    == (table["data"], h, "", method)
                    and c["friction"] in frictions
                ]
                _draw(ax, sorted(cells, key=lambda c: _at_the_end(c, kind)), kind)
            diverged = [m for m in methods if _diverged(results["cells"], table["data"], m, h)]
            text = "\n".join(f"{m}: not finite" for m in diverged)
            ax.text(
                0.98,
                0.97,
                text,
                transform=ax.transAxes,
                fontsize=8.5,
                bbox={"fc": "white", "lw": 0, "pad": 1.5},
                ha="right",
                va="top",
            )
            ax.axvspan(0, 0.2 * results["settings"]["passes"], color="#f1f2f4", lw=0, zorder=0)
            ax.set_title(f"{table['data']}, h = {h / 1e-3:g} × 10⁻³", fontsize=11)
            ax.grid(color="#e3e5e8", lw=0.8)
            ax.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"test error,\n{_NAMES[kind]}")
        low = min(
            min(filter(None, c[kind]), default=1.0) for c in results["cells"] if c["data"] == table["data"]
        )
        line[0].set_ylim(0.9 * low, min(1.05 * table["majority"], 4 * low))
    for ax in axes[-1]:
        ax.set_xlabel("passes over the data (grey: burn-in)")
    axes[0, 0].set_xlim(0, results["settings"]["passes"])
    _legend(figure, methods)
    return figure


def _steps(results: dict[str, Any], table: dict[str, Any], factors: Sequence[int] | None) -> list[float]:
    if factors is not None:
        return [round(f * table["steps"][-1], 12) for f in factors]
    run = {c["step_size"] for c in results["cells"] if c["data"] == table["data"]}
    return [h for h in table["steps"] if h in run]


def _draw(ax: "Axes", cells: list[dict[str, Any]], kind: str) -> None:
    """Draw the last of the runs of a method, which are sorted by error, and over it the first."""
    for cell, line in zip((cells[-1:] + cells[:1]), (_WORST, _BEST), strict=False):
        y = np.array([np.nan if v is None else v for v in cell[kind]])
        ax.plot(_passes(cell), y, color=plots.METHODS[cell["method"]].color, **line)


def _at_the_end(cell: dict[str, Any], kind: str) -> float:
    """Return the error of a run at its end; infinite if it is not finite."""
    last = cell[kind][-1] if cell[kind] else None
    return float("inf") if last is None else float(last)


def _diverged(cells: list[dict[str, Any]], data: str, method: str, h: float) -> bool:
    """Return whether any chain of a method in a panel diverged, at any friction."""
    return any(
        c["died"]
        for c in cells
        if (c["data"], c["method"], c["step_size"], c["variant"]) == (data, method, h, "")
    )


def _passes(cell: dict[str, Any]) -> np.ndarray:
    return np.asarray(cell["passes"], float)


def draw_spread(results: dict[str, Any], methods: Sequence[str], frictions: Sequence[float]) -> "Figure":
    """Draw the error at the end against friction, at the largest step. A flat line means robustness."""
    tables = results["table2"]
    figure = plots.new_figure(11.5, 6.4)
    axes = figure.subplots(2, len(tables), sharex=True, sharey="col", squeeze=False)
    for line, kind in zip(axes, _NAMES, strict=True):
        for ax, table in zip(line, tables, strict=True):
            for method in methods:
                style = plots.METHODS[method]
                y = errors(results["cells"], table, method, kind)
                ax.plot(
                    frictions,
                    y,
                    color=style.color,
                    ls=style.dashes,
                    marker=style.marker,
                    lw=1.8,
                    label=method,
                )
            ax.axhline(table["majority"], color="#8a8f98", lw=1, label="most frequent class")
            ax.set_xscale("log")
            ax.set_xticks(list(frictions), [f"{A:g}" for A in frictions])
            ax.set_xticks([], minor=True)
            ax.grid(color="#e3e5e8", lw=0.8)
            ax.spines[["top", "right"]].set_visible(False)
            if kind == "mean_error":
                ax.set_title(f"{table['data']}, h = {table['steps'][-1] / 1e-3:g} × 10⁻³", fontsize=11)
        line[0].set_ylabel(f"test error,\n{_NAMES[kind]}")
    for ax in axes[-1]:
        ax.set_xlabel("friction A")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=len(labels) if len(labels) <= 5 else 4,
        frameon=False,
        fontsize=10,
    )
    return figure


def _legend(figure: "Figure", methods: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=plots.METHODS[m].color, lw=3, label=m) for m in methods]
    names = ("best friction A at the end", "worst friction A")
    handles += [
        Line2D([], [], color="#444444", label=name, **line)
        for name, line in zip(names, (_BEST, _WORST), strict=True)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 5), frameon=False)
