"""Warm-up for posteriors that are nearly normal around one mode."""

import dataclasses
import math
import time
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.chains import advice
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup, at_temperature
from isotherm.chains.starts import NormalStarts
from isotherm.covariance import Dense, Diagonal
from isotherm.data.plans import AllRows, MinibatchPlan, WithReplacement
from isotherm.data.weighted import Weighted
from isotherm.draws.record import Reason
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import FullData, Gradient, Minibatch
from isotherm.kernel import Kernel
from isotherm.posterior import Posterior
from isotherm.samplers import CCAdL
from isotherm.tuning.metric import NotNormal, find_metric
from isotherm.tuning.newton import Climb, climb
from isotherm.tuning.probe import ORDERS, Probe, Rows
from isotherm.tuning.tails import Tail, long_tail

_COST = (1.0, 2.0, 3.0)  # approximate cost of a step, by order of the expansion
_WORTH = 3.0  # control variates are used if they lower noise times cost by this factor
_STEP, _FRICTION = 0.7, 1.0  # step size times the stiffest frequency; friction over the slowest
_QUIET, _NOISY = 0.15, 1.0  # target of s if the noise varies over the posterior, and if it hardly does
_SMALLEST, _LARGEST = 32, 2048  # batch sizes
_DENSE_CONTROL = 128  # most parameters for a dense noise covariance, with plain minibatches
_THERMAL_MASS = 100.0  # smallest
_MOST_PARAMETERS = 1000  # for which a Hessian is computed
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

    `say` is called with a description of each stage.
    """
    posterior, data, start, began = problem.density, problem.data, problem.init, time.perf_counter()
    keys, size = jax.random.split(key, 5), tree.size(start)
    if size > _MOST_PARAMETERS:
        return NotNormal(f"{size} parameters are too many for a Hessian")
    T = problem.temperature
    say("finding the mode")
    top = climb(posterior, data, start, seed=int(jax.random.key_data(keys[0])[-1]))
    say(f"choosing coordinates, after {top.passes:.1f} passes")
    metric = find_metric(posterior, data, top, key=keys[1])
    if isinstance(metric, NotNormal):
        return metric
    _warn_if_far(top.distance / T**0.5, stacklevel=stacklevel + 1)
    say(f"measuring the noise of each row, after {top.passes + metric.passes:.1f} passes")
    probe = Probe(posterior, data, metric.preconditioner, T**0.5)
    rows = probe.all_rows(key=keys[2])
    tail, tail_passes = long_tail(
        _control(posterior, top, 2), data, top, metric.preconditioner, rows.tickets(2)
    )
    if tail is not None and batch_size is not None:
        return NotNormal(_describe_tail(tail, start))
    estimator = (
        _minibatch_estimator(probe, rows, top, keys[3:])
        if tail is None
        else _full_data_estimator(probe, rows, _describe_tail(tail, start))
    )
    stiffest, slowest = metric.stiffest, metric.slowest
    if tail is not None:
        stiffest, slowest = max(stiffest, tail.stiffest), min(slowest, tail.slowest)
    h, A = _STEP / math.sqrt(stiffest), _FRICTION * math.sqrt(slowest)
    n, rows_needed = (
        estimator.batch_sizes(h) if batch_size is None else (batch_size, estimator.batch_sizes(h)[1])
    )
    if batch_size is None and 8 * n > problem.num_data and not estimator.gradient.all_rows:
        estimator = _full_data_estimator(probe, rows, f"a batch of {n} rows would be over an eighth of them")
        n, rows_needed = estimator.batch_sizes(h)
    step_why = f"{_STEP:g} divided by the frequency of the stiffest direction, {math.sqrt(stiffest):.2g}"
    if rows_needed > n:
        h, step_why = h * math.sqrt(n / rows_needed), f"the largest that the noise of {n} rows allows"
    s = f"gradient noise s = {h * h * estimator.worst / n:.2g} at this step size; the limit is {estimator.target:g}"
    s = "the gradient has no noise" if estimator.gradient.all_rows else s
    # Noise control adds a friction of h C / 2.
    damping = A + h * estimator.noise / n / 2
    relaxation = min(max(damping / slowest, 1 / damping) / h, _SLOWEST)
    burn_in, thinning = math.ceil(20 * relaxation), max(1, round(2 * relaxation))
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
    plain = isinstance(estimator.gradient, Minibatch)
    covariance = Dense() if plain and size <= _DENSE_CONTROL else Diagonal()
    mu = max(float(size), _THERMAL_MASS)
    sampler = CCAdL(h, A, covariance=covariance, scheme="symmetric", thermal_mass=mu)
    return Setup(
        problem=problem,
        kernel=Kernel(
            at_temperature(sampler, problem.posterior),
            estimator.gradient,
            problem.num_data,
            n,
            estimator.minibatch,
            metric.preconditioner,
            problem.posterior.constraint,
        ),
        starts=NormalStarts(metric.preconditioner, T**0.5),
        burn_in=burn_in,
        thinning=thinning,
        reasons=reasons,
        passes=top.passes + metric.passes + tail_passes + estimator.passes,
        seconds=time.perf_counter() - began,
    )


@dataclasses.dataclass(frozen=True)
class _Estimator:
    """A gradient with its minibatch plan and its noise.

    `noise` and `worst` are the mean and the largest eigenvalue of C / T for batches of one row; `target` is the
    largest s allowed.
    """

    gradient: Gradient
    minibatch: MinibatchPlan
    noise: float
    worst: float
    target: float
    passes: float
    reasons: tuple[Reason, ...]
    num_data: int

    def batch_sizes(self, h: float) -> tuple[int, int]:
        """Return the batch size for a step h, and the number of rows that `target` calls for."""
        if self.gradient.all_rows:
            return self.num_data, 0
        rows_needed = math.ceil(min(h * h * self.worst / self.target, 2.0**31))
        return min(_rounded(max(_SMALLEST, rows_needed)), self.num_data, _LARGEST), rows_needed


def _minibatch_estimator(probe: Probe, rows: Rows, top: Climb, keys: Key[Array, " 2"]) -> _Estimator:
    """Return control variates if they are worth their cost, else plain minibatches."""
    order, why = _order(rows)
    T, num_data = float(probe.posterior.temperature), rows.squares.shape[1]
    if order == 0:
        tickets = np.ones(num_data, np.int64)
        worst = probe.lead(probe.posterior, tickets, np.zeros(0, int), key=keys[1])
        reasons = (Reason("gradient", "minibatch", why),)
        gradient, plan = Minibatch(probe.posterior), WithReplacement()
        return _Estimator(
            gradient, plan, rows.noise(0) / T, worst / T, _NOISY, rows.passes, reasons, num_data
        )
    rows = probe.again(rows, order, key=keys[0])
    tickets = rows.tickets(order)
    gradient = _control(probe.posterior, top, order)
    worst = probe.lead(gradient.expanded, tickets, rows.top(order), key=keys[1])
    noise, gain = rows.noise(order, tickets), _ratio(rows.noise(order), rows.noise(order, tickets))
    weights = f"rows with more variable gradients are drawn more often: {gain:.2g} times less noise"
    reasons = (
        Reason("gradient", f"control variate, order {order}", why),
        Reason("minibatch", "weighted", weights),
    )
    plan = Weighted(tickets)
    return _Estimator(gradient, plan, noise / T, worst / T, _QUIET, rows.passes, reasons, num_data)


def _full_data_estimator(probe: Probe, rows: Rows, why: str) -> _Estimator:
    reasons = (Reason("gradient", "all rows", why),)
    num_data = rows.squares.shape[1]
    return _Estimator(FullData(probe.posterior), AllRows(), 0.0, 0.0, _QUIET, rows.passes, reasons, num_data)


def _describe_tail(tail: Tail, start: PyTree) -> str:
    names = [name or "init" for name, x in tree.named_leaves(start) for _ in range(x.size)]
    return (
        f"the posterior has a long tail along the coordinate of `{names[tail.index]}`: at {tail.far:+g} sd its "
        f"density is still exp(-{max(tail.rise, 0.0):.1f}) times that at the mode, and the noise differs there"
    )


def _ratio(a: float, b: float) -> float:
    """Return a / b, or 1 if b is 0."""
    return a / b if b > 0 else 1.0


def _warn_if_far(distance: float, *, stacklevel: int) -> None:
    if not distance < 1:
        advice.warn(advice.about_distance(distance), stacklevel=stacklevel + 1)


def _rounded(rows: int) -> int:
    """Return `rows` rounded up to 2^k or 3 * 2^(k-1), so that most seeds share one compiled program."""
    power = 2 ** math.floor(math.log2(rows))
    return next(n for n in (power, power * 3 // 2, 2 * power) if n >= rows)


def _order(rows: Rows) -> tuple[int, str]:
    """Return the order of expansion with the least noise for its cost, and why; 0 is a plain minibatch."""
    noise = [rows.noise(order, rows.tickets(order) if order else None) for order in ORDERS]
    noise_times_cost = [a * b for a, b in zip(noise, _COST, strict=True)]
    less = ", ".join(f"{_ratio(x, noise[0]):.2g} (order {k})" for k, x in enumerate(noise[1:], start=1))
    why = f"noise relative to plain minibatches: {less}"
    best = int(np.argmin(noise_times_cost))
    if best == 0 or not noise_times_cost[0] > _WORTH * noise_times_cost[best]:
        return 0, f"control variates are not worth their cost; {why}"
    return best, why


def _control(posterior: Posterior, top: Climb, order: int) -> ControlVariate:
    theta = top.point.theta
    value, gradient, hessian = (tree.as_ravelled(x, theta) for x in top.point.known)
    if order == 1:
        return ControlVariate(posterior, order=1, anchor=theta, sums=(value, gradient, None))
    return ControlVariate(posterior, order=2, anchor=theta, sums=(value, gradient, hessian))
