"""From the posterior to settings: mode, coordinates, gradient, batch, step, friction."""

import math
import time
import warnings
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.control_variate import ControlVariate
from isotherm.covariance import Dense, Diagonal
from isotherm.data.minibatch import WithReplacement
from isotherm.data.weighted import Weighted
from isotherm.errors import IsothermWarning
from isotherm.gradient import Gradient, Minibatch
from isotherm.posterior import Posterior
from isotherm.samplers import CCAdL
from isotherm.tuning.metric import find_metric
from isotherm.tuning.newton import Climb, climb
from isotherm.tuning.probe import ORDERS, Probe, Rows
from isotherm.tuning.record import Warmup, as_leaf

_COST = (1.0, 2.0, 3.0)  # of a step by order of the expansion, roughly
_WORTH = 3.0  # times less noise for its price, from which control variates are taken
_STEP, _FRICTION = 0.7, 1.0  # in units of the stiffest frequency, and of the slowest
_QUIET, _NOISY = 0.15, 1.0  # s to aim at: where the noise varies over the posterior, and where it hardly does
_SMALLEST, _LARGEST = 32, 2048  # batches
_DENSE_CONTROL = 128  # parameters up to which a matrix controls plain gradients
_THERMAL_MASS = 100.0
_SLOWEST = 25.0  # steps of relaxation that are thought worth waiting for


def choose(
    posterior: Posterior,
    data: PyTree,
    start: PyTree,
    *,
    key: Key[Array, ""],
    batch_size: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Warmup:
    """Settings for `posterior`, from `start`; `NotNormalError` where it is nothing like a normal distribution."""
    began = time.perf_counter()
    num_data, size = jax.tree.leaves(data)[0].shape[0], tree.size(start)
    keys = jax.random.split(key, 5)
    T = float(posterior.temperature)
    tell("looking for the mode")
    top = climb(posterior, data, start, seed=int(jax.random.key_data(keys[0])[-1]))
    tell(f"coordinates, after {top.passes:.1f} passes")
    metric = find_metric(posterior, data, top, key=keys[1])
    spread = T**0.5
    _warn(top.distance / T**0.5)
    tell(f"the noise of each row, after {top.passes + metric.passes:.1f} passes")
    look = Probe(posterior, data, metric.preconditioner, spread)
    rows, tickets = look.all_rows(key=keys[2]), np.ones(num_data, np.int64)
    order, why = _order(rows)
    reasons = [
        ("mode", f"within {top.distance / T**0.5:.2g} sd", f"Newton's method, {top.passes:.1f} passes"),
        ("preconditioner", metric.kind, metric.note),
        ("gradient", f"control variate, order {order}" if order else "minibatch", why),
    ]
    gradient: Gradient = Minibatch(posterior)
    if order:
        rows = look.again(rows, order, key=keys[3])
        tickets = rows.tickets(order)
        gradient = _control(posterior, top, order)
        drop = _over(rows.noise(order), rows.noise(order, tickets))
        reasons.append(
            ("minibatch", "weighted", f"rows drawn by what they vary: {drop:.2g} times less noise")
        )
    seen = (
        (gradient.expanded, rows.top(order))
        if isinstance(gradient, ControlVariate)
        else (posterior, np.zeros(0, int))
    )
    # Of C over T, for batches of one row.
    noise = rows.noise(order, tickets) / T
    worst = look.lead(seen[0], tickets, seen[1], key=keys[4]) / T
    h, A = _STEP / math.sqrt(metric.stiffest), _FRICTION * math.sqrt(metric.slowest)
    target = _QUIET if order else _NOISY
    wanted, limit = math.ceil(min(h * h * worst / target, 2.0**31)), min(num_data, _LARGEST)
    n = min(_rounded(max(_SMALLEST, wanted)), limit) if batch_size is None else batch_size
    why = f"{_STEP:g} over the stiffest frequency, {math.sqrt(metric.stiffest):.2g}"
    if wanted > n:
        h, why = h * math.sqrt(n / wanted), f"as long as the noise of {n} rows allows"
    s = f"s = {h * h * worst / n:.2g} at the step chosen, of {target:g} allowed"
    # The noise is damped by a friction of its own, h C / 2.
    rubbed = A + h * noise / n / 2
    relaxation = min(max(rubbed / metric.slowest, 1 / rubbed) / h, _SLOWEST)
    thinning = max(1, round(2 * relaxation))
    reasons += [
        ("batch_size", str(n), s if batch_size is None else f"given; {s}"),
        ("step_size", f"{h:.3g}", why),
        ("friction", f"{A:.3g}", f"the slowest frequency is {math.sqrt(metric.slowest):.2g}"),
        ("thinning", str(thinning), f"chains forget themselves in about {relaxation:.1f} steps"),
    ]
    covariance = Dense() if order == 0 and size <= _DENSE_CONTROL else Diagonal()
    mu = max(float(size), _THERMAL_MASS)
    return Warmup(
        posterior=posterior,
        fingerprint="",
        sampler=CCAdL(h, A, covariance=covariance, scheme="symmetric", thermal_mass=mu),
        gradient=gradient,
        minibatch=Weighted(tickets) if order else WithReplacement(),
        preconditioner=metric.preconditioner,
        batch_size=n,
        burn_in=math.ceil(20 * relaxation),
        thinning=thinning,
        spread=spread,
        passes=top.passes + metric.passes + rows.passes,
        seconds=time.perf_counter() - began,
        reasons=tuple(reasons),
    )


def _over(a: float, b: float) -> float:
    """a / b, and 1 where there is nothing to divide."""
    return a / b if b > 0 else 1.0


def _warn(distance: float) -> None:
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
