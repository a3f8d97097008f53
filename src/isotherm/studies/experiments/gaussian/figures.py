"""Figure 1 of the paper, and Table 1 as a figure. Both are drawn from the saved results alone."""

from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm import plots
from isotherm.studies.experiments.gaussian.table import COLUMNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SYMBOLS = {"mu": "μ", "gamma": "γ"}


def draw_figure1(results: dict[str, Any]) -> "Figure":
    """Draw the marginal densities of mu and gamma by column, exact and from each method, with the peaks enlarged."""
    record = results["figure1"]
    figure = plots.new_figure(13, 6.4)
    axes = figure.subplots(2, len(COLUMNS), sharex="row", sharey="row")
    for line, parameter in zip(axes, _SYMBOLS, strict=True):
        for ax, column in zip(line, COLUMNS, strict=True):
            curves = [
                c
                for c in record["curves"]
                if (c["step_size"], c["friction"]) == (column.step_size, column.friction)
            ]
            _draw_densities(ax, record[parameter], curves, parameter)
            _draw_peak(ax, record[parameter], curves, parameter)
            ax.set_xlabel(_SYMBOLS[parameter])
        line[0].set_ylabel(f"density of {_SYMBOLS[parameter]}")
    for line, parameter in zip(axes, _SYMBOLS, strict=True):
        tallest = max(max(c.get(parameter, [0])) for c in record["curves"])
        line[0].set_ylim(0, 1.04 * max(tallest, 1.18 * max(record[parameter]["exact"])))
    for ax, column, letter in zip(axes[0], COLUMNS, "abcd", strict=True):
        ax.set_title(f"({letter}) {column}", fontsize=11)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=11)
    return figure


def _draw_densities(ax: "Axes", exact: dict[str, Any], curves: list[dict[str, Any]], parameter: str) -> None:
    ax.plot(exact["grid"], exact["exact"], color=plots.EXACT.color, lw=2.4, label="exact")
    for curve in curves:
        style = plots.METHODS[curve["label"]]
        # A chain may have failed before its first draw.
        y = curve.get(parameter, np.full(len(exact["centres"]), np.nan))
        ax.plot(exact["centres"], y, color=style.color, ls=style.dashes, lw=1.5, label=curve["label"])
    ax.set_xlim(exact["grid"][0], exact["grid"][-1])
    ax.spines[["top", "right"]].set_visible(False)
    ax.locator_params(axis="x", nbins=5)


def _draw_peak(ax: "Axes", exact: dict[str, Any], curves: list[dict[str, Any]], parameter: str) -> None:
    grid, density = np.array(exact["grid"]), np.array(exact["exact"])
    top, sd = grid[density.argmax()], (grid[-1] - grid[0]) / 10  # the grid spans five sd on either side
    inset = ax.inset_axes((0.68, 0.44, 0.32, 0.5))
    _draw_densities(inset, exact, curves, parameter)
    inset.set_xlim(top - 0.6 * sd, top + 0.6 * sd)
    inset.set_ylim(0.78 * density.max(), 1.16 * density.max())
    inset.spines[["top", "right"]].set_visible(True)
    inset.set(xlabel="", ylabel="")
    inset.locator_params(nbins=3)
    inset.tick_params(labelsize=7, length=2, pad=1.5, color="#8a8f98")
    for spine in inset.spines.values():
        spine.set_color("#8a8f98")
    ax.indicate_inset_zoom(inset, edgecolor="#8a8f98", alpha=0.8)


def draw_table1(results: dict[str, Any]) -> "Figure":
    """Draw error and autocorrelation time: each data set, the median, and the number in the paper."""
    figure = plots.new_figure(11, 7)
    panels = figure.subplots(2, 1, sharex=True)
    titles = ("RMSE of bin probabilities", "autocorrelation time (steps)")
    for ax, name, title in zip(panels, ("rmse", "autocorrelation_time"), titles, strict=True):
        _draw_measure(ax, results["rows"], name)
        ax.set_ylabel(title)
    panels[-1].set_xticks(range(len(COLUMNS)), [str(c) for c in COLUMNS], fontsize=11)
    panels[-1].set_xlabel("step size h and friction A")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=10)
    return figure


def _draw_measure(ax: "Axes", rows: list[dict[str, Any]], name: str) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    methods = list(dict.fromkeys(r["label"] for r in rows))
    offsets = dict(zip(methods, np.linspace(-0.3, 0.3, len(methods)), strict=True))
    for label in methods:
        method_rows, style = [r for r in rows if r["label"] == label], plots.METHODS[label]
        x = np.arange(len(COLUMNS)) + offsets[label]
        for at, row in zip(x, method_rows, strict=True):
            values = [v for v in row[f"{name}_by_data_set"] if v is not None]
            spread = np.linspace(-0.035, 0.035, len(values)) if len(values) > 1 else np.zeros(len(values))
            ax.plot(at + spread, values, ".", color=style.color, ms=4, alpha=0.45, mew=0)
            if values:
                ax.vlines(at, min(values), max(values), color=style.color, lw=1.2, alpha=0.7)
        median = [np.nan if r[name] is None else r[name] for r in method_rows]
        ax.plot(x, median, style.marker, color=style.color, ms=8, label=f"{label}, median")
    for label in methods:
        published = [r for r in rows if r["label"] == label and r[f"paper_{name}"] is not None]
        x = [i + offsets[label] for i, _ in enumerate(published)]
        first = label == methods[0]
        ax.plot(
            x,
            [r[f"paper_{name}"] for r in published],
            "_",
            color="black",
            ms=17,
            mew=2,
            label="paper" if first else None,
        )
        if name == "rmse":
            method_rows = [r for r in rows if r["label"] == label]
            chance = [np.nan if r["rmse_by_chance"] is None else r["rmse_by_chance"] for r in method_rows]
            x = [i + offsets[label] for i, _ in enumerate(method_rows)]
            title = "by chance alone" if first else None
            ax.plot(x, chance, "_", color="#8a8f98", ms=17, mew=2, zorder=1, label=title)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(axis="y", color="#e3e5e8", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    for border in np.arange(len(COLUMNS) - 1) + 0.5:
        ax.axvline(border, color="#c6c9ce", lw=0.8)
    ax.set_xlim(-0.5, len(COLUMNS) - 0.5)
