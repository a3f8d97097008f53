"""A warm-up for posteriors that are not normal around one mode, or have too many parameters for a Hessian.

Adam runs from several starts and the sampler itself for a short while. Then coordinates, step and batch are chosen
again from where the chains have got to.
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
from isotherm.chains.ensemble import Length, launch
from isotherm.chains.noise import measure
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup, at_temperature
from isotherm.chains.starts import NormalStarts
from isotherm.covariance import Dense, DiagonalLowRank
from isotherm.data.plans import AllRows, WithReplacement
from isotherm.draws.record import Reason
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
_ROWS, _LARGEST = 128, 2048  # of a batch, at first and at most
_PASSES, _STEPS = 4.0, (1000, 4000)  # of Adam: passes in all; steps from each start, at least and at most
_PILOT, _KEPT = 1000, 8  # steps of the short run, and positions of it that are kept
_STEP, _FRICTION = 0.5, 0.1
_S = 0.5  # s to aim at with plain minibatches
_QUIET = 0.15  # s to aim at with noise that grows with the distance from an anchor
_DENSE, _RANK = 128, 16  # parameters up to which a matrix controls the noise; rank of the control beyond
_THINNING, _BURN_IN = 8.0, 800.0  # in units of time
_SPREAD, _MASS = 0.05, 100.0
_WORTH = 3.0  # times fewer rows, from which moving anchors are used
_SKETCH_PASSES = 2.0  # about what a sketch costs


def explore(
    problem: Problem,
    why: str,
    *,
    key: Key[Array, ""],
    batch_size: int | None,
    say: Callable[[str], None],
) -> Setup:
    """A setup that assumes no mode; `why` is the reason for using this warm-up.

    `say` is called with what is being done.
    """
    began, keys = time.perf_counter(), jax.random.split(key, 8)
    posterior, data, num_data = problem.free, problem.data, problem.num_data
    size, given = tree.size(problem.init), batch_size is not None
    n = min(_ROWS, num_data) if batch_size is None else batch_size
    adam_rows = n
    steps = int(np.clip(_PASSES / _STARTS * num_data / n, *_STEPS))
    say(f"Adam from {_STARTS} starts, {steps} steps each")
    points = apart(problem.init, count=_STARTS, key=keys[6])
    points = descend(posterior, data, points, steps=steps, batch_size=n, key=keys[0])
    points = _finite(posterior, data, points)
    say("coordinates, batch and step")
    chart = sketch(posterior, data, points, key=keys[4])
    paths = jax.tree.map(lambda x: x[:, None], points)
    first = _fitted(posterior, data, paths, chart, n, fixed=given, key=keys[1])
    say("a short run of the sampler")
    paths = _pilot(problem, first.kernel, points, keys[2])
    points = _ends(paths)
    chart = sketch(posterior, data, points, key=keys[5])
    fit = _fitted(posterior, data, paths, chart, first.kernel.batch_size, fixed=given, key=keys[3])
    if not given:
        between = _PILOT // 2 // _KEPT * first.step_size
        fit = _with_anchors(posterior, data, paths, between, fit, key=keys[7])
    h, n, all_rows = fit.step_size, fit.kernel.batch_size, fit.kernel.gradient.all_rows
    noise = "no noise is left" if all_rows else f"s = {fit.s:.2g} at the step chosen"
    thinning = max(1, round(_THINNING / h))
    reasons = (
        Reason(
            "start", f"{_STARTS} places", f"{why}; Adam, {steps} steps each, and a short run of the sampler"
        ),
        Reason(
            "preconditioner",
            "diagonal and low rank",
            "Fisher information and prior, on average over the places",
        ),
        Reason("gradient", *fit.gradient),
        Reason("batch_size", str(n), noise if batch_size is None else f"given; {noise}"),
        Reason("step_size", f"{h:.3g}", f"the stiffest frequency is {math.sqrt(fit.stiffest):.2g}"),
        Reason("friction", f"{_FRICTION:g}", "small, for the sake of slow directions"),
        Reason("thinning", str(thinning), f"{_THINNING:g} units of time"),
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
        burn_in=math.ceil(_BURN_IN / h),
        thinning=thinning,
        reasons=reasons,
        passes=spent,
        seconds=time.perf_counter() - began,
    )


def _finite(posterior: Posterior, data: PyTree, points: PyTree[Array]) -> PyTree[Array]:
    """The points, with those that ended outside the support replaced by others that did not."""
    some = jax.tree.map(lambda x: x[:_ROWS], data)
    density = np.asarray(
        [posterior.log_density(jax.tree.map(lambda x, i=i: x[i], points), some) for i in range(_STARTS)]
    )
    good = np.flatnonzero(np.isfinite(density))
    if len(good) == 0:
        raise must(
            "init",
            "where the log-density stays finite under optimisation",
            density,
            "Use transforms, or give a sampler.",
        )
    return jax.tree.map(lambda x: x[good[np.arange(_STARTS) % len(good)]], points)


@dataclasses.dataclass(frozen=True)
class _Fit:
    """A kernel for where chains are, its step, the largest curvature there, s, and the gradient and why."""

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
    """A batch for where chains are and a step for the stiffest position on their paths, (chain, position, ...)."""
    keys = jax.random.split(key, 3)
    points, passed = _ends(paths), jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), paths)
    num_data, size = jax.tree.leaves(data)[0].shape[0], tree.size(points) // _STARTS
    stiffest = max(1.0, stiffness(posterior, data, passed, preconditioner, key=keys[1]))
    h, T = _STEP / math.sqrt(stiffest), float(posterior.temperature)
    if n == num_data and not fixed:
        n = min(_ROWS, num_data)  # the batch by which all rows were chosen
    trial = Kernel(_sampler(h, size, T), Minibatch(posterior), num_data, n, WithReplacement(), preconditioner)
    s = _largest_s(trial, data, jax.vmap(preconditioner.from_params)(points), keys[2])
    wanted, gradient, plan = s * n / _S, trial.gradient, trial.minibatch
    if not fixed:
        n = min(_LARGEST, max(n, 2 ** math.ceil(math.log2(max(1.0, wanted)))))
        if 8 * n > num_data:
            n, gradient, plan = num_data, FullData(posterior), AllRows()
    if not gradient.all_rows and wanted > n:
        h *= math.sqrt(n / wanted)
    kernel = Kernel(_sampler(h, size, T), gradient, num_data, n, plan, preconditioner)
    return _Fit(
        kernel, h, stiffest, min(_S, _S * wanted / n), ("all rows" if gradient.all_rows else "minibatch", "")
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
    """The same with anchors that move with the chains, if that takes far fewer rows for a unit of time.

    `between` is the time between two positions of `paths`.
    """
    old = fit.kernel
    size, T = tree.size(_ends(paths)) // _STARTS, float(posterior.temperature)
    h, n = _STEP / math.sqrt(fit.stiffest), min(_ROWS, old.num_data)
    sampler, plan = _sampler(h, size, T), WithReplacement()
    trial = Kernel(sampler, Minibatch(posterior), old.num_data, n, plan, old.preconditioner)
    best = moving(trial, data, paths, between / h, s=_QUIET, key=key)
    if best is None:
        return fit
    price = fit.step_size / h * best.cost / old.batch_size
    if not price * _WORTH < 1:
        why = f"anchors that move with the chains would cost {price:.2g} times as much"
        return dataclasses.replace(fit, gradient=(fit.gradient[0], why))
    kernel = Kernel(sampler, best.gradient, old.num_data, best.batch_size, plan, old.preconditioner)
    what = f"control variate, anchors moved every {best.gradient.refresh} steps"
    return _Fit(kernel, h, fit.stiffest, _QUIET, (what, f"for {price:.2g} of the rows of: {fit.gradient[0]}"))


def _ends(paths: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda x: x[:, -1], paths)


def _largest_s(kernel: Kernel, data: PyTree, positions: PyTree[Array], key: Key[Array, ""]) -> float:
    measured = [
        measure(kernel, data, jax.tree.map(lambda x, i=i: x[i], positions), step=0, key=k)
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
    """Some positions of a short run and, last, its end, as parameters: leaves (chain, position, ...).

    Those of a chain that failed are its last finite position.
    """
    chart = kernel.preconditioner
    assert chart is not None
    thinning = _PILOT // 2 // _KEPT
    setup = Setup(problem, kernel, NormalStarts(chart, 0.0, points), _PILOT // 2, thinning)
    outcome = drive(launch([setup], points, Length(_STARTS, _KEPT), key), progress=False, title="warm-up")
    if outcome.interrupted:
        raise KeyboardInterrupt
    end = jax.vmap(kernel.params)(outcome.last_finite)
    # A chain that failed left no positions on the way: its end stands for them.
    fill = lambda x, last: jnp.where(jnp.isfinite(x), x, last[:, None])
    kept = jax.tree.map(jnp.asarray, outcome.kept.position)
    if jax.tree.leaves(kept)[0].shape[1] == 0:  # all of them failed
        return jax.tree.map(lambda last: last[:, None], end)
    return jax.tree.map(lambda x, last: fill(x, last).at[:, -1].set(last), kept, end)
