"""Warm-up for posteriors with effects of groups."""

import dataclasses
import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.centring import Centring, Charted, charted
from isotherm.chains import advice
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup
from isotherm.chains.starts import NormalStarts
from isotherm.data.stream import Stream
from isotherm.draws.record import Arithmetic, Reason
from isotherm.sums import precision
from isotherm.tuning.groups.batches import FEW_ROWS, Batches, all_rows, batches_of
from isotherm.tuning.groups.coordinates import chart_of, frame_of
from isotherm.tuning.groups.derivatives import check_own_levels
from isotherm.tuning.groups.expansion import expansion
from isotherm.tuning.groups.layout import Layout, layout_of, level_columns, pair_index
from isotherm.tuning.groups.marginal import Center, Marginal
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
        chart = chart_of(problem, layout, pairs, center)
        frame = frame_of(layout, pairs, center, chart)
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


def _prior_share(c: Centring) -> float:
    """Return the mean over levels and effects of the share of the precision that comes from the prior."""
    information, factor = (np.asarray(x, np.float64) for x in (c.information, c.factor))
    whole = np.swapaxes(factor, 1, 2) @ factor
    ratio = np.trace(np.linalg.solve(whole, information), axis1=1, axis2=2) / whole.shape[1]
    return float(1 - np.mean(ratio))


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
