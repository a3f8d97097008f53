"""The figure of the benchmark: the cost of a step as a bar, with the accuracy of the samples beside it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from isotherm.plots import EXACT, METHODS, Style, new_figure
from isotherm.studies.bench.part import Part
from isotherm.studies.bench.steps import quality_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = ("network", "logistic", "peers")


def draw(parts: Sequence[Part]) -> "Figure | None":
    """Return a figure with a panel per part and a bar per row, or `None` if no part has a cost."""
    drawn = [part for part in parts if part.name in DRAWN and part.rows]
    if not drawn:
        return None
    heights = [len(part.rows) + 2 for part in drawn]
    figure = new_figure(11, 0.28 * sum(heights) + 0.5)
    axes = figure.subplots(len(drawn), 1, height_ratios=heights, squeeze=False)[:, 0]
    for ax, part in zip(axes, drawn, strict=True):
        _panel(ax, part)
    return figure


def _panel(ax: Any, part: Part) -> None:
    costs = [row["cost"] for row in part.rows]
    limit = max(4.0, 1.6 * sorted(costs)[int(0.8 * (len(costs) - 1))])  # a longer bar is cut and marked
    for y, row in enumerate(part.rows):
        low, high = row["cost_quartiles"]
        shown = min(row["cost"], limit)
        bars = None if row["cost"] > limit else [[row["cost"] - low], [high - row["cost"]]]
        ax.barh(
            y, shown, color=style_of(row["name"]).color, height=0.7, xerr=bars, error_kw={"elinewidth": 0.8}
        )
        end = shown if bars is None else min(high, limit)
        cut = "/ /  " if bars is None else ""
        ax.text(end + 0.01 * limit, y, cut + annotation(row), va="center", fontsize=7)
    ax.axvline(1, color="0.5", linewidth=0.8, zorder=0)
    ax.set_xlim(0, 2.2 * limit if part.name != "peers" else 1.3 * limit)
    ax.set_ylim(len(part.rows) - 0.4, -0.6)
    ax.set_yticks(range(len(part.rows)), [row["name"] for row in part.rows], fontsize=8)
    ax.set_title(part.title, fontsize=9.5, loc="left")
    ax.set_xlabel("time of a step relative to SGNHT in the same run", fontsize=8)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8)


def annotation(row: dict[str, Any]) -> str:
    """Return the cost and, at the largest s that was run, the errors of xi and of the worst variance."""
    text = f"{row['cost']:.2f}"
    if not row.get("quality"):
        return text
    last = row["quality"][-1]
    xi, _, worst = quality_cells(last)
    thermostat = xi if last["xi"] is None else f"xi {xi}"
    return f"{text}   s = {last['s']:g}: {thermostat}, worst variance {worst}"


def style_of(name: str) -> Style:
    """Return the style of the sampler in a row's name. SGHMC with a covariance estimate has a separate style."""
    if "SGHMC D" in name:
        return METHODS["SGHMC, corrected"]
    styles = [METHODS[word] for word in name.replace(",", "").split() if word in METHODS]
    return styles[0] if styles else EXACT
