"""A warm-up for posteriors that are not normal around one mode, or have too many parameters for a Hessian.

Adam from several starts; a short run of the sampler itself; and then coordinates, step and batch are chosen anew from
where the chains have come to.
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
from isotherm.chains.noise import measure
from isotherm.chains.run import Job, run
from isotherm.covariance import Dense, DiagonalLowRank
from isotherm.data.plans import AllRows, WithReplacement
from isotherm.errors import must
from isotherm.gradients.minibatch import FullData, Minibatch
from isotherm.kernel import Kernel
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.samplers import CCAdL
from isotherm.tuning.descent import apart, descend
from isotherm.tuning.moving_anchors import moving
from isotherm.tuning.record import Warmup
from isotherm.tuning.sketch import sketch, stiffness, stiffness_passes

_WAYS = 4  # starts that are followed
_ROWS, _LARGEST = 128, 2048  # of a batch, at first and at most
_PASSES, _STEPS = 4.0, (1000, 4000)  # of Adam, in all; steps of each way, at least and at most
_PILOT, _KEPT = 1000, 8  # steps of the sampler between two looks, and places on the way that are looked at
_STEP, _FRICTION = 0.5, 0.1
_S = 0.5  # s to aim at, of plain minibatches
_QUIET = 0.15  # and of noise that grows with the distance from an anchor
_DENSE, _RANK = 128, 16  # parameters up to which a matrix controls the noise; directions of it beyond
_THINNING, _BURN_IN = 8.0, 800.0  # in units of time
_SPREAD, _MASS = 0.05, 100.0
_WORTH = 3.0  # times fewer rows, from which anchors that move are taken
_LOOK = 2.0  # passes that a sketch takes, about


def explore(
    posterior: Posterior,
    data: PyTree,
    start: PyTree,
    why: str,
    *,
    key: Key[Array, ""],
    batch_size: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Warmup:
    """Settings for `posterior`, from `start`; `why` is the reason for coming here."""
    began, keys = time.perf_counter(), jax.random.split(key, 8)
    num_data = jax.tree.leaves(data)[0].shape[0]
    T = float(posterior.temperature)
    n = min(_ROWS, num_data) if batch_size is None else batch_size
    tried = n
    steps = int(np.clip(_PASSES / _WAYS * num_data / n, *_STEPS))
    tell(f"Adam from {_WAYS} starts, {steps} steps each")
    points = apart(start, ways=_WAYS, key=keys[6])
    points = descend(posterior, data, points, steps=steps, batch_size=n, key=keys[0])
    points, given = _finite(posterior, data, points), batch_size is not None
    tell("coordinates, batch and step")
    chart = sketch(posterior, data, points, key=keys[4])
    ways = jax.tree.map(lambda x: x[:, None], points)
    first = _fitted(posterior, data, ways, chart, n, fixed=given, key=keys[1])
    tell("a short run of the sampler")
    ways = _moved(first.kernel, data, points, keys[2])
    points = _ends(ways)
    chart = sketch(posterior, data, points, key=keys[5])
    found = _fitted(posterior, data, ways, chart, first.kernel.batch_size, fixed=given, key=keys[3])
    if not given:
        between = _PILOT // 2 // _KEPT * first.step_size
        found = _with_anchors(posterior, data, ways, between, found, key=keys[7])
    h, n, all_rows = found.step_size, found.kernel.batch_size, found.kernel.gradient.all_rows
    noise = "no noise is left" if all_rows else f"s = {found.s:.2g} at the step chosen"
    thinning = max(1, round(_THINNING / h))
    reasons = (
        ("start", f"{_WAYS} places", f"{why}; Adam, {steps} steps each, and a short run of the sampler"),
        (
            "preconditioner",
            "diagonal and low rank",
            "Fisher information and prior, on average over the places",
        ),
        ("gradient", *found.gradient),
        ("batch_size", str(n), noise if batch_size is None else f"given; {noise}"),
        ("step_size", f"{h:.3g}", f"the stiffest frequency is {math.sqrt(found.stiffest):.2g}"),
        ("friction", f"{_FRICTION:g}", "little, for the sake of slow directions"),
        ("thinning", str(thinning), f"{_THINNING:g} units of time"),
    )
    spent = _WAYS * (steps * tried + _PILOT * first.kernel.batch_size) / num_data + 2 * _LOOK
    spent += stiffness_passes((1 + _KEPT) * _WAYS, num_data)
    return Warmup(
        posterior=posterior,
        fingerprint="",
        sampler=_sampler(h, tree.size(start)),
        gradient=found.kernel.gradient,
        minibatch=WithReplacement(),
        preconditioner=chart,
        batch_size=n,
        burn_in=math.ceil(_BURN_IN / h),
        thinning=thinning,
        spread=_SPREAD * T**0.5,
        points=points,
        passes=spent,
        seconds=time.perf_counter() - began,
        reasons=reasons,
    )


def _finite(posterior: Posterior, data: PyTree, points: PyTree[Array]) -> PyTree[Array]:
    """Ways that ended outside the support are replaced by others that did not."""
    some = jax.tree.map(lambda x: x[:_ROWS], data)
    density = np.asarray(
        [posterior.log_density(jax.tree.map(lambda x, i=i: x[i], points), some) for i in range(_WAYS)]
    )
    good = np.flatnonzero(np.isfinite(density))
    if len(good) == 0:
        raise must(
            "init",
            "where the log-density stays finite on the way downhill",
            density,
            "Use transforms, or give a sampler.",
        )
    return jax.tree.map(lambda x: x[good[np.arange(_WAYS) % len(good)]], points)


@dataclasses.dataclass(frozen=True)
class _Fit:
    """A kernel for where chains are, its step, the stiffest curvature there, s, and what is said of the gradient."""

    kernel: Kernel
    step_size: float
    stiffest: float
    s: float
    gradient: tuple[str, str]


def _fitted(
    posterior: Posterior,
    data: PyTree,
    ways: PyTree[Array],
    preconditioner: Preconditioner,
    n: int,
    *,
    fixed: bool,
    key: Key[Array, ""],
) -> _Fit:
    """Batch for where chains are, and step for the stiffest place on their way: leaves (chain, place, ...)."""
    keys = jax.random.split(key, 3)
    points, passed = _ends(ways), jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), ways)
    num_data, size = jax.tree.leaves(data)[0].shape[0], tree.size(points) // _WAYS
    stiffest = max(1.0, stiffness(posterior, data, passed, preconditioner, key=keys[1]))
    h, T = _STEP / math.sqrt(stiffest), float(posterior.temperature)
    if n == num_data and not fixed:
        n = min(_ROWS, num_data)  # what all rows were chosen by
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
    ways: PyTree[Array],
    between: float,
    fit: _Fit,
    *,
    key: Key[Array, ""],
) -> _Fit:
    """The same with anchors that move with the chains, where that takes far fewer rows for a unit of time.

    `between` is the time between two places of `ways`.
    """
    old = fit.kernel
    size, T = tree.size(_ends(ways)) // _WAYS, float(posterior.temperature)
    h, n = _STEP / math.sqrt(fit.stiffest), min(_ROWS, old.num_data)
    sampler, plan = _sampler(h, size, T), WithReplacement()
    trial = Kernel(sampler, Minibatch(posterior), old.num_data, n, plan, old.preconditioner)
    best = moving(trial, data, ways, between / h, s=_QUIET, key=key)
    if best is None:
        return fit
    price = fit.step_size / h * best.cost / old.batch_size
    if not price * _WORTH < 1:
        why = f"anchors that move with the chains would cost {price:.2g} times as much"
        return dataclasses.replace(fit, gradient=(fit.gradient[0], why))
    kernel = Kernel(sampler, best.gradient, old.num_data, best.batch_size, plan, old.preconditioner)
    what = f"control variate, anchors moved every {best.gradient.refresh} steps"
    return _Fit(kernel, h, fit.stiffest, _QUIET, (what, f"for {price:.2g} of the rows of: {fit.gradient[0]}"))


def _ends(ways: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda x: x[:, -1], ways)


def _largest_s(kernel: Kernel, data: PyTree, positions: PyTree[Array], key: Key[Array, ""]) -> float:
    found = [
        measure(kernel, kernel.sampler, data, jax.tree.map(lambda x, i=i: x[i], positions), step=0, key=k)
        for i, k in enumerate(jax.random.split(key, _WAYS))
    ]
    return max((noise.s for noise in found if noise is not None), default=0.0)


def _sampler(h: float, size: int, T: float | None = None) -> CCAdL:
    covariance = Dense() if size <= _DENSE else DiagonalLowRank(rank=_RANK)
    mu = max(float(size), _MASS)
    plain = CCAdL(h, _FRICTION, covariance=covariance, scheme="symmetric", thermal_mass=mu)
    if T is None:  # as the driver will have it
        return plain
    return eqx.tree_at(lambda s: s.temperature, plain, jnp.asarray(T, float), is_leaf=lambda x: x is None)


def _moved(kernel: Kernel, data: PyTree, points: PyTree[Array], key: Key[Array, ""]) -> PyTree[Array]:
    """The parameters at some places on the way of a short run and, last, at its end: leaves (chain, place, ...).

    Those of a chain that failed are where it was when last seen in order.
    """
    assert kernel.preconditioner is not None
    job = Job(
        sampler=kernel.sampler,
        axis=None,
        kernel=kernel,
        data=data,
        positions=jax.vmap(kernel.preconditioner.from_params)(points),
        key=key,
        lane_keys=jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(_WAYS)),
        burn_in=_PILOT // 2,
        num_draws=_KEPT,
        thinning=_PILOT // 2 // _KEPT,
    )
    outcome = run(job, progress=False, title="warm-up")
    if outcome.interrupted:
        raise KeyboardInterrupt
    end = jax.vmap(kernel.params)(outcome.sane)
    # Of a chain that failed there are no places on the way: its end stands for them.
    fill = lambda x, last: jnp.where(jnp.isfinite(x), x, last[:, None])
    kept = jax.tree.map(jnp.asarray, outcome.kept.position)
    if jax.tree.leaves(kept)[0].shape[1] == 0:  # all of them failed
        return jax.tree.map(lambda last: last[:, None], end)
    return jax.tree.map(lambda x, last: fill(x, last).at[:, -1].set(last), kept, end)
