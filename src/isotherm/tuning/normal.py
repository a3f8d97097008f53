"""Warm-up for posteriors that are nearly normal around one mode."""

import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import keys, tree
from isotherm.chains import advice
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup, at_temperature
from isotherm.chains.starts import NormalStarts
from isotherm.chains.verify import force_error
from isotherm.covariance import Dense, Diagonal
from isotherm.data.stream import Stream
from isotherm.draws.record import Arithmetic, Reason
from isotherm.errors import must
from isotherm.kernel import Kernel
from isotherm.posterior import Posterior
from isotherm.preconditioner import in_coordinates
from isotherm.samplers import CCAdL
from isotherm.sums import precision
from isotherm.tuning.estimator import Estimator, all_rows, cheapest, control
from isotherm.tuning.metric import NotNormal, find_metric
from isotherm.tuning.newton import Point, climb
from isotherm.tuning.probe import Probe
from isotherm.tuning.rounding import HELD, rounded, rounding_error
from isotherm.tuning.tails import Tail, long_tail

_STEP, _FRICTION = 0.7, 1.0  # step size times the stiffest frequency; friction over the slowest
_DENSE_CONTROL = 128  # most parameters for a dense noise covariance, with plain minibatches
_THERMAL_MASS = 100.0  # smallest
_MOST_PARAMETERS = 1000  # for which a Hessian is computed
_CHECK_PASSES = 2  # of the check whether float32 gives the force
_SLOWEST = 25.0  # longest relaxation, in steps, that thinning and burn-in allow for


def tune_normal(
    problem: Problem,
    *,
    key: Key[Array, ""],
    batch_size: int | None,
    say: Callable[[str], None],
    stacklevel: int = 1,
) -> Setup | NotNormal:
    """Return a setup for a posterior that is nearly normal around one mode, or the reason why it is not.

    `say` is called with a description of each stage. Everything before the chains is computed in float64, if the
    device and the log-likelihood allow it.
    """
    size = tree.size(problem.init)
    if size > _MOST_PARAMETERS:
        return NotNormal(f"{size} parameters are too many for a Hessian")
    wide, began = problem.why_not_float64 is None, time.perf_counter()
    with precision.float64(wide):
        density = precision.widened(problem.density) if wide else problem.density
        start = precision.widened(problem.init) if wide else problem.init
        choice = _choose(
            problem, density, start, key=key, batch_size=batch_size, say=say, stacklevel=stacklevel + 1
        )
    if isinstance(choice, NotNormal):
        return choice
    with precision.float64(choice.arithmetic.dtype == "float64"):
        setup = _setup(problem, choice, began)
    if choice.in_float64 is None or _is_accurate(setup):
        return setup
    with precision.float64():
        return _setup(problem, choice.in_float64, began)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """What the warm-up has chosen. `point` is the mode, in the precision in which chains run.

    `in_float64` is the same choice for chains in float64, if those are possible and were not chosen.
    """

    point: Point
    estimator: Estimator
    arithmetic: Arithmetic
    batch_size: int
    step_size: float
    friction: float
    burn_in: int
    thinning: int
    reasons: tuple[Reason, ...]
    passes: float
    in_float64: "_Choice | None" = None


def _is_accurate(setup: Setup) -> bool:
    """Return whether chains in this precision compute the force well, at two points of the posterior."""
    points = np.random.default_rng(0).standard_normal((2, setup.num_parameters))
    return force_error(setup, setup.problem.temperature**0.5 * points) < HELD


def _setup(problem: Problem, choice: _Choice, began: float) -> Setup:
    size, point, estimator = tree.size(problem.init), choice.point, choice.estimator
    sampler = CCAdL(
        choice.step_size,
        choice.friction,
        covariance=Dense() if estimator.order == 0 and size <= _DENSE_CONTROL else Diagonal(),
        scheme="symmetric",
        thermal_mass=max(float(size), _THERMAL_MASS),
    )
    kernel = Kernel(
        at_temperature(sampler, problem.posterior),
        estimator.gradient(problem.density, point),
        problem.num_data,
        choice.batch_size,
        estimator.plan,
        point.frame,
        problem.posterior.constraint,
    )
    return Setup(
        problem=dataclasses.replace(problem, init=point.theta, float64=choice.arithmetic.dtype == "float64"),
        kernel=kernel,
        starts=NormalStarts(point.frame, problem.temperature**0.5),
        burn_in=choice.burn_in,
        thinning=choice.thinning,
        reasons=choice.reasons,
        passes=choice.passes + (0 if choice.in_float64 is None else _CHECK_PASSES),
        seconds=time.perf_counter() - began,
        arithmetic=choice.arithmetic,
    )


def _choose(
    problem: Problem,
    posterior: Posterior,
    start: PyTree,
    *,
    key: Key[Array, ""],
    batch_size: int | None,
    say: Callable[[str], None],
    stacklevel: int,
) -> _Choice | NotNormal:
    data, T, split = problem.data, problem.temperature, keys.several(key, 6)
    say("finding the mode")
    top = climb(posterior, data, start, key=split[0])
    if not np.all(np.isfinite(top.point.gradient)):
        raise ValueError(
            "The log-density must have a finite gradient at `init`; it does not. Choose another `init`, or give a "
            "sampler."
        )
    say(f"choosing coordinates, after {top.passes:.1f} passes")
    metric = find_metric(posterior, data, top, key=split[1])
    if isinstance(metric, NotNormal):
        return metric
    _warn_if_far(top.distance / T**0.5, stacklevel=stacklevel + 1)
    say(f"measuring the noise of each row, after {top.passes + metric.passes:.1f} passes")
    zero = tree.put_zeros_like(start)
    probe = Probe(in_coordinates(posterior, metric.preconditioner), data, zero, T**0.5)
    rows = probe.all_rows(key=split[2])
    stiffest, slowest, spent = probe.curvatures(metric.point.hessian, rows.representatives(2), key=split[5])
    stiffest = max(stiffest, metric.stiffest)
    tail, tail_passes = long_tail(control(posterior, metric.point, 2), data, metric.point, rows.plan(2))
    if tail is not None and batch_size is not None:
        return NotNormal(_describe_tail(tail, start))
    if tail is not None and isinstance(data, Stream):
        raise must(
            "data",
            "rows that fit into memory, since steps need all of them",
            f"a source of {problem.num_data} rows",
            f"That is because {_describe_tail(tail, start)}. Set `batch_size` to use minibatches all the same, which "
            "cut off the end of that tail.",
        )
    estimator = all_rows(rows, "" if tail is None else _describe_tail(tail, start))
    if tail is None:
        estimator = cheapest(probe, rows, posterior, metric.point, split[3:5])
    else:
        stiffest, slowest = max(stiffest, tail.stiffest), min(slowest, tail.slowest)
    h, A = _STEP / math.sqrt(stiffest), _FRICTION * math.sqrt(slowest)
    n = estimator.batch_size(h, A)
    if batch_size is not None:
        n = batch_size
    elif estimator.too_large(n) and not isinstance(data, Stream):
        why = f"batches would have {n} of {problem.num_data} rows"
        estimator, n = all_rows(rows, why), problem.num_data
    step_why = f"{_STEP:g} divided by the frequency of the stiffest direction, {math.sqrt(stiffest):.2g}"
    if estimator.order is not None and h > (largest := estimator.largest_step(n, A)):
        h, step_why = largest, f"the largest that the noise of {n} rows allows"
    s = estimator.describe(h, n, A)
    # Noise control adds a friction of h C / 2.
    damping = A + h * estimator.noise / n / 2
    relaxation = min(max(damping / slowest, 1 / damping) / h, _SLOWEST)
    burn_in, thinning = math.ceil(20 * relaxation), max(1, round(2 * relaxation))
    point, arithmetic = _held(problem, metric.point)
    in_float64 = _in_float64(problem, metric.point) if arithmetic.why_not_float64 is None else None
    reasons = (
        Reason(
            "mode",
            f"within {top.distance / T**0.5:.2g} sd",
            f"Newton's method, {top.passes:.1f} passes over the data",
        ),
        Reason("preconditioner", metric.kind, metric.note),
        *estimator.reasons,
        Reason("batch_size", str(n), s if batch_size is None else f"given; {s}"),
        Reason("step_size", f"{h:.3g}", step_why),
        Reason("friction", f"{A:.3g}", f"the slowest direction has frequency {math.sqrt(slowest):.2g}"),
        Reason("burn_in", str(burn_in), "20 decorrelation times"),
        Reason("thinning", str(thinning), f"chains decorrelate in about {relaxation:.1f} steps"),
    )
    choice = _Choice(
        point=point,
        estimator=estimator,
        arithmetic=arithmetic,
        batch_size=n,
        step_size=h,
        friction=A,
        burn_in=burn_in,
        thinning=thinning,
        reasons=(*reasons, _about(arithmetic, problem)),
        passes=top.passes + metric.passes + spent + tail_passes + estimator.passes,
    )
    if in_float64 is None or arithmetic.dtype == "float64":
        return choice
    why = Reason("arithmetic", "float64", f"{arithmetic.dtype} does not give the force to {HELD:g} sd")
    wider = dataclasses.replace(
        choice, point=in_float64[0], arithmetic=in_float64[1], reasons=(*reasons, why)
    )
    return dataclasses.replace(choice, in_float64=wider)


def _held(problem: Problem, point: Point) -> tuple[Point, Arithmetic]:
    """Return the mode in the precision in which chains run, and that precision: float64 if float32 is not enough."""
    dtype, why_not = tree.dtype_of(problem.init), problem.why_not_float64
    error = rounding_error(point.frame, problem.temperature**0.5, dtype)
    if why_not is None and (problem.float64 or error > HELD):
        return _in_float64(problem, point)
    return rounded(point, problem.init), Arithmetic(str(dtype), error, why_not)


def _in_float64(problem: Problem, point: Point) -> tuple[Point, Arithmetic]:
    wide = np.dtype(np.float64)
    return point, Arithmetic(str(wide), rounding_error(point.frame, problem.temperature**0.5, wide))


def _about(arithmetic: Arithmetic, problem: Problem) -> Reason:
    dtype = str(tree.dtype_of(problem.init))
    why = f"rounding moves positions by {arithmetic.rounding:.1g} sd"
    if problem.float64:
        why = "the data do not fit into float32"
    elif arithmetic.dtype != dtype:
        why = f"{dtype} does not hold positions to {HELD:g} sd"
    return Reason("arithmetic", arithmetic.dtype, why)


def _describe_tail(tail: Tail, start: PyTree) -> str:
    names = [name or "init" for name, x in tree.named_leaves(start) for _ in range(x.size)]
    return (
        f"the posterior has a long tail along the coordinate of `{names[tail.index]}`: at {tail.far:+g} sd its "
        f"density is still exp(-{max(tail.rise, 0.0):.1f}) times that at the mode, and the noise differs there"
    )


def _warn_if_far(distance: float, *, stacklevel: int) -> None:
    if not distance < 1:
        advice.warn(advice.about_distance(distance), stacklevel=stacklevel + 1)
