"""From the posterior to settings: mode, coordinates, gradient, batch, step, friction."""

import dataclasses
import math
import time
import warnings
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup, at_temperature
from isotherm.chains.starts import NormalStarts
from isotherm.covariance import Dense, Diagonal
from isotherm.data.plans import AllRows, MinibatchPlan, WithReplacement
from isotherm.data.weighted import Weighted
from isotherm.draws.record import Reason
from isotherm.errors import IsothermWarning
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import FullData, Gradient, Minibatch
from isotherm.kernel import Kernel
from isotherm.posterior import Posterior
from isotherm.samplers import CCAdL
from isotherm.tuning.metric import find_metric
from isotherm.tuning.newton import Climb, climb
from isotherm.tuning.probe import ORDERS, Probe, Rows
from isotherm.tuning.record import NotNormal, as_leaf
from isotherm.tuning.tails import Tail, long_tail

_COST = (1.0, 2.0, 3.0)  # of a step by order of the expansion, roughly
_WORTH = 3.0  # times less noise for its price, from which control variates are taken
_STEP, _FRICTION = 0.7, 1.0  # in units of the stiffest frequency, and of the slowest
_QUIET, _NOISY = 0.15, 1.0  # s to aim at: where the noise varies over the posterior, and where it hardly does
_SMALLEST, _LARGEST = 32, 2048  # batches
_DENSE_CONTROL = 128  # parameters up to which a matrix controls plain gradients
_THERMAL_MASS = 100.0
_MOST_PARAMETERS = 1000  # whose Hessian is not too large
_SLOWEST = 25.0  # steps of relaxation that are thought worth waiting for


def tune_normal(
    problem: Problem, *, key: Key[Array, ""], batch_size: int | None, say: Callable[[str], None]
) -> Setup | NotNormal:
    """A setup for a posterior that is nearly normal around one mode, or the reason why it is not.

    `say` is called with what is being done.
    """
    posterior, data, start, began = problem.free, problem.data, problem.init, time.perf_counter()
    keys, size = jax.random.split(key, 5), tree.size(start)
    if size > _MOST_PARAMETERS:
        return NotNormal(f"{size} parameters are too many for a Hessian")
    T = problem.temperature
    say("looking for the mode")
    top = climb(posterior, data, start, seed=int(jax.random.key_data(keys[0])[-1]))
    say(f"coordinates, after {top.passes:.1f} passes")
    metric = find_metric(posterior, data, top, key=keys[1])
    if isinstance(metric, NotNormal):
        return metric
    _warn_if_far(top.distance / T**0.5)
    say(f"the noise of each row, after {top.passes + metric.passes:.1f} passes")
    probe = Probe(posterior, data, metric.preconditioner, T**0.5)
    rows = probe.all_rows(key=keys[2])
    tail, tail_passes = long_tail(
        _control(posterior, top, 2), data, top, metric.preconditioner, rows.tickets(2)
    )
    if tail is not None and batch_size is not None:
        return NotNormal(_about(tail, start))
    found = (
        _noisy(probe, rows, top, keys[3:])
        if tail is None
        else _without_noise(probe, rows, _about(tail, start))
    )
    stiffest, slowest = metric.stiffest, metric.slowest
    if tail is not None:
        stiffest, slowest = max(stiffest, tail.stiffest), min(slowest, tail.slowest)
    h, A = _STEP / math.sqrt(stiffest), _FRICTION * math.sqrt(slowest)
    n, wanted = found.batch_sizes(h) if batch_size is None else (batch_size, found.batch_sizes(h)[1])
    why = f"{_STEP:g} over the stiffest frequency, {math.sqrt(stiffest):.2g}"
    if wanted > n:
        h, why = h * math.sqrt(n / wanted), f"as long as the noise of {n} rows allows"
    s = f"s = {h * h * found.worst / n:.2g} at the step chosen, of {found.target:g} allowed"
    s = "no noise is left" if found.gradient.all_rows else s
    # Control damps the noise by a friction of h C / 2.
    damping = A + h * found.noise / n / 2
    relaxation = min(max(damping / slowest, 1 / damping) / h, _SLOWEST)
    thinning = max(1, round(2 * relaxation))
    reasons = (
        Reason("mode", f"within {top.distance / T**0.5:.2g} sd", f"Newton's method, {top.passes:.1f} passes"),
        Reason("preconditioner", metric.kind, metric.note),
        *found.reasons,
        Reason("batch_size", str(n), s if batch_size is None else f"given; {s}"),
        Reason("step_size", f"{h:.3g}", why),
        Reason("friction", f"{A:.3g}", f"the slowest frequency is {math.sqrt(slowest):.2g}"),
        Reason("thinning", str(thinning), f"chains decorrelate in about {relaxation:.1f} steps"),
    )
    plain = isinstance(found.gradient, Minibatch)
    covariance = Dense() if plain and size <= _DENSE_CONTROL else Diagonal()
    mu = max(float(size), _THERMAL_MASS)
    sampler = CCAdL(h, A, covariance=covariance, scheme="symmetric", thermal_mass=mu)
    return Setup(
        problem=problem,
        kernel=Kernel(
            at_temperature(sampler, problem.posterior),
            found.gradient,
            problem.num_data,
            n,
            found.minibatch,
            metric.preconditioner,
            problem.posterior.constraint,
        ),
        starts=NormalStarts(metric.preconditioner, T**0.5),
        burn_in=math.ceil(20 * relaxation),
        thinning=thinning,
        reasons=reasons,
        passes=top.passes + metric.passes + tail_passes + found.passes,
        seconds=time.perf_counter() - began,
    )


@dataclasses.dataclass(frozen=True)
class _Estimator:
    """A gradient and its minibatches; mean and largest eigenvalue of C over T for batches of one row; s to aim at."""

    gradient: Gradient
    minibatch: MinibatchPlan
    noise: float
    worst: float
    target: float
    passes: float
    reasons: tuple[Reason, ...]
    num_data: int

    def batch_sizes(self, h: float) -> tuple[int, int]:
        """Rows to take with a step h, and rows that it would need."""
        if self.gradient.all_rows:
            return self.num_data, 0
        wanted = math.ceil(min(h * h * self.worst / self.target, 2.0**31))
        return min(_rounded(max(_SMALLEST, wanted)), self.num_data, _LARGEST), wanted


def _noisy(probe: Probe, rows: Rows, top: Climb, keys: Key[Array, " 2"]) -> _Estimator:
    """Control variates where they are worth their price, else plain minibatches."""
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
    noise, drop = rows.noise(order, tickets), _over(rows.noise(order), rows.noise(order, tickets))
    weights = f"rows are drawn in proportion to how much they vary: {drop:.2g} times less noise"
    reasons = (
        Reason("gradient", f"control variate, order {order}", why),
        Reason("minibatch", "weighted", weights),
    )
    plan = Weighted(tickets)
    return _Estimator(gradient, plan, noise / T, worst / T, _QUIET, rows.passes, reasons, num_data)


def _without_noise(probe: Probe, rows: Rows, why: str) -> _Estimator:
    reasons = (Reason("gradient", "all rows", why),)
    num_data = rows.squares.shape[1]
    return _Estimator(FullData(probe.posterior), AllRows(), 0.0, 0.0, _QUIET, rows.passes, reasons, num_data)


def _about(tail: Tail, start: PyTree) -> str:
    names = [name for name, x in tree.named_leaves(start) for _ in range(x.size)]
    return (
        f"the posterior reaches farther than a normal one near the coordinate of `{names[tail.index]}`: at "
        f"{tail.far:+g} sd it is less likely by exp(-{max(tail.rise, 0.0):.1f}) only, and noise would differ there"
    )


def _over(a: float, b: float) -> float:
    """a / b, and 1 where there is nothing to divide."""
    return a / b if b > 0 else 1.0


def _warn_if_far(distance: float) -> None:
    if not distance < 1:
        warnings.warn(
            f"The warm-up stopped {distance:.2g} standard deviations from the mode: start nearer to it.",
            IsothermWarning,
            stacklevel=5,
        )


def _rounded(rows: int) -> int:
    """Up to a power of two or half-way between two, so that another seed seldom needs another program."""
    power = 2 ** math.floor(math.log2(rows))
    return next(n for n in (power, power * 3 // 2, 2 * power) if n >= rows)


def _order(rows: Rows) -> tuple[int, str]:
    """The order of the expansion that gives the least noise for its price, and why; 0 is none."""
    noise = [rows.noise(order, rows.tickets(order) if order else None) for order in ORDERS]
    price = [a * b for a, b in zip(noise, _COST, strict=True)]
    less = ", ".join(f"{_over(x, noise[0]):.2g}" for x in noise[1:])
    why = f"noise of control variates of order 1, 2 over plain: {less}"
    best = int(np.argmin(price))
    if best == 0 or not price[0] > _WORTH * price[best]:
        return 0, f"{why}: not worth it"
    return best, why


def _control(posterior: Posterior, top: Climb, order: int) -> ControlVariate:
    theta = top.point.theta
    value, gradient, hessian = (as_leaf(x, theta) for x in top.point.known)
    if order == 1:
        return ControlVariate(posterior, order=1, anchor=theta, sums=(value, gradient, None))
    return ControlVariate(posterior, order=2, anchor=theta, sums=(value, gradient, hessian))
