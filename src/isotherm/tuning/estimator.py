"""The choice of gradient for a nearly normal posterior: control variates, plain minibatches or all rows."""

import dataclasses
import math

import numpy as np
from jaxtyping import Array, Key

from isotherm import tree
from isotherm.data.plans import AllRows, MinibatchPlan, WithReplacement
from isotherm.data.stream import Stream
from isotherm.draws.record import Reason
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import FullData, Gradient, Minibatch
from isotherm.posterior import Posterior
from isotherm.tuning.heating import heating
from isotherm.tuning.newton import Point
from isotherm.tuning.probe import ORDERS, Probe
from isotherm.tuning.tickets import Rows

_COST = (1.0, 2.0, 3.0)  # approximate cost of a step, by order of the expansion
_WORTH = 3.0  # control variates are used if they lower noise times cost by this factor
_QUIET, _NOISY = 0.15, 1.0  # target of s if the noise varies over the posterior, and if it hardly does
_SMALLEST, _LARGEST = 32, 2048  # batch sizes
_HEATED = 0.02  # most by which noise that grows with the distance may raise the variance of a coordinate
_ENOUGH = 8  # all rows are used in each step if a batch would have more than one in this many


@dataclasses.dataclass(frozen=True)
class Estimator:
    """A kind of gradient and its noise.

    - `order`: that of the control variates; 0 for plain minibatches, and `None` for all rows in each step.
    - `plan`: how rows are drawn.
    - `noise`, `worst`: the mean and the largest eigenvalue of C / T for batches of one row.
    - `heating`: what `tuning.heating` returns.
    - `target`: the largest s allowed.
    """

    order: int | None
    plan: MinibatchPlan
    noise: float
    worst: float
    heating: float
    target: float
    passes: float
    reasons: tuple[Reason, ...]
    num_data: int

    def batch_size(self, h: float, friction: float) -> int:
        """Return the batch size for a step h: as many rows as its noise calls for, within bounds."""
        if self.order is None:
            return self.num_data
        needed = max(h * h * self.worst / self.target, h * self.heating / (2 * friction * _HEATED))
        rows = _SMALLEST if needed <= _SMALLEST else math.ceil(min(needed, 2.0**31))
        return min(_rounded(rows), self.num_data, _LARGEST)

    def largest_step(self, n: int, friction: float) -> float:
        """Return the largest step that the noise of n rows allows."""
        by_s = math.sqrt(n * self.target / self.worst) if self.worst > 0 else math.inf
        return min(by_s, n * 2 * friction * _HEATED / self.heating if self.heating > 0 else math.inf)

    def describe(self, h: float, n: int, friction: float) -> str:
        """Return a sentence on the noise of n rows at a step h."""
        if self.order is None:
            return "the gradient has no noise"
        s = f"gradient noise s = {h * h * self.worst / n:.2g} at this step size; the limit is {self.target:g}"
        heated = h * self.heating / n / (2 * friction)
        return (
            s if heated < _HEATED / 10 else f"{s}. It heats a coordinate by {heated:.1%}; limit {_HEATED:.0%}"
        )

    def too_large(self, n: int) -> bool:
        """Return whether batches of n rows are so large that all rows may as well be used."""
        return self.order is not None and _ENOUGH * n > self.num_data

    def gradient(self, posterior: Posterior, point: Point) -> Gradient:
        """Return the gradient, with control variates anchored at `point`."""
        if self.order is None:
            return FullData(posterior)
        return control(posterior, point, self.order) if self.order else Minibatch(posterior)


def all_rows(rows: Rows, why: str) -> Estimator:
    """Return the estimator that uses all rows in each step."""
    reasons = (Reason("gradient", "all rows", why),)
    return Estimator(None, AllRows(), 0.0, 0.0, 0.0, _QUIET, rows.passes, reasons, rows.num_data)


def cheapest(
    probe: Probe, rows: Rows, posterior: Posterior, point: Point, keys: list[Key[Array, ""]]
) -> Estimator:
    """Return control variates if they are worth their cost, else plain minibatches."""
    (order, why), T, num_data = _order(rows), float(posterior.temperature), rows.num_data
    if order == 0:
        plan, noise = WithReplacement(), float(rows.noise()[0][0])
        if isinstance(probe.data, Stream):
            plan.check_stream(num_data)
        chosen = rows.representatives(0)
        worst = probe.lead(probe.density, chosen, rows.weights(0, plan, chosen), key=keys[1])
        reasons = (Reason("gradient", "minibatch", why),)
        return Estimator(0, plan, noise / T, worst / T, 0.0, _NOISY, rows.passes, reasons, num_data)
    expanded = control(posterior, point, order)
    rows = probe.again(rows, expanded.expanded, order, key=keys[0])
    plan = rows.plan(order)
    chosen = rows.representatives(order)
    worst = probe.lead(expanded.expanded, chosen, rows.weights(order, plan, chosen), key=keys[1])
    heat, passes = heating(expanded, probe.data, plan)
    equal, weighted = (float(x[order]) for x in rows.noise())
    gain = f"rows with more variable gradients are drawn more often: {_ratio(equal, weighted):.2g} times less noise"
    reasons = (
        Reason("gradient", f"control variate, order {order}", why),
        Reason("minibatch", "weighted", gain),
    )
    return Estimator(
        order, plan, weighted / T, worst / T, heat, _QUIET, rows.passes + passes, reasons, num_data
    )


def control(posterior: Posterior, point: Point, order: int) -> ControlVariate:
    """Return control variates around `point`, with what is known about it, in its coordinates."""
    anchor = tree.put_zeros_like(point.theta)
    value, gradient, hessian = (tree.as_ravelled(x, anchor) for x in point.known)
    sums = (value, gradient, hessian if order == 2 else None)
    return ControlVariate(
        posterior, order=2 if order == 2 else 1, anchor=anchor, sums=sums, preconditioner=point.frame
    )


def _order(rows: Rows) -> tuple[int, str]:
    """Return the order of expansion with the least noise for its cost, and why; 0 is a plain minibatch."""
    equal, weighted = rows.noise()
    noise = [float(weighted[order] if order else equal[0]) for order in ORDERS]
    noise_times_cost = [a * b for a, b in zip(noise, _COST, strict=True)]
    less = ", ".join(f"{_ratio(x, noise[0]):.2g} (order {k})" for k, x in enumerate(noise[1:], start=1))
    why = f"noise relative to plain minibatches: {less}"
    best = int(np.argmin(noise_times_cost))
    if best == 0 or not noise_times_cost[0] > _WORTH * noise_times_cost[best]:
        return 0, f"control variates are not worth their cost; {why}"
    return best, why


def _ratio(a: float, b: float) -> float:
    """Return a / b, or 1 if b is 0."""
    return a / b if b > 0 else 1.0


def _rounded(rows: int) -> int:
    """Return `rows` rounded up to 2^k or 3 * 2^(k-1), so that most seeds share one compiled program."""
    power = 2 ** math.floor(math.log2(rows))
    return next(n for n in (power, power * 3 // 2, 2 * power) if n >= rows)
