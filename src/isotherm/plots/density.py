"""Densities of draws: of single parameters and of pairs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float, PyTree

from isotherm import tree
from isotherm.draws import Draws
from isotherm.draws.elements import labels_of
from isotherm.errors import must
from isotherm.plots.parameters import Parameter, Shown, shown
from isotherm.plots.style import EXACT, MAIN, NARROW, chain_color, literal, new_figure, tidy, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST, _MOST_PAIRS = 8, 6
_POINTS = 1500
_MIDDLE = (0.05, 0.95)  # quantiles between which a density is filled more strongly


def density(values: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray] | None:
    """A grid and the density on it, by ArviZ's kernel estimate; `None` if all draws are equal."""
    from arviz_stats.base import array_stats

    if values.size < 2 or not np.ptp(values) > 0:
        return None
    grid, height, _ = array_stats.kde(values.ravel(), bound_correction=False, extend=True, extend_fct=0.15)
    return grid, height


def marginals(
    draws: Draws, names: Sequence[str] | None = None, *, reference: Draws | PyTree | None = None
) -> "Figure":
    """The density of each parameter: of all chains together, the middle 90 % darker, and of each as a thin line.

    `reference` is drawn in black: draws of another run as densities, a pytree of true parameters as lines. `names`
    are as for `traces`.
    """
    selection = shown(draws, names, _MOST)
    exact = _reference(reference, draws, [p.name for p in selection.parameters])
    legend = ""
    if reference is not None:
        legend = "; black: the reference" if isinstance(reference, Draws) else "; black: the true value"
    return draw_marginals(selection, exact, legend)


def draw_marginals(
    selection: Shown,
    exact: Mapping[str, float | np.ndarray] | None = None,
    legend: str = "",
    *,
    narrow: bool = False,
) -> "Figure":
    """The figure of `marginals`; `narrow` makes it fit a phone. `exact` is drawn in black, by parameter name."""
    count = len(selection.parameters)
    columns = min(2 if narrow else 4, count)
    rows = -(-count // columns)
    figure = new_figure(NARROW if narrow else max(2.4 * columns, 4.5), 1.0 + (1.4 if narrow else 1.75) * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax, parameter in zip(axes.flat, selection.parameters, strict=False):
        _marginal(ax, parameter, (exact or {}).get(parameter.name))
    for ax in axes.flat[count:]:
        ax.set_axis_off()
    title(figure, f"All chains filled, each chain a thin line{legend}", selection.note)
    return figure


def pairs(draws: Draws, names: Sequence[str] | None = None) -> "Figure":
    """Scatter plots of all pairs of parameters, and their densities. `names` are as for `traces`, at most 6."""
    selection = shown(draws, names, _MOST_PAIRS)
    values = [p.values for p in selection.parameters]
    n = len(values)
    figure = new_figure(1.2 + 1.45 * n, 1.2 + 1.35 * n)
    axes = figure.subplots(n, n, squeeze=False, sharex="col")
    at = np.unique(np.linspace(0, values[0].size - 1, _POINTS).astype(int))
    chain_of = np.repeat(np.arange(len(values[0])), values[0].shape[1])[at]
    colors = [chain_color(int(chain)) for chain in chain_of]
    for i, j in np.ndindex(n, n):
        ax = axes[i, j]
        if j > i:
            ax.set_axis_off()
            continue
        if i == j:
            _marginal(ax, selection.parameters[i], None, named=False)
        else:
            ax.scatter(
                values[j].ravel()[at], values[i].ravel()[at], s=3, c=colors, alpha=0.35, lw=0, rasterized=True
            )
            tidy(ax)
        ax.locator_params(nbins=3)
        ax.tick_params(labelbottom=i == n - 1, labelleft=j == 0 and i > 0)
        if i == n - 1:
            literal(ax.set_xlabel, selection.parameters[j].name, fontsize=10)
        if j == 0 and i > 0:
            literal(ax.set_ylabel, selection.parameters[i].name, fontsize=10)
    figure.align_labels()
    title(figure, f"{len(at):,} of {values[0].size:,} draws, one colour per chain", selection.note)
    return figure


def _marginal(
    ax: "Axes", parameter: Parameter, exact: float | np.ndarray | None, *, named: bool = True
) -> None:
    if (curve := density(parameter.values)) is not None:
        grid, height = curve
        ax.fill_between(grid, height, color=MAIN, alpha=0.12, lw=0)
        low, high = np.quantile(parameter.values, _MIDDLE)
        inside = np.concatenate([[low], grid[(grid > low) & (grid < high)], [high]])
        ax.fill_between(inside, np.interp(inside, grid, height), color=MAIN, alpha=0.2, lw=0)
    for chain, values in enumerate(parameter.values):
        if len(parameter.values) > 1 and (of_chain := density(values)) is not None:
            ax.plot(*of_chain, color=chain_color(chain), lw=0.8)
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
        literal(ax.set_title, parameter.name, fontsize=10, loc="left")


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
        raise must("reference", f"made of the same parameters as `draws`: {', '.join(names)}", reference)
    out, labels = {}, labels_of(draws)
    for name, x in zip(draws.flat(), jax.tree.leaves(reference), strict=True):
        out |= {label: float(v) for label, v in zip(labels[name], np.ravel(np.asarray(x)), strict=True)}
    return out
