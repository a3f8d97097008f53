"""The style of all figures: one palette, one colour per method. Matplotlib is imported only to draw."""

import dataclasses
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Style:
    """How a method is drawn. Colour, dashes and marker all differ, so each of them alone identifies it."""

    color: str
    dashes: str | tuple[int, tuple[int | float, ...]] = "-"
    marker: str = "o"


# The palette of Okabe and Ito, which readers with any of the common colour deficiencies can tell apart.
EXACT = Style("#000000", "-", "")
METHODS = {
    "SGLD": Style("#CC79A7", (0, (1, 1)), "v"),
    "ModifiedSGLD": Style("#56B4E9", (0, (3, 1, 1, 1)), "^"),
    "SGHMC": Style("#D55E00", (0, (5, 1.5)), "s"),
    "SGHMC, corrected": Style("#E69F00", (0, (4, 1.2, 1, 1.2)), "D"),
    "SGNHT": Style("#0072B2", (0, (2, 1)), "^"),
    "CCAdL": Style("#009E73", "-", "o"),
    "CCAdL symmetric": Style("#6A3D9A", "-", "D"),
    "CCAdL symmetric, low rank": Style("#8C6D1F", (0, (6, 1.5)), "P"),
    "CCAdL symmetric, matrix-free": Style("#CC3377", (0, (3, 1)), "X"),
}
# The chains of a run, in order; more chains than colours start again at the first.
CHAINS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#8C6D1F")
MAIN, BAND, MUTED = "#0072B2", "#dfe2e6", "#6b7280"
# Widths in inches: of a figure for a desktop, and of one that stays readable on a phone.
WIDE, NARROW = 9, 5.4


def chain_color(chain: int) -> str:
    """The colour of a chain, by its index."""
    return CHAINS[chain % len(CHAINS)]


def require_matplotlib() -> None:
    """Raise an error that names the missing extra. Call it before any long computation."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'isotherm[plots]'.") from error


def new_figure(width: int | float, height: int | float) -> "Figure":
    """An empty figure of this size in inches, independent of matplotlib's global state. Notebooks show it."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from isotherm.plots.figure import NotebookFigure

    figure = NotebookFigure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def tidy(ax: "Axes") -> None:
    """Remove the top and right spines and mute the other two."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.tick_params(labelsize=9, color=MUTED)


def time_and_density_axes(figure: "Figure", rows: int, ratio: int) -> np.ndarray:
    """Pairs of axes (row, 2): one over time, `ratio` times as wide as the one for densities on its right.

    Time is common to all rows, and each density has its own scale.
    """
    axes = figure.subplots(rows, 2, squeeze=False, sharey="row", width_ratios=(ratio, 1))
    for ax in axes[:-1, 0]:
        ax.sharex(axes[-1, 0])
        ax.tick_params(labelbottom=False)
    return axes


def panel_axes(figure: "Figure", count: int, most: int, *, shared: bool = False) -> list["Axes"]:
    """`count` axes, at most `most` in a row. Those of a shorter last row are wider, so that every row is full.

    `shared` gives all of them one scale, with numbers at the left of the figure and below each column of panels.
    """
    rows = -(-count // most)
    columns = -(-count // rows)
    in_last = count - columns * (rows - 1)
    units = math.lcm(columns, in_last)
    first_labelled = rows - 1 if in_last == columns else rows - 2
    grid, axes = figure.add_gridspec(rows, units), []
    for i in range(count):
        row, column = divmod(i, columns)
        wide = units // (in_last if row == rows - 1 else columns)
        first = axes[0] if shared and axes else None
        ax = figure.add_subplot(grid[row, column * wide : (column + 1) * wide], sharex=first, sharey=first)
        if shared:
            ax.tick_params(labelleft=column == 0, labelbottom=row >= first_labelled)
        axes.append(ax)
    return axes


def title(figure: "Figure", main: str, note: str = "") -> None:
    """Set a left-aligned title, with a note on a second line. The text is drawn as it is, not as a formula."""
    text = visible(main) + (f"\n{visible(note)}" if note else "")
    figure.suptitle(text, x=0.01, ha="left", fontsize=11, parse_math=False)


def literal(setter: Callable[..., Any], text: str, **options: Any) -> None:
    """Call a method such as `ax.set_title` with text that is drawn as it is: not as a formula, and on one line."""
    setter(visible(text), parse_math=False, usetex=False, **options)


def save(figure: "Figure", path: str | Path) -> Path:
    """Write the figure as a PNG, at a resolution for screen and print. Creates the folder if needed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, metadata={"Software": "isotherm"})
    return path


def to_png(figure: "Figure") -> bytes:
    """The figure as a PNG in memory, for a page that contains its images."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=200, metadata={"Software": "isotherm"})
    return file.getvalue()
