"""Warm-up for posteriors that are not normal around one mode, or have too many parameters for a Hessian.

Adam runs from several starting points, followed by a short pilot run of the sampler. Coordinates, step size and
batch size are then chosen again from the positions that the chains have reached.
"""

import dataclasses
import math
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.chains.drive import drive
from isotherm.chains.ensemble import Length, ensemble_of
from isotherm.chains.noise import measure
from isotherm.chains.problem import Problem
from isotherm.chains.resident import resident
from isotherm.chains.setup import Setup, at_temperature
from isotherm.chains.starts import NormalStarts
from isotherm.covariance import Dense, DiagonalLowRank
from isotherm.data.plans import AllRows, WithReplacement
from isotherm.data.stream import Stream, num_rows, rows_in_memory
from isotherm.draws.record import Arithmetic, Reason
from isotherm.errors import must
from isotherm.gradients.minibatch import FullData, Minibatch
from isotherm.kernel import Kernel
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.samplers import CCAdL
from isotherm.tuning.descent import apart, descend
from isotherm.tuning.moving_anchors import moving
from isotherm.tuning.sketch import sketch, stiffness, stiffness_passes

_STARTS = 4
_ROWS, _LARGEST = 128, 2048  # batch size: first and largest
_PASSES, _STEPS = 4.0, (1000, 4000)  # of Adam: passes in all; fewest and most steps per start
_PILOT, _KEPT = 1000, 8  # steps of the pilot run, and positions saved in its second half
_STEP, _FRICTION = 0.5, 0.1  # step size times the stiffest frequency; friction
_S = 0.5  # target of s with plain minibatches
_QUIET = 0.15  # target of s if the noise grows with the distance from an anchor
_DENSE, _RANK = 128, 16  # most parameters for a dense noise covariance; its rank beyond that
_THINNING, _BURN_IN = 8.0, 800.0  # in units of time
_SPREAD, _MASS = 0.05, 100.0  # sd of the chains around their start, in v; smallest thermal mass
_WORTH = 3.0  # moving anchors are used if they need this many times fewer rows
_SKETCH_PASSES = 2.0  # approximate cost of a sketch


def explore(
    problem: Problem,
    why: str,
    *,
    key: Key[Array, ""],
    batch_size: int | None,
    say: Callable[[str], None],
) -> Setup:
    """Return a setup that does not assume a mode.

    `why` is the reason for using this warm-up. `say` is called with a description of each stage.
    """
    began, keys = time.perf_counter(), jax.random.split(key, 8)
    posterior, data, num_data = problem.density, problem.data, problem.num_data
    size, given = tree.size(problem.init), batch_size is not None
    if isinstance(data, Stream):
        WithReplacement().check_stream(num_data)
    n = min(_ROWS, num_data) if batch_size is None else batch_size
    adam_rows = n
    steps = int(np.clip(_PASSES / _STARTS * num_data / n, *_STEPS))
    say(f"running Adam from {_STARTS} starting points, {steps} steps each")
    points = apart(problem.init, count=_STARTS, key=keys[6])
    points = descend(posterior, data, points, steps=steps, batch_size=n, key=keys[0])
    points = _finite(posterior, data, points)
    say("choosing coordinates, batch size and step size")
    chart = sketch(posterior, data, points, key=keys[4])
    paths = jax.tree.map(lambda x: x[:, None], points)
    first = _fitted(posterior, data, paths, chart, n, fixed=given, key=keys[1])
    say("pilot run of the sampler")
    paths = _pilot(problem, first.kernel, points, keys[2])
    points = _ends(paths)
    chart = sketch(posterior, data, points, key=keys[5])
    fit = _fitted(posterior, data, paths, chart, first.kernel.batch_size, fixed=given, key=keys[3])
    if not given:
        between = _PILOT // 2 // _KEPT * first.step_size
        fit = _with_anchors(posterior, data, paths, between, fit, key=keys[7])
    h, n, all_rows = fit.step_size, fit.kernel.batch_size, fit.kernel.gradient.all_rows
    noise = "the gradient has no noise" if all_rows else f"gradient noise s = {fit.s:.2g} at this step size"
    burn_in, thinning = math.ceil(_BURN_IN / h), max(1, round(_THINNING / h))
    reasons = (
        Reason(
            "start",
            f"{_STARTS} points",
            f"found by Adam ({steps} steps each) and a pilot run of the sampler, since {why}",
        ),
        Reason(
            "preconditioner",
            "diagonal and low rank",
            "Fisher information and curvature of the prior, averaged over the starting points",
        ),
        Reason("gradient", *fit.gradient),
        Reason("batch_size", str(n), noise if batch_size is None else f"given; {noise}"),
        Reason(
            "step_size", f"{h:.3g}", f"the stiffest direction has frequency {math.sqrt(fit.stiffest):.2g}"
        ),
        Reason("friction", f"{_FRICTION:g}", "small, so that slow directions are not overdamped"),
        Reason("burn_in", str(burn_in), f"{_BURN_IN:g} units of time (steps times step size)"),
        Reason("thinning", str(thinning), f"one draw per {_THINNING:g} units of time"),
    )
    spent = _STARTS * (steps * adam_rows + _PILOT * first.kernel.batch_size) / num_data + 2 * _SKETCH_PASSES
    spent += stiffness_passes((1 + _KEPT) * _STARTS, num_data)
    return Setup(
        problem=problem,
        kernel=Kernel(
            at_temperature(_sampler(h, size), problem.posterior),
            fit.kernel.gradient,
            num_data,
            n,
            AllRows() if all_rows else WithReplacement(),
            chart,
            problem.posterior.constraint,
        ),
        starts=NormalStarts(chart, _SPREAD * problem.temperature**0.5, points),
        burn_in=burn_in,
        thinning=thinning,
        reasons=reasons,
        passes=spent,
        seconds=time.perf_counter() - began,
        arithmetic=Arithmetic(str(tree.ravel(problem.init).dtype), why_not_float64=problem.why_not_float64),
    )


def _finite(posterior: Posterior, data: PyTree, points: PyTree[Array]) -> PyTree[Array]:
    """Return the points, with those outside the support replaced by copies of others."""
    few_rows = jax.tree.map(lambda x: x[:_ROWS], rows_in_memory(data))
    density = np.asarray(
        [posterior.log_density(jax.tree.map(lambda x, i=i: x[i], points), few_rows) for i in range(_STARTS)]
    )
    inside = np.flatnonzero(np.isfinite(density))
    if len(inside) == 0:
        raise must(
            "init",
            "a point from which Adam reaches finite log-densities",
            density.tolist(),
            "Use transforms to stay inside the support, or give a sampler.",
        )
    return jax.tree.map(lambda x: x[inside[np.arange(_STARTS) % len(inside)]], points)


@dataclasses.dataclass(frozen=True)
class _Fit:
    """A kernel fitted to the chains' positions: its step size, the largest curvature, s, the gradient and why."""

    kernel: Kernel
    step_size: float
    stiffest: float
    s: float
    gradient: tuple[str, str]


def _fitted(
    posterior: Posterior,
    data: PyTree,
    paths: PyTree[Array],
    preconditioner: Preconditioner,
    n: int,
    *,
    fixed: bool,
    key: Key[Array, ""],
) -> _Fit:
    """Return a kernel with a batch size for the ends of `paths` and a step size for their stiffest position.

    Leaves of `paths` are (chain, position, ...).
    """
    keys = jax.random.split(key, 3)
    points, visited = _ends(paths), jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), paths)
    num_data, size = num_rows(data), tree.size(points) // _STARTS
    stiffest = max(1.0, stiffness(posterior, data, visited, preconditioner, key=keys[1]))
    h, T = _STEP / math.sqrt(stiffest), float(posterior.temperature)
    if n == num_data and not fixed:
        n = min(_ROWS, num_data)  # the last fit chose all rows: measure the noise of a minibatch again
    trial = Kernel(_sampler(h, size, T), Minibatch(posterior), num_data, n, WithReplacement(), preconditioner)
    s = _largest_s(trial, data, jax.vmap(preconditioner.from_params)(points), keys[2])
    rows_needed, gradient, plan = s * n / _S, trial.gradient, trial.minibatch
    if not fixed:
        n = min(_LARGEST, max(n, 2 ** math.ceil(math.log2(max(1.0, rows_needed)))))
        if 8 * n > num_data and not isinstance(data, Stream):
            n, gradient, plan = num_data, FullData(posterior), AllRows()
    if not gradient.all_rows and rows_needed > n:
        h *= math.sqrt(n / rows_needed)
    kernel = Kernel(_sampler(h, size, T), gradient, num_data, n, plan, preconditioner)
    return _Fit(
        kernel,
        h,
        stiffest,
        min(_S, _S * rows_needed / n),
        ("all rows" if gradient.all_rows else "minibatch", ""),
    )


def _with_anchors(
    posterior: Posterior,
    data: PyTree,
    paths: PyTree[Array],
    between: float,
    fit: _Fit,
    *,
    key: Key[Array, ""],
) -> _Fit:
    """Return the fit with anchors that move with the chains, if they need far fewer rows per unit of time.

    `between` is the time between two successive positions of `paths`.
    """
    old = fit.kernel
    size, T = tree.size(_ends(paths)) // _STARTS, float(posterior.temperature)
    h, n = _STEP / math.sqrt(fit.stiffest), min(_ROWS, old.num_data)
    sampler, plan = _sampler(h, size, T), WithReplacement()
    trial = Kernel(sampler, Minibatch(posterior), old.num_data, n, plan, old.preconditioner)
    best = moving(trial, data, paths, between / h, s=_QUIET, key=key)
    if best is None:
        return fit
    relative_cost = fit.step_size / h * best.cost / old.batch_size
    if not relative_cost * _WORTH < 1:
        why = f"a control variate with moving anchors would cost {relative_cost:.2g} times as much"
        return dataclasses.replace(fit, gradient=(fit.gradient[0], why))
    kernel = Kernel(sampler, best.gradient, old.num_data, best.batch_size, plan, old.preconditioner)
    name = f"control variate, anchors moved every {best.gradient.refresh} steps"
    why = f"costs {relative_cost:.2g} times as much as the alternative, {fit.gradient[0]}"
    if isinstance(data, Stream):
        why += "; each move reads all rows"
    return _Fit(kernel, h, fit.stiffest, _QUIET, (name, why))


def _ends(paths: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda x: x[:, -1], paths)


def _largest_s(kernel: Kernel, data: PyTree, positions: PyTree[Array], key: Key[Array, ""]) -> float:
    kernel, rows = resident(kernel, data, key=key)
    measured = [
        measure(kernel, rows, jax.tree.map(lambda x, i=i: x[i], positions), step=0, key=k)
        for i, k in enumerate(jax.random.split(key, _STARTS))
    ]
    return max((noise.s for noise in measured if noise is not None), default=0.0)


def _sampler(h: float, size: int, T: float | None = None) -> CCAdL:
    covariance = Dense() if size <= _DENSE else DiagonalLowRank(rank=_RANK)
    mu = max(float(size), _MASS)
    plain = CCAdL(h, _FRICTION, covariance=covariance, scheme="symmetric", thermal_mass=mu)
    if T is None:
        return plain
    return eqx.tree_at(lambda s: s.temperature, plain, jnp.asarray(T, float), is_leaf=lambda x: x is None)


def _pilot(problem: Problem, kernel: Kernel, points: PyTree[Array], key: Key[Array, ""]) -> PyTree[Array]:
    """Return positions saved during a pilot run, its end last, as parameters with leaves (chain, position, ...).

    A chain that failed is represented by its last finite position.
    """
    chart = kernel.preconditioner
    assert chart is not None
    thinning = _PILOT // 2 // _KEPT
    setup = Setup(problem, kernel, NormalStarts(chart, 0.0, points), _PILOT // 2, thinning)
    outcome = drive(
        ensemble_of([setup], points, Length(_STARTS, _KEPT), key), progress=False, title="warm-up"
    )
    if outcome.interrupted:
        raise KeyboardInterrupt
    end = jax.vmap(kernel.params)(outcome.last_finite)
    # A chain that failed saved no further positions: its last finite one replaces them.
    fill = lambda x, last: jnp.where(jnp.isfinite(x), x, last[:, None])
    kept = jax.tree.map(jnp.asarray, outcome.kept.params)
    if jax.tree.leaves(kept)[0].shape[1] == 0:  # all of them failed
        return jax.tree.map(lambda last: last[:, None], end)
    return jax.tree.map(lambda x, last: fill(x, last).at[:, -1].set(last), kept, end)
