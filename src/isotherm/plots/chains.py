"""Chains over time: traces, and the convergence of their means."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float, PyTree

from isotherm import tree
from isotherm.draws import Draws
from isotherm.errors import must
from isotherm.plots.density import density
from isotherm.plots.parameters import Shown, left_out, shown, side_by_side
from isotherm.plots.style import (
    BAND,
    MAIN,
    MUTED,
    NARROW,
    WIDE,
    chain_color,
    literal,
    new_figure,
    tidy,
    time_and_density_axes,
    title,
)
from isotherm.prediction.blocks import chosen

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 8
_POINTS = 1500  # per line, more than a page can show


def traces(draws: Draws, names: Sequence[str] | None = None) -> "Figure":
    """Each parameter over the draws, one colour per chain, and its density beside it.

    `names` are leaves or single elements such as `w[2]`; by default at most 8, those with the largest R-hat.
    """
    return draw_traces(shown(draws, names, _MOST))


def draw_traces(selection: Shown, *, narrow: bool = False) -> "Figure":
    """The figure of `traces`; `narrow` makes it fit a phone."""
    rows = len(selection.parameters)
    figure = new_figure(NARROW if narrow else WIDE, 0.9 + 1.25 * rows)
    axes = time_and_density_axes(figure, rows, 5)
    for (left, right), parameter in zip(axes, selection.parameters, strict=True):
        for chain, values in enumerate(parameter.values):
            color = chain_color(chain)
            at = np.unique(np.linspace(0, len(values) - 1, _POINTS).astype(int))
            left.plot(at, values[at], color=color, lw=0.5, alpha=0.8)
            if (curve := density(values)) is not None:
                right.plot(curve[1], curve[0], color=color, lw=1.2)
        literal(left.set_title, parameter.name, loc="left", fontsize=10, pad=3)
        right.set_title(f"R-hat {parameter.r_hat:.3f}", loc="right", fontsize=9, color=MUTED, pad=3)
        left.margins(x=0.005)
        tidy(left)
        right.set_axis_off()
    axes[-1, 0].set_xlabel("draw")
    title(figure, _chains(selection), selection.note)
    return figure


def convergence(
    draws: Draws, names: Sequence[str] | None = None, *, reference: Draws | PyTree | None = None
) -> "Figure":
    """The convergence of posterior means over the passes through the data.

    Without a `reference`, the figure shows the running mean of each parameter in each chain, in posterior standard
    deviations from the mean of all draws; `names` are as for `traces`. With a `reference`, draws of another run or a
    pytree of true parameters, it shows the root mean square distance from it over all parameters.
    """
    if reference is not None:
        return _errors(draws, reference)
    selection = shown(draws, names, _MOST)
    x, label = moment_of(selection.draws)
    columns = 2 if len(selection.parameters) > 1 else 1
    rows = -(-len(selection.parameters) // columns)
    figure = new_figure(WIDE, 1.3 + 1.6 * rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    limit = 1.0
    for ax, parameter in zip(axes.flat, selection.parameters, strict=False):
        values = parameter.values
        sd = values.std(ddof=1)
        deviation = (_running(values) - values.mean()) / (sd if sd > 0 else 1.0)
        ax.axhspan(-0.1, 0.1, color=BAND, lw=0)
        ax.axhline(0, color=MUTED, lw=0.8)
        for chain, line in enumerate(deviation):
            ax.plot(x, line, color=chain_color(chain), lw=1.2)
        literal(ax.set_title, parameter.name, loc="left", fontsize=10, pad=3)
        limit = max(limit, 1.2 * float(np.max(np.abs(deviation[:, -1]))))
        ax.set_ylim(-limit, limit)
        tidy(ax)
    for ax in axes.flat[len(selection.parameters) :]:
        ax.set_axis_off()
    figure.supxlabel(label, fontsize=10)
    figure.supylabel("running mean, in posterior sd", fontsize=10)
    title(figure, f"{_chains(selection)}; the band is ±0.1 posterior sd", selection.note)
    return figure


def _errors(draws: Draws, reference: Draws | PyTree) -> "Figure":
    complete = chosen(draws)
    x, label = moment_of(complete)
    mean, sd = _target(complete, reference)
    leaves = [side_by_side(leaf) for leaf in complete.flat().values()]
    total = [np.zeros((leaves[0].shape[0], leaves[0].shape[1])), np.zeros((1, leaves[0].shape[1]))]
    for leaf, m, s in zip(leaves, mean, sd, strict=True):
        for i in range(leaf.shape[2]):
            running = _running(leaf[:, :, i])
            for sums, means in zip(total, (running, running.mean(axis=0, keepdims=True)), strict=True):
                sums += ((means - m[i]) / s[i]) ** 2
    count = sum(leaf.shape[2] for leaf in leaves)
    each, together = (np.sqrt(sums / count) for sums in total)
    figure = new_figure(6.5, 4.2)
    ax = figure.subplots()
    passed = x - (x[0] - (x[1] - x[0] if len(x) > 1 else 0))
    ax.plot(passed, each.T, color=MAIN, lw=0.9, alpha=0.7)
    if len(each) > 1:
        ax.plot(passed, together[0], color="black", lw=2)
    middle = float(np.sqrt(np.prod(np.median(each, axis=0)[[0, -1]])))
    guide = middle * np.sqrt(np.sqrt(passed[0] * passed[-1]) / passed)
    ax.plot(passed, guide, color=MUTED, lw=1, ls=(0, (4, 2)))
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=f"{label} after burn-in",
        ylabel="error of the mean, in posterior sd",
    )
    ends = [("each chain", float(np.median(each[:, -1])), MAIN), ("1/√time", float(guide[-1]), MUTED)]
    _end_labels(
        ax, float(passed[-1]), ends + [("all chains", float(together[0, -1]), "black")] * (len(each) > 1)
    )
    ax.set_xlim(None, passed[-1])
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    tidy(ax)
    title(figure, f"Root mean square over {count:,} parameters", left_out(draws))
    return figure


def _end_labels(ax: "Axes", x: float, ends: list[tuple[str, float, str]]) -> None:
    """Write the names of lines at their right ends, moved apart where they would overlap."""
    low, high = np.log(ax.get_ylim())
    previous = None
    for name, y, color in sorted(ends, key=lambda end: end[1]):
        height = (np.log(y) - low) / (high - low)
        height = height if previous is None else max(height, previous + 0.06)
        previous = height
        ax.annotate(
            name, (x, 1), (1.02, height), textcoords="axes fraction", color=color, fontsize=9, va="center"
        )


def _running(values: Float[np.ndarray, "chain draw"]) -> Float[np.ndarray, "chain draw"]:
    return np.cumsum(values, axis=1) / np.arange(1, values.shape[1] + 1)


def moment_of(draws: Draws) -> tuple[Float[np.ndarray, " draw"], str]:
    """The time of each draw and its unit: passes over the data per chain if they are known, else draws."""
    count = np.arange(1, draws.num_draws + 1, dtype=np.float64)
    record = draws.record
    steps = record.burn_in + count * record.thinning
    return steps * record.data_passes / max(1, record.steps), "passes over the data"


def _target(draws: Draws, reference: Draws | PyTree) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Mean and sd of each leaf of `reference`; the sd is that of the draws if the reference has none."""
    ours: Any = [side_by_side(leaf) for leaf in draws.flat().values()]
    spread = lambda leaves: [np.maximum(x.std(axis=(0, 1)), 1e-30) for x in leaves]
    if isinstance(reference, Draws):
        theirs = [side_by_side(leaf) for leaf in chosen(reference).flat().values()]
        values, sd = [x.mean(axis=(0, 1)) for x in theirs], spread(theirs)
    else:
        values = [np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(reference)]
        sd = spread(ours)
    if [len(v) for v in values] != [x.shape[2] for x in ours]:
        names = [name for name, _ in tree.named_leaves(draws.posterior)]
        raise must("reference", f"made of the same parameters as `draws`: {', '.join(names)}", reference)
    return values, sd


def _chains(selection: Shown) -> str:
    return f"{selection.draws.num_chains} chains of {selection.draws.num_draws:,} draws"
