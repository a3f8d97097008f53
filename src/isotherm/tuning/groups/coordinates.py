"""The coordinates in which chains move, for posteriors with groups: a chart of the effects, and an arrow."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy import sparse

from isotherm import tree
from isotherm.arrow import ArrowPreconditioner, Border, Parts
from isotherm.centring import Centring, Charted, outer_numbers
from isotherm.chains.problem import Problem
from isotherm.compilation import compile_quickly
from isotherm.deviations import Deviations, prior_factor
from isotherm.transforms import Constraint
from isotherm.tuning.groups.layout import Layout, PairIndex
from isotherm.tuning.groups.marginal import MOVE, Center, spread_of


def chart_of(problem: Problem, layout: Layout, pairs: list[PairIndex], center: Center) -> Charted:
    """Return coordinates of the effects of levels that hardly depend on their scales."""
    constraint = problem.posterior.constraint or Constraint(None)
    params = constraint.constrained(center.theta)
    named, dtype = dict(tree.named_leaves(params)), tree.dtype_of(center.theta)
    put = lambda x: tree.put(x, dtype)
    leaves, stretch = jax.tree.leaves(center.theta), _stretch(constraint, layout, center.theta)
    centrings = []
    for number, factor in enumerate(layout.factors):
        group = factor.group
        if group.scale is None:
            continue
        L = np.asarray(prior_factor(named, group.scale, group.correlations, factor.width), np.float64)
        information = center.arrow.information[number]
        # F' F is the precision of a level, as in `isotherm.centring`.
        turned = np.linalg.cholesky((np.eye(len(L)) + L.T @ information @ L)[:, ::-1, ::-1])
        F = np.swapaxes(turned[:, ::-1, ::-1], 1, 2) @ np.linalg.inv(L)
        mode = np.asarray(leaves[factor.leaf], np.float64).reshape(factor.num_levels, -1)
        weighted = np.einsum("gji,gj->gi", F, np.einsum("gij,gj->gi", F, mode))
        slopes = center.information_change[number] / stretch
        by_dense, borders = _follow(layout, pairs, center) if factor is layout.factors[-1] else (None, ())
        centrings.append(
            Centring(
                factor.name,
                group.scale,
                group.correlations,
                put(information),
                put(mode),
                put(weighted),
                put(F),
                put(slopes),
                by_dense,
                borders,
            )
        )
    outer = outer_numbers(layout.parts, layout.positive, center.theta, params)
    head = layout.parts.split(center.theta)[1]
    return Charted(constraint, tuple(centrings), layout.parts, layout.positive, outer, head, layout.own)


def _follow(
    layout: Layout, pairs: list[PairIndex], center: Center, by: np.ndarray | None = None
) -> tuple[Array, tuple[Border, ...]]:
    """Return the Hessian between the largest group and the head: the dense part, and crossed groups apart.

    `by` multiplies the block of each level from the left.
    """
    dtype, found = tree.dtype_of(center.theta), center.arrow
    group, last = layout.factors[-1], len(layout.factors) - 1
    # Blocks come before the levels of crossed groups, and are dense as well.
    blocks = sum(factor.width for factor in layout.factors[:-1] if factor.column is None)
    dense = layout.num_dense - layout.num_outer + blocks
    eye = np.broadcast_to(np.eye(group.width), (group.num_levels, group.width, group.width))
    by = eye if by is None else by
    side = sparse.csr_matrix(found.border[:, :dense]).toarray()
    slopes = by @ side.reshape(group.num_levels, group.width, dense)
    borders = []
    for i, factor in enumerate(layout.factors[:-1]):
        if factor.column is None:
            continue
        pair = pairs[layout.pairs.index((i, last))]
        groups, levels = tree.put(pair.second, np.int32), tree.put(pair.first, np.int32)
        values = tree.put(by[pair.second] @ found.between[i], dtype)
        borders.append(Border(groups, levels, values, layout.start(factor), factor.num_levels))
    return tree.put(slopes, dtype), tuple(borders)


def _stretch(constraint: Constraint | Deviations, layout: Layout, theta: PyTree) -> Float[np.ndarray, " o"]:
    """Return by how much the outer numbers of a chart grow if a free outer parameter grows by `MOVE`."""
    at = lambda move: np.asarray(
        _numbers(constraint, layout, theta, tree.put(move, tree.dtype_of(theta))), np.float64
    )
    return at(MOVE) - at(0.0)


@compile_quickly
def _numbers(constraint: Any, layout: Layout, theta: PyTree, move: Float[Array, ""]) -> Float[Array, " o"]:
    """Return the outer numbers with all free outer parameters moved."""
    outer, head, group = layout.parts.split(theta)
    free = layout.parts.joined(outer + move, head, group, theta)
    return outer_numbers(layout.parts, layout.positive, free, constraint.constrained(free))


def frame_of(
    layout: Layout,
    pairs: list[PairIndex],
    center: Center,
    chart: Charted,
) -> ArrowPreconditioner:
    """Return the preconditioner of the coordinates of the chart."""
    by_outer = _charted_slopes(chart, layout, center)
    found, dtype = center.arrow, tree.dtype_of(center.theta)
    put = lambda x: tree.put(x, dtype)
    group = layout.factors[-1]
    if layout.num_outer:
        outer_root, outer_inverse = spread_of(center.curvature)
    else:
        outer_root = outer_inverse = np.zeros((0, 0))
    if group.group.scale is not None:  # the chart lets levels follow the head
        slopes, borders = put(np.zeros((group.num_levels, group.width, 0))), ()
    else:
        slopes, borders = _follow(
            layout, pairs, center, -found.group_root @ np.swapaxes(found.group_root, 1, 2)
        )
    return ArrowPreconditioner(
        center.theta,
        layout.parts,
        put(outer_root),
        put(outer_inverse),
        put(found.head_root),
        put(found.head_inverse),
        put(by_outer[0]),
        put(found.group_root),
        put(found.group_inverse),
        put(by_outer[1]),
        slopes,
        borders,
    )


def _charted_slopes(
    chart: Charted, layout: Layout, center: Center
) -> tuple[Float[np.ndarray, "h o"], Float[np.ndarray, "G q o"]]:
    """Return how head and levels follow the outer parameters in the coordinates of the chart.

    They are the slopes of the effects themselves, less what the chart makes of changes of the other parameters.
    """
    head, group = center.by_outer
    if layout.num_outer == 0:
        return head, group
    put = lambda x: tree.put(x, tree.dtype_of(center.theta))
    found = [
        _along(chart, layout.parts, center.theta, put(e), put(head[:, j]))
        for j, e in enumerate(np.eye(layout.num_outer))
    ]
    by_chart = [np.stack([np.asarray(x[i], np.float64) for x in found], axis=-1) for i in (0, 1)]
    return head - by_chart[0], group - by_chart[1]


@compile_quickly
def _along(
    chart: Charted, parts: Parts, theta: PyTree, e: Float[Array, " o"], crossed: Float[Array, " h"]
) -> tuple[Float[Array, " h"], Float[Array, "G q"]]:
    """Return how head and levels of the chart move along outer direction `e`, and the head itself by `crossed`."""
    outer, head, fixed = parts.split(theta)
    at = lambda x, h: parts.split(chart.centred(parts.joined(x, h, fixed, theta)))[1:]
    by_crossed = jax.jvp(lambda x: at(x, head), (outer,), (e,))[1][0]
    # The head in the chart's coordinates moves by what is left of its slope.
    return by_crossed, jax.jvp(at, (outer, head), (e, crossed - by_crossed))[1][1]
