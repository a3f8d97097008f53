"""Figure 2 of the paper, and the same panels for larger steps. Both are drawn from the saved results alone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm import plots
from isotherm.studies.experiments.logistic.table import find

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVEL = 0.95  # of a bivariate normal distribution, inside the ellipse
_RADIUS = np.sqrt(-2 * np.log(1 - _LEVEL))  # of that ellipse, in sd
_REACH = 2.1  # half-width of the plot, in half-widths of the reference ellipse


def step_text(h: float) -> str:
    """Return a step size as text, such as `h = 0.2 × 10⁻⁴`."""
    return f"h = {h / 1e-4:g} × 10⁻⁴"


def draw_convergence(
    results: dict[str, Any], methods: Sequence[str], steps: Sequence[float], frictions: Sequence[float]
) -> "Figure":
    """Draw test log-likelihood of the running mean against data passes, one column per step, one row per friction."""
    figure = plots.new_figure(11.5, 8.6)
    axes = figure.subplots(len(frictions), len(steps), sharex=True, sharey=True)
    level = results["reference"]["test_log_likelihood"]
    for line, A in zip(axes, frictions, strict=True):
        for ax, h in zip(line, steps, strict=True):
            ax.axhline(level, color=plots.EXACT.color, lw=1, label="posterior mean by HMC")
            notes = [_draw_curve(ax, find(results["convergence"], m, h, A), level) for m in methods]
            text = "\n".join(filter(None, notes))
            ax.text(0.98, 0.03, text, transform=ax.transAxes, fontsize=8.5, ha="right", va="bottom")
            ax.grid(color="#e3e5e8", lw=0.8)
            ax.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"A = {A:g}\ntest log-likelihood per point")
    for ax, h in zip(axes[0], steps, strict=True):
        ax.set_title(f"{step_text(h)}   (s = {results['s'][f'{h:g}']:.2g})", fontsize=11)
    for ax in axes[-1]:
        ax.set_xlabel("passes over the data")
    last = results["convergence"][0]["passes"][-1]
    axes[0, 0].set_xlim(0, last)
    axes[0, 0].set_ylim(*_limits(level))
    _legend(figure, axes[0, 0])
    return figure


def _limits(level: float) -> tuple[float, float]:
    return level - 0.3, level + 0.02


def _draw_curve(ax: "Axes", row: dict[str, Any], level: float) -> str:
    """Draw a curve. Return a note if it leaves the plot or its chains diverge, otherwise an empty string."""
    style = plots.METHODS[row["method"]]
    values = lambda name: np.array([np.nan if v is None else v for v in row[name]])
    x = np.array(row["passes"])
    ax.fill_between(x, values("low"), values("high"), color=style.color, alpha=0.2, lw=0)
    ax.plot(x, values("median"), color=style.color, ls=style.dashes, lw=1.8, label=row["method"])
    if row["died"]:
        finite = x[np.isfinite(values("median"))]
        after = f" after pass {finite[-1]:g}" if finite.size else ""
        return f"{row['method']}: {row['died']} chains not finite{after}"
    return "" if np.nanmax(values("median")) > _limits(level)[0] else f"{row['method']}: below the plot"


def draw_marginals(results: dict[str, Any], methods: Sequence[str], steps: Sequence[float]) -> "Figure":
    """Draw samples, means and 95 % ellipses in two dimensions of the posterior."""
    figure = plots.new_figure(11.5, 4.6)
    axes = figure.subplots(1, len(steps), sharex=True, sharey=True)
    truth = results["reference"]
    mean, covariance = np.array(truth["mean"]), np.array(truth["covariance"])
    for ax, h in zip(axes, steps, strict=True):
        notes = []
        for method in methods:
            row = next(r for r in results["marginals"] if (r["method"], r["step_size"]) == (method, h))
            style = plots.METHODS[method]
            if row["died"]:
                ax.plot([], [], color=style.color, ls=style.dashes, lw=2, label=method)
                notes.append(f"{method}: not finite")
                continue
            if method == "CCAdL":
                ax.plot(*np.array(row["cloud"]).T, ".", color=style.color, ms=2.5, alpha=0.35, zorder=1)
            ellipse = _ellipse(row["mean"], row["covariance"])
            ax.plot(*ellipse, color=style.color, ls=style.dashes, lw=2, label=method)
            ax.plot(*row["mean"], "x", color=style.color, ms=8, mew=2)
            if np.any(
                np.abs(ellipse - mean[:, None]) > _REACH * _RADIUS * np.sqrt(np.diag(covariance))[:, None]
            ):
                notes.append(f"{method}: exceeds the plot, area × {row['area_ratio']:.3g}")
        ax.plot(*_ellipse(mean, covariance), color=plots.EXACT.color, lw=1.6, label="HMC")
        ax.plot(*mean, "o", mfc="none", mec=plots.EXACT.color, ms=10, mew=1.6)
        ax.set_title(f"{step_text(h)}   (s = {results['s'][f'{h:g}']:.2g})", fontsize=11)
        ax.set_xlabel("dimension 2")
        if notes:
            ax.text(0.02, 0.02, "\n".join(notes), transform=ax.transAxes, fontsize=8.5, va="bottom")
        ax.spines[["top", "right"]].set_visible(False)
        ax.locator_params(nbins=6)
    axes[0].set_ylabel("dimension 5")
    reach = _REACH * _RADIUS * np.sqrt(np.diag(covariance))
    axes[0].set_xlim(mean[0] - reach[0], mean[0] + reach[0])
    axes[0].set_ylim(mean[1] - 1.2 * reach[1], mean[1] + reach[1])
    _legend(
        figure, axes[0], title=f"ellipses hold {_LEVEL:.0%}; crosses and the circle are means; dots: CCAdL"
    )
    return figure


def _ellipse(mean: Any, covariance: Any) -> np.ndarray:
    values, vectors = np.linalg.eigh(np.array(covariance))
    angle = np.linspace(0, 2 * np.pi, 181)
    along_axes = np.sqrt(np.maximum(values, 0))[:, None] * np.stack([np.cos(angle), np.sin(angle)])
    return np.array(mean)[:, None] + _RADIUS * vectors @ along_axes


def _legend(figure: "Figure", ax: "Axes", title: str | None = None) -> None:
    handles, labels = ax.get_legend_handles_labels()
    columns = len(labels) if len(labels) <= 5 else 4
    figure.legend(
        handles, labels, title=title, loc="outside upper center", ncols=columns, frameon=False, fontsize=10
    )
