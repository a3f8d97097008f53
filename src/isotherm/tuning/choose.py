"""From the posterior to settings: mode, coordinates, gradient, batch, step, friction."""

import math
import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.control_variate import ControlVariate
from isotherm.covariance import Dense, Diagonal
from isotherm.data.minibatch import WithReplacement
from isotherm.data.weighted import Weighted
from isotherm.gradient import Gradient, Minibatch
from isotherm.posterior import Posterior
from isotherm.preconditioner import DensePreconditioner, Preconditioner
from isotherm.samplers import CCAdL
from isotherm.tuning.newton import Climb, climb, point_at
from isotherm.tuning.probe import ORDERS, Rows, lead, probe, refined
from isotherm.tuning.record import Warmup, as_leaf

_COST = (1.0, 2.0, 3.0)  # of a step by order of the expansion, roughly
_WORTH = 3.0  # times less noise for its price, from which control variates are taken
_STEP, _FRICTION = 0.7, 1.0  # in units of the stiffest frequency, and of the slowest
_QUIET, _NOISY = 0.05, 1.0  # s to aim at: where the noise varies over the posterior, and where it hardly does
_SMALLEST, _LARGEST = 32, 2048  # batches
_DENSE_CONTROL = 128  # parameters up to which a matrix controls plain gradients
_THERMAL_MASS = 100.0


def choose(
    posterior: Posterior, data: PyTree, start: PyTree, *, key: Key[Array, ""], batch_size: int | None = None
) -> Warmup:
    """Settings for `posterior`, from `start`."""
    began = time.perf_counter()
    num_data = jax.tree.leaves(data)[0].shape[0]
    keys = jax.random.split(key, 5)
    reasons: list[tuple[str, str, str]] = []
    top = climb(posterior, data, start, seed=int(jax.random.randint(keys[0], (), 0, 2**31 - 1)))
    preconditioner, note = whiten(top)
    reasons.append(("mode", f"within {top.distance:.2g} sd", f"Newton's method, {top.passes:.1f} passes"))
    reasons.append(("preconditioner", "dense", note))
    spent = top.passes
    stiffest, slowest = _stretch(posterior, data, preconditioner, key=keys[1])
    spent += 1
    rows = probe(posterior, data, preconditioner, key=keys[2])
    order, gradient, why = _gradient(posterior, top, rows)
    reasons.append(why)
    if order:
        rows = refined(rows, order, posterior, data, preconditioner, key=keys[3])
    tickets = rows.tickets(order) if order else np.ones(num_data, np.int64)
    plan = Weighted(tickets) if order else WithReplacement()
    noise, worst = _noise(posterior, gradient, data, preconditioner, rows, order, tickets, key=keys[4])
    spent += rows.passes
    if order:
        drop = rows.noise(order) / noise
        reasons.append(
            ("minibatch", "weighted", f"rows drawn by what they vary: {drop:.2g} times less noise")
        )
    h, A = _STEP / math.sqrt(stiffest), _FRICTION * math.sqrt(slowest)
    target = _QUIET if order else _NOISY
    wanted = math.ceil(h * h * worst / target)
    limit = min(num_data, _LARGEST)
    n = min(_rounded(max(_SMALLEST, wanted)), limit) if batch_size is None else batch_size
    if wanted > n:
        h = h * math.sqrt(n / wanted)
        why = f"as long as the noise of {n} rows allows: s = {target:g}"
    else:
        why = f"{_STEP:g} of the stiffest direction's 1/frequency, {1 / math.sqrt(stiffest):.2g}"
    s = h * h * worst / n
    reasons.append(
        (
            "batch_size",
            str(n),
            "given" if batch_size else f"s = {s:.2g} at the step chosen (at most {target:g})",
        )
    )
    reasons.append(("step_size", f"{h:.3g}", why))
    reasons.append(("friction", f"{A:.3g}", "that of the slowest direction, critically damped or less"))
    size = tree.size(start)
    covariance = Dense() if order == 0 and size <= _DENSE_CONTROL else Diagonal()
    mu = max(float(size), _THERMAL_MASS)
    sampler = CCAdL(h, A, covariance=covariance, scheme="symmetric", thermal_mass=mu)
    # The noise is damped by a friction of its own, h C / 2.
    rubbed = A + h * noise / n / 2
    relaxation = max(rubbed / slowest, 1 / rubbed) / h
    thinning = max(1, round(2 * relaxation))
    burn_in = math.ceil(20 * relaxation)
    reasons.append(("thinning", str(thinning), f"chains forget themselves in about {relaxation:.1f} steps"))
    return Warmup(
        sampler=sampler,
        gradient=gradient,
        minibatch=plan,
        preconditioner=preconditioner,
        batch_size=n,
        burn_in=burn_in,
        thinning=thinning,
        temperature=float(posterior.temperature),
        passes=spent,
        seconds=time.perf_counter() - began,
        reasons=tuple(reasons),
    )


def whiten(top: Climb) -> tuple[DensePreconditioner, str]:
    """L = H^-1/2 at the mode, on the scale of its diagonal."""
    hessian, theta = top.point.hessian, top.point.theta
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1e-30))
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    floor = 1e-9 * values[-1]
    bent = int(np.sum(values < floor))
    values = np.maximum(np.abs(values), floor)
    root = (vectors / np.sqrt(values)) / scale[:, None]
    inverse = (vectors * np.sqrt(values)).T * scale[None, :]
    note = f"Hessian at the mode, all rows; condition number {_condition(hessian):.3g}"
    if bent:
        note += f"; {bent} directions are not convex there"
    return DensePreconditioner(theta, as_leaf(root, theta), as_leaf(inverse, theta)), note


def _rounded(rows: int) -> int:
    """Up to a power of two or half-way between two, so that another seed seldom needs another program."""
    power = 2 ** math.floor(math.log2(rows))
    return next(n for n in (power, power * 3 // 2, 2 * power) if n >= rows)


def _condition(hessian: np.ndarray) -> float:
    values = np.abs(np.linalg.eigvalsh(hessian))
    return float(values[-1] / max(values[0], 1e-300))


def _stretch(
    posterior: Posterior, data: PyTree, preconditioner: DensePreconditioner, *, key: Key[Array, ""]
) -> tuple[float, float]:
    """Largest and smallest curvature in the new coordinates, at the mode (1) and at one point of the posterior."""
    scale = jnp.sqrt(jnp.asarray(posterior.temperature))
    v = tree.multiply(scale, tree.normal_like(preconditioner.center, key=key))
    there = point_at(posterior, data, preconditioner.to_params(v))
    root = np.asarray(preconditioner.root, np.float64)
    values = np.linalg.eigvalsh(root.T @ there.hessian @ root)
    return max(1.0, float(values[-1])), float(np.clip(values[0], 0.1, 1.0))


def _gradient(posterior: Posterior, top: Climb, rows: Rows) -> tuple[int, Gradient, tuple[str, str, str]]:
    """The order of the expansion that gives the least noise for its price, and the gradient with it."""
    noise = [rows.noise(order, rows.tickets(order) if order else None) for order in ORDERS]
    price = [a * b for a, b in zip(noise, _COST, strict=True)]
    order = int(np.argmin(price))
    figures = f"noise of control variates of order 1, 2 over plain: {noise[1] / noise[0]:.2g}, {noise[2] / noise[0]:.2g}"
    if order == 0 or price[0] < _WORTH * price[order]:
        return 0, Minibatch(posterior), ("gradient", "minibatch", f"{figures}: not worth it")
    theta = top.point.theta
    value, gradient, hessian = (as_leaf(x, theta) for x in top.point.known)
    if order == 1:
        return (
            1,
            ControlVariate(posterior, order=1, anchor=theta, sums=(value, gradient, None)),
            ("gradient", "control variate, order 1", figures),
        )
    return (
        2,
        ControlVariate(posterior, order=2, anchor=theta, sums=(value, gradient, hessian)),
        ("gradient", "control variate, order 2", figures),
    )


def _noise(
    posterior: Posterior,
    gradient: Gradient,
    data: PyTree,
    preconditioner: Preconditioner,
    rows: Rows,
    order: int,
    tickets: np.ndarray,
    *,
    key: Key[Array, ""],
) -> tuple[float, float]:
    """Of C in the new coordinates for batches of one row: mean eigenvalue, and largest."""
    mean = rows.noise(order, tickets)
    if isinstance(gradient, ControlVariate):
        return mean, lead(gradient.expanded, data, preconditioner, tickets, rows.top(order), key=key)
    none = np.zeros(0, np.int64)
    return mean, lead(posterior, data, preconditioner, tickets, none, key=key)
