"""Densities of draws: one parameter at a time, and two by two."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float, PyTree

from isotherm import tree
from isotherm.draws import Draws
from isotherm.errors import must
from isotherm.judging.summary import labels_of
from isotherm.plots.parameters import Parameter, shown
from isotherm.plots.style import CHAINS, EXACT, MAIN, new_figure, tidy, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST, _MOST_PAIRS = 8, 6
_POINTS = 1500


def density(values: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray] | None:
    """Where, and how high, by ArviZ's kernel estimate; `None` of draws that are all the same."""
    from arviz_stats.base import array_stats

    if values.size < 2 or not np.ptp(values) > 0:
        return None
    grid, height, _ = array_stats.kde(values.ravel(), bound_correction=False, extend=True, extend_fct=0.15)
    return grid, height


def marginals(
    draws: Draws, names: Sequence[str] | None = None, *, reference: Draws | PyTree | None = None
) -> "Figure":
    """The density of each parameter, of all chains together and, as thin lines, of each.

    `reference` is drawn in black: draws of another run as densities, a pytree of true parameters as lines. `names`
    are as for `traces`.
    """
    what = shown(draws, names, _MOST)
    wanted = [p.name for p in what.parameters]
    exact = _reference(reference, draws, wanted)
    columns = min(4, len(wanted))
    rows = -(-len(wanted) // columns)
    figure = new_figure(max(2.4 * columns, 4.5), 1.0 + 1.75 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax, parameter in zip(axes.flat, what.parameters, strict=False):
        _marginal(ax, parameter, exact.get(parameter.name))
    for ax in axes.flat[len(wanted) :]:
        ax.set_axis_off()
    against = ""
    if reference is not None:
        against = "; black: the reference" if isinstance(reference, Draws) else "; black: the true value"
    title(figure, f"All chains filled, each chain a thin line{against}", what.note)
    return figure


def pairs(draws: Draws, names: Sequence[str] | None = None) -> "Figure":
    """Draws of each two parameters, and the density of each. `names` are as for `traces`; at most 6 by default."""
    what = shown(draws, names, _MOST_PAIRS)
    values = [p.values for p in what.parameters]
    n = len(values)
    figure = new_figure(1.2 + 1.45 * n, 1.2 + 1.35 * n)
    axes = figure.subplots(n, n, squeeze=False, sharex="col")
    at = np.unique(np.linspace(0, values[0].size - 1, _POINTS).astype(int))
    owner = np.repeat(np.arange(len(values[0])), values[0].shape[1])[at]
    colors = [CHAINS[k % len(CHAINS)] for k in owner]
    for i, j in np.ndindex(n, n):
        ax = axes[i, j]
        if j > i:
            ax.set_axis_off()
            continue
        if i == j:
            _marginal(ax, what.parameters[i], None, named=False)
        else:
            ax.scatter(
                values[j].ravel()[at], values[i].ravel()[at], s=3, c=colors, alpha=0.35, lw=0, rasterized=True
            )
            tidy(ax)
        ax.locator_params(nbins=3)
        ax.tick_params(labelbottom=i == n - 1, labelleft=j == 0 and i > 0)
        if i == n - 1:
            ax.set_xlabel(what.parameters[j].name, fontsize=10, parse_math=False)
        if j == 0 and i > 0:
            ax.set_ylabel(what.parameters[i].name, fontsize=10, parse_math=False)
    figure.align_labels()
    title(figure, f"{len(at):,} of {values[0].size:,} draws, a colour a chain", what.note)
    return figure


def _marginal(
    ax: "Axes", parameter: Parameter, exact: float | np.ndarray | None, *, named: bool = True
) -> None:
    if (curve := density(parameter.values)) is not None:
        ax.fill_between(*curve, color=MAIN, alpha=0.25, lw=0)
    for chain, values in enumerate(parameter.values):
        if len(parameter.values) > 1 and (own := density(values)) is not None:
            ax.plot(*own, color=CHAINS[chain % len(CHAINS)], lw=0.8)
    if isinstance(exact, np.ndarray) and (curve := density(exact)) is not None:
        ax.plot(*curve, color=EXACT.color, lw=1.3)
    elif exact is not None:
        ax.axvline(float(np.mean(exact)), color=EXACT.color, lw=1.3)
    tidy(ax)
    ax.set_ylim(0, None)
    ax.spines["left"].set_visible(False)
    ax.tick_params(left=False, labelleft=False)
    ax.locator_params(axis="x", nbins=4)
    if named:
        ax.set_title(parameter.name, fontsize=10, loc="left", parse_math=False)


def _reference(
    reference: Draws | PyTree | None, draws: Draws, wanted: list[str]
) -> dict[str, float | np.ndarray]:
    if reference is None:
        return {}
    if isinstance(reference, Draws):
        return {p.name: p.values for p in shown(reference, wanted, len(wanted)).parameters}
    theirs = [np.shape(x) for x in jax.tree.leaves(reference)]
    if theirs != [x.shape[2:] for x in jax.tree.leaves(draws.posterior)]:
        names = [name for name, _ in tree.named_leaves(draws.posterior)]
        raise must("reference", f"of the same parameters as `draws`: {', '.join(names)}", reference)
    out, labels = {}, labels_of(draws)
    for name, x in zip(draws.flat(), jax.tree.leaves(reference), strict=True):
        out |= {label: float(v) for label, v in zip(labels[name], np.ravel(np.asarray(x)), strict=True)}
    return out
