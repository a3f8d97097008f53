"""The figures of a report: chains, marginals and temperatures. Narrow, so that a phone shows them whole."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from isotherm.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from isotherm.draws import Draws

_WIDTH, _POINTS = 5.4, 400
# The palette of Okabe and Ito; chains beyond it take it again.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6A3D9A", "#000000")


def traces(draws: "Draws", parameters: Sequence[tuple[str, int]]) -> "Figure":
    """Draws of every chain in order, a panel a parameter; `parameters` are names and numbers in order of `flat()`."""
    figure = new_figure(_WIDTH, 0.5 + 1.25 * len(parameters))
    axes = figure.subplots(len(parameters), 1, squeeze=False, sharex=True)[:, 0]
    for axis, (name, i) in zip(axes, parameters, strict=True):
        values = element(draws, i)
        every = max(1, values.shape[1] // _POINTS)
        for c, chain in enumerate(values):
            axis.plot(
                np.arange(len(chain))[::every], chain[::every], color=_color(c), linewidth=0.6, alpha=0.8
            )
        axis.set_title(name, fontsize=10, loc="left", parse_math=False)
        _light(axis)
    axes[-1].set_xlabel("draw")
    return figure


def marginals(draws: "Draws", parameters: Sequence[tuple[str, int]]) -> "Figure":
    """Histograms of every chain, with the middle 90 % of all of them shaded; two panels a line."""
    lines = -(-len(parameters) // 2)
    figure = new_figure(_WIDTH, 0.3 + 1.5 * lines)
    axes = figure.subplots(lines, 2, squeeze=False).ravel()
    for axis, (name, i) in zip(axes, parameters, strict=False):
        values = element(draws, i)[draws.complete]
        bins = np.histogram_bin_edges(values, bins=30)
        low, high = np.quantile(values, [0.05, 0.95])
        axis.axvspan(low, high, color="#000000", alpha=0.07, linewidth=0)
        for c, chain in zip(np.flatnonzero(draws.complete), values, strict=True):
            height, _ = np.histogram(chain, bins=bins, density=True)
            axis.stairs(height, bins, color=_color(int(c)), linewidth=1.0)
        axis.set_title(name, fontsize=10, loc="left", parse_math=False)
        axis.set_yticks([])
        axis.locator_params(axis="x", nbins=4)
        _light(axis)
    for axis in axes[len(parameters) :]:
        axis.set_axis_off()
    return figure


def temperatures(draws: "Draws") -> "Figure | None":
    """Mean kinetic temperature so far and xi of every chain, with bands where they belong; `None` without them."""
    T, thermostat = draws.record.temperature, draws.record.sampler.traits.thermostat
    panels: list[tuple[str, np.ndarray, float | None, float | None]] = []
    if (kinetic := draws.stats.get("kinetic_temperature")) is not None:
        mean = np.cumsum(kinetic / T, axis=1, dtype=np.float64) / np.arange(1, kinetic.shape[1] + 1)
        panels.append(("kinetic temperature so far, of target", mean, 1.0, 0.05))
    if (xi := draws.stats.get("xi")) is not None:
        mean = sd = None
        if thermostat is not None and thermostat.controlled:
            mean = thermostat.friction
            sd = None if thermostat.mass is None else 2 * (T / thermostat.mass) ** 0.5
        panels.append(("xi", xi, mean, sd))
    if not panels:
        return None
    figure = new_figure(_WIDTH, 0.5 + 1.7 * len(panels))
    for axis, (title, values, center, half) in zip(
        figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0], panels, strict=True
    ):
        every = max(1, values.shape[1] // _POINTS)
        if center is not None:
            axis.axhline(center, color="#000000", linewidth=0.8)
            if half is not None:
                axis.axhspan(center - half, center + half, color="#000000", alpha=0.07, linewidth=0)
        for c, chain in enumerate(values):
            axis.plot(
                np.arange(len(chain))[::every], chain[::every], color=_color(c), linewidth=0.8, alpha=0.8
            )
        axis.set_title(title, fontsize=10, loc="left")
        _light(axis)
    axis.set_xlabel("draw")
    return figure


def element(draws: "Draws", i: int) -> Float[np.ndarray, "chain draw"]:
    """The i-th number among all parameters."""
    for leaf in draws.flat().values():
        size = int(np.prod(leaf.shape[2:]))
        if i < size:
            return leaf.reshape(*leaf.shape[:2], -1)[:, :, i].astype(np.float64)
        i -= size
    raise IndexError(i)


def to_png(figure: "Figure") -> bytes:
    """Fit for a page and for print."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=200, metadata={"Software": "isotherm"})
    return file.getvalue()


def _color(chain: int) -> str:
    return _COLORS[chain % len(_COLORS)]


def _light(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=9)
    axis.margins(x=0.01)
