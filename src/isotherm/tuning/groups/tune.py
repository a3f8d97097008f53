"""Warm-up for posteriors with effects of groups."""

import dataclasses
import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree
from scipy import sparse

from isotherm import tree
from isotherm.arrow import ArrowPreconditioner, Border
from isotherm.centring import Centring, Charted, charted, outer_numbers
from isotherm.chains import advice
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup
from isotherm.chains.starts import NormalStarts
from isotherm.data.stream import Stream
from isotherm.deviations import Deviations, prior_factor
from isotherm.draws.record import Arithmetic, Reason
from isotherm.sums import precision
from isotherm.transforms import Constraint
from isotherm.tuning.groups.batches import FEW_ROWS, Batches, all_rows, batches_of
from isotherm.tuning.groups.derivatives import check_own_levels
from isotherm.tuning.groups.expansion import expansion
from isotherm.tuning.groups.layout import Layout, PairIndex, layout_of, level_columns, pair_index
from isotherm.tuning.groups.marginal import MOVE, Center, Marginal, spread_of
from isotherm.tuning.groups.pace import STEP, Pace, kernel_of, paced


def tune_groups(
    problem: Problem,
    *,
    key: Key[Array, ""],
    batch_size: int | None,
    say: Callable[[str], None],
    stacklevel: int,
) -> Setup:
    """Return a setup for a posterior whose parameters have levels of groups.

    `say` is called with a description of each stage. Warnings point `stacklevel` calls up.
    """
    began, posterior, data = time.perf_counter(), problem.posterior, problem.data
    layout = layout_of(posterior, problem.init, data)
    wide = problem.why_not_float64 is None
    seed = int(np.asarray(jax.random.key_data(key)).ravel()[-1])
    with precision.float64(wide):
        density = precision.widened(problem.density) if wide else problem.density
        start = precision.widened(problem.init) if wide else problem.init
        check_own_levels(density, data, start, layout)
        columns = level_columns(layout, data)
        pairs = [pair_index(layout, data, i, j, columns) for i, j in layout.pairs]
        say("finding the scales of the groups")
        center = Marginal(density, data, layout, pairs, seed=seed).center(start)
        chart = _chart(problem, layout, pairs, center)
        frame = _frame(layout, pairs, center, chart)
        narrow = lambda x: _as_dtype(x, tree.dtype_of(problem.init))
        chart, frame = narrow(chart), narrow(frame)
        target = charted(problem.density, chart)
        batches = None
        if batch_size is not None or isinstance(data, Stream) or problem.num_data > FEW_ROWS:
            say(f"measuring the noise of rows, after {center.passes:.0f} passes")
            coordinates = precision.widened((chart, frame)) if wide else (chart, frame)
            gradient = expansion(density, data, layout, pairs, *coordinates)
            batches = batches_of(gradient, data, columns, target, given=batch_size, seed=seed)
            batches = batches.narrowed(narrow(batches.gradient), problem.density, chart, frame)
    problem = dataclasses.replace(problem, density=target, init=frame.center)
    say(f"pilot run of the sampler, after {center.passes:.0f} passes")
    pilot = None if batches is None else batches.of_pilot
    pace = paced(problem, chart, frame, pilot, key=key, seed=seed)
    if batches is not None:
        with precision.float64(wide):
            batches = batches.rechecked(pace.positions)
        if batches.loose(pace.step_size, pace.friction):
            wanted = dataclasses.replace(batches, given=None).needed(pace.step_size, pace.friction)
            advice.warn(advice.about_tails(wanted, batch_size or wanted), stacklevel=stacklevel + 1)
    force = all_rows(target, data) if batches is None else batches.force(pace.step_size, pace.friction)
    why_not = problem.why_not_float64
    return Setup(
        problem=problem,
        kernel=kernel_of(problem, chart, frame, pace.step_size, pace.friction, force),
        starts=NormalStarts(frame, problem.temperature**0.5),
        burn_in=pace.burn_in,
        thinning=pace.thinning,
        reasons=_reasons(layout, chart, center, pace, batches),
        passes=center.passes + pace.passes + (0 if batches is None else 1 + batches.passes),
        seconds=time.perf_counter() - began,
        arithmetic=Arithmetic(str(tree.dtype_of(problem.init)), why_not_float64=why_not),
    )


def _chart(problem: Problem, layout: Layout, pairs: list[PairIndex], center: Center) -> Charted:
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

    @jax.jit
    def numbers(theta: PyTree, move: Array) -> Float[Array, " o"]:
        outer, head, group = layout.parts.split(theta)
        free = layout.parts.joined(outer + move, head, group, theta)
        return outer_numbers(layout.parts, layout.positive, free, constraint.constrained(free))

    at = lambda move: np.asarray(numbers(theta, tree.put(move, tree.dtype_of(theta))), np.float64)
    return at(MOVE) - at(0.0)


def _prior_share(c: Centring) -> float:
    """Return the mean over levels and effects of the share of the precision that comes from the prior."""
    information, factor = (np.asarray(x, np.float64) for x in (c.information, c.factor))
    whole = np.swapaxes(factor, 1, 2) @ factor
    ratio = np.trace(np.linalg.solve(whole, information), axis1=1, axis2=2) / whole.shape[1]
    return float(1 - np.mean(ratio))


def _charted_slopes(
    chart: Charted, layout: Layout, center: Center
) -> tuple[Float[np.ndarray, "h o"], Float[np.ndarray, "G q o"]]:
    """Return how head and levels follow the outer parameters in the coordinates of the chart.

    They are the slopes of the effects themselves, less what the chart makes of changes of the other parameters.
    """
    head, group = center.by_outer
    if layout.num_outer == 0:
        return head, group
    theta, parts = center.theta, layout.parts
    outer, _, fixed = parts.split(theta)
    put = lambda x: tree.put(x, outer.dtype)

    @jax.jit
    def along(e: Array, crossed: Array) -> tuple[Array, Array]:
        at = lambda x, h: parts.split(chart.centred(parts.joined(x, h, fixed, theta)))[1:]
        still = lambda x: at(x, parts.split(theta)[1])
        by_crossed = jax.jvp(still, (outer,), (e,))[1][0]
        # The head in the chart's coordinates moves by what is left of its slope.
        return by_crossed, jax.jvp(at, (outer, parts.split(theta)[1]), (e, crossed - by_crossed))[1][1]

    found = [along(put(e), put(head[:, j])) for j, e in enumerate(np.eye(layout.num_outer))]
    by_chart = [np.stack([np.asarray(x[i], np.float64) for x in found], axis=-1) for i in (0, 1)]
    return head - by_chart[0], group - by_chart[1]


def _frame(
    layout: Layout,
    pairs: list[PairIndex],
    center: Center,
    chart: Charted,
) -> ArrowPreconditioner:
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


def _as_dtype(x: PyTree, dtype: np.dtype) -> PyTree:
    def one(leaf: object) -> object:
        return (
            tree.put(leaf, dtype)
            if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)
            else leaf
        )

    return jax.tree.map(one, x)


def _reasons(
    layout: Layout, chart: Charted, center: Center, pace: Pace, batches: Batches | None
) -> tuple[Reason, ...]:
    sizes = ", ".join(f"{factor.name} {factor.num_levels}" for factor in layout.factors)
    forms = [
        Reason(
            f"form of {c.leaf}",
            f"{_prior_share(c):.0%} non-centred",
            "the mean share of a level's information that its prior has",
        )
        for c in chart.centrings
    ]
    found = f"marginal mode of the scales, {center.passes:.0f} passes"
    stiff = f"{STEP:g} divided by the frequency of the stiffest direction, {math.sqrt(pace.stiffest):.2g}"
    by_rows = (Reason("gradient", "all rows", f"there are no more than {FEW_ROWS}"),)
    return (
        Reason("center", f"within {center.distance:.2g} sd", found),
        Reason("preconditioner", "arrow", f"levels are independent given the rest: {sizes}"),
        *forms,
        *(by_rows if batches is None else batches.reasons(pace.step_size, pace.friction)),
        Reason("step_size", f"{pace.step_size:.3g}", stiff),
        Reason(
            "friction",
            f"{pace.friction:.3g}",
            f"the widest scale of a pilot run has {pace.widest:.2g} times its normal variance",
        ),
        Reason("burn_in", str(pace.burn_in), "20 decorrelation times"),
        Reason("thinning", str(pace.thinning), f"chains decorrelate in about {pace.relaxation:.1f} steps"),
    )
