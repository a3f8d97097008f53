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
    panel_axes,
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
    deviations from the mean of all draws; `names` are as for `traces`. With a `reference` it shows root mean squares
    over all parameters. If that is draws of another run, they are the distances of the running means from its means.
    If it is a pytree of true parameters, these lie about one posterior sd from the posterior mean however long the
    chains are. So the running mean of each chain is compared with the mean of the others, which shows the Monte Carlo
    error, and the distance of the mean of all draws from the truth is a line of its own. One chain is cut in two.
    """
    if reference is not None:
        return _errors(draws, reference)
    selection = shown(draws, names, _MOST)
    x, label = moment_of(selection.draws)
    count = len(selection.parameters)
    figure = new_figure(WIDE, 1.3 + 1.6 * -(-count // 2))
    axes = panel_axes(figure, count, 2, shared=True)
    limit = 1.0
    for ax, parameter in zip(axes, selection.parameters, strict=True):
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
    figure.supxlabel(label, fontsize=10)
    figure.supylabel("running mean, in posterior sd", fontsize=10)
    title(figure, f"{_chains(selection)}; the band is ±0.1 posterior sd", selection.note)
    return figure


def _errors(draws: Draws, reference: Draws | PyTree) -> "Figure":
    complete = chosen(draws)
    x, label = moment_of(complete)
    mean, sd = _target(complete, reference)
    leaves = [side_by_side(leaf) for leaf in complete.flat().values()]
    values, mean, sd = np.concatenate(leaves, axis=2), np.concatenate(mean), np.concatenate(sd)
    passed = x - (x[0] - (x[1] - x[0] if len(x) > 1 else 0))
    lines: list[tuple[str, np.ndarray, str]] = []
    if isinstance(reference, Draws):
        each = _distance(values, mean, sd)
        if len(each) > 1:
            lines = [("all chains", _distance(values.mean(axis=0, keepdims=True), mean, sd)[0], "black")]
    else:
        away = float(_rms((values.mean(axis=(0, 1)) - mean) / sd))
        if len(values) == 1:
            half = max(1, values.shape[1] // 2)
            values, passed = np.concatenate([values[:, :half], values[:, -half:]]), passed[:half]
        each = _distance(values, _mean_of_others(values)[:, None], sd)
        lines = [("mean to truth", np.full(len(passed), away), "black")]
    figure = new_figure(6.5, 4.2)
    ax = figure.subplots()
    ax.plot(passed, each.T, color=MAIN, lw=0.9, alpha=0.7)
    for _, y, color in lines:
        ax.plot(passed, y, color=color, lw=2)
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
    ends += [(name, float(y[-1]), color) for name, y, color in lines]
    _end_labels(ax, float(passed[-1]), ends)
    ax.set_xlim(None, passed[-1])
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    tidy(ax)
    against = "from the reference" if isinstance(reference, Draws) else "of each chain from the others"
    title(figure, f"Root mean square {against}, {len(mean):,} parameters", left_out(draws))
    return figure


def _mean_of_others(values: Float[np.ndarray, "chain draw number"]) -> Float[np.ndarray, "chain number"]:
    """Return, for each chain, the mean of all draws of the other chains."""
    means = values.mean(axis=1)
    return (means.sum(axis=0) - means) / (len(means) - 1)


def _distance(
    values: Float[np.ndarray, "chain draw number"], mean: np.ndarray, sd: np.ndarray
) -> Float[np.ndarray, "chain draw"]:
    """Return the distances of running means from `mean` in units of `sd`, rms over parameters."""
    running = np.cumsum(values, axis=1) / np.arange(1, values.shape[1] + 1)[:, None]
    return _rms((running - mean) / sd)


def _rms(x: Float[np.ndarray, "... number"]) -> np.ndarray:
    return np.asarray(np.sqrt(np.mean(x**2, axis=-1)))


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
