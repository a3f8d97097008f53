"""Figures: one colour a method everywhere, and matplotlib only where a figure is drawn."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Style:
    """How a method is drawn: colour, dashes and marker all differ, so that none of them is needed alone."""

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
# Chains, one after the other, and what is drawn beside them.
CHAINS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MAIN, BAND, MUTED = "#0072B2", "#dfe2e6", "#6b7280"


def require_matplotlib() -> None:
    """Say which extra is missing before any work is done, rather than after."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'isotherm[plots]'.") from error


def new_figure(width: int | float, height: int | float) -> "Figure":
    """An empty figure of this size in inches, apart from any global state of matplotlib."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def tidy(ax: "Axes") -> None:
    """No frame but the two axes, and these quiet."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.tick_params(labelsize=9, color=MUTED)


def title(figure: "Figure", main: str, note: str = "") -> None:
    """A title at the left, and a quieter line below it."""
    figure.suptitle(main + (f"\n{note}" if note else ""), x=0.01, ha="left", fontsize=11)


def save(figure: "Figure", path: Path) -> Path:
    """Write a PNG fit for a page and for print; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, metadata={"Software": "isotherm"})
    return path
