"""The figure of docs/architecture.md: the path of one row of data from `iso.sample` to the report.

python benchmarks/figures/architecture.py --out docs/figures
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from isotherm import plots
from isotherm.plots.style import BAND, MAIN, MUTED, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 2.55, 0.86
# Folder or module, what it makes, and what it does, at (column, row).
BOXES = {
    "call": (0, 0, "sampling/sample.py", "sample(posterior, data, init)", "checks the arguments"),
    "prepare": (1, 0, "sampling/prepare.py", "Problem", "rows, transforms, precision"),
    "hand": (2, 0.55, "sampling/by_hand.py", "Setup", "settings that you give"),
    "tune": (2, -0.55, "sampling/warmup.py, tuning/", "Setup", "mode, coordinates, step, batch"),
    "run": (3, 0, "chains/run.py, drive.py", "Ensemble → Outcome", "host loop over chunks of steps"),
    "plan": (0, 2, "data/plans.py, weighted.py", "Batch", "rows of (chain key, step)"),
    "gradient": (1, 2, "gradients/", "GradientEstimate", "force and its noise, with N/n"),
    "sampler": (2, 2, "samplers/, covariance/", "State, Info", "drift, gradient, kick"),
    "loop": (3, 2, "chains/loop.py, moments.py", "Lane, Kept", "thinning and moments, compiled"),
    "collect": (3, 3.6, "chains/collect.py", "Draws, RunRecord", "draws, status, record of the run"),
    "judge": (2, 3.6, "judging/", "Summary, Diagnosis", "temperatures, bias, modes, verdict"),
    "report": (1, 3.6, "plots/, reporting/", "report.html", "figures and pages"),
    "predict": (0, 3.6, "prediction/, scores/", "Prediction", "new rows, scores"),
}
ARROWS = [
    ("call", "prepare"),
    ("prepare", "hand"),
    ("prepare", "tune"),
    ("hand", "run"),
    ("tune", "run"),
    ("plan", "gradient"),
    ("gradient", "sampler"),
    ("sampler", "loop"),
    ("collect", "judge"),
    ("judge", "report"),
]


def place(name: str) -> tuple[float, float]:
    """The centre of a box."""
    column, row = BOXES[name][:2]
    return 3.05 * column, -1.35 * row


def box(ax: "Axes", name: str) -> None:
    """A box with its module, what it makes and what it does."""
    from matplotlib.patches import FancyBboxPatch

    x, y = place(name)
    _, _, module, made, does = BOXES[name]
    shape = FancyBboxPatch(
        (x - WIDTH / 2, y - HEIGHT / 2), WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.08"
    )
    shape.set(facecolor="white", edgecolor=MAIN, linewidth=1.2)
    ax.add_patch(shape)
    ax.text(x, y + 0.23, module, ha="center", va="center", fontsize=8, color=MUTED, family="monospace")
    ax.text(x, y, made, ha="center", va="center", fontsize=10, weight="bold")
    ax.text(x, y - 0.24, does, ha="center", va="center", fontsize=8)


def arrow(ax: "Axes", start: tuple[float, float], end: tuple[float, float], text: str = "") -> None:
    """An arrow, with a word beside it."""
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "black", "lw": 1.1})
    if text:
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        ax.text(x + 0.1, y, text, fontsize=8, va="center", color=MUTED)


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    out = parser.parse_args().out
    figure = new_figure(11, 6.2)
    ax = figure.subplots()
    x0, y0 = place("plan")
    right = place("sampler")[0] + WIDTH / 2 + 0.1
    ax.fill_between([x0 - WIDTH / 2 - 0.1, right], y0 - 0.6, y0 + 0.95, color=BAND, lw=0, zorder=0)
    ax.text(x0 - WIDTH / 2, y0 + 0.72, "kernel.py: one step of one chain", fontsize=9, weight="bold")
    for name in BOXES:
        box(ax, name)
    half = WIDTH / 2
    for a, b in ARROWS:
        (xa, ya), (xb, yb) = place(a), place(b)
        side = 1 if xb > xa else -1
        arrow(ax, (xa + side * half, ya), (xb - side * half, yb))
    (xr, yr), (xl, yl) = place("run"), place("loop")
    arrow(ax, (xr - 0.3, yr - HEIGHT / 2), (xl - 0.3, yl + HEIGHT / 2), "setup, keys")
    xc, yc = place("collect")
    arrow(ax, (xl, yl - HEIGHT / 2), (xc, yc + HEIGHT / 2), "kept draws, sums")
    xp, yp = place("predict")
    ax.annotate(
        "",
        (xp, yp - HEIGHT / 2),
        (xc, yc - HEIGHT / 2),
        arrowprops={
            "arrowstyle": "-|>",
            "color": "black",
            "lw": 1.1,
            "connectionstyle": "bar,fraction=-0.035",
        },
    )
    arrow(ax, (place("report")[0], yc - 0.76), (place("report")[0], yc - HEIGHT / 2))
    ax.text((xp + xc) / 2, yc - 0.92, "draws", fontsize=8, ha="center", color=MUTED)
    ax.set(xlim=(-WIDTH / 2 - 0.1, place("run")[0] + WIDTH / 2 + 0.1), ylim=(yc - 1.05, 1.35))
    ax.set_axis_off()
    print(plots.save(figure, out / "architecture.png"))


if __name__ == "__main__":
    main()
