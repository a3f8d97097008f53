"""Step size, friction, burn-in and thinning for chains in the coordinates of groups, by short pilot runs."""

import dataclasses
import math

import jax
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.arrow import ArrowPreconditioner
from isotherm.centring import Charted
from isotherm.chains.drive import drive
from isotherm.chains.ensemble import Length, ensemble_of
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup, at_temperature
from isotherm.chains.starts import NormalStarts
from isotherm.compilation import compile_quickly
from isotherm.covariance import Diagonal
from isotherm.kernel import Kernel
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.samplers import CCAdL
from isotherm.tuning.groups.batches import Batches, Force, all_rows
from isotherm.tuning.groups.curvature import largest_curvature, log_densities

STEP = 0.7  # step size times the stiffest frequency
_THERMAL_MASS = 100.0  # smallest
# Of a pilot run: chains, positions, steps between them, and steps before them.
_CHAINS, _KEPT, _EVERY, _BEFORE = 4, 100, 3, 100
_LONGER, _MOST_EVERY = 4, 48  # ... which is as many times as long if it does not show how slow chains are
_RANDOM, _EXTREME = 2, 12  # points at which curvatures are taken: at random, and most of those far out
_BEYOND = 1.3  # how much further out than a pilot run a long run comes, and ...
_REACHED = 7.0  # ... the fall of the log-density over T there, up to which it does
_SLOWER, _PILOTS = 0.8, 3  # a step that is shorter by this needs another pilot run; most of these
_WIDEST = 20.0  # largest variance of a scale, in units of its normal approximation, that friction allows for
_SLOWEST, _PATIENT = 64, 256  # most steps between draws, and if rows are few:
_FEW = 2**14  # ... in a step


@dataclasses.dataclass(frozen=True)
class Pace:
    """How chains move. `widest` is the largest variance of an outer coordinate over that of the approximation.

    `positions` are some of the pilot run.
    """

    step_size: float
    friction: float
    burn_in: int
    thinning: int
    relaxation: float
    stiffest: float
    widest: float
    passes: float
    positions: Float[np.ndarray, "m d"]


def kernel_of(
    problem: Problem,
    chart: Charted,
    frame: ArrowPreconditioner,
    step_size: float,
    friction: float,
    force: Force,
) -> Kernel:
    """Return the kernel with this force."""
    mass = max(float(tree.size(frame.center)), _THERMAL_MASS)
    sampler = CCAdL(step_size, friction, covariance=Diagonal(), scheme="symmetric", thermal_mass=mass)
    return Kernel(
        at_temperature(sampler, problem.posterior),
        force.gradient,
        problem.num_data,
        force.batch_size,
        force.plan,
        frame,
        chart,
    )


def paced(
    problem: Problem,
    chart: Charted,
    frame: ArrowPreconditioner,
    batches: Batches | None,
    *,
    key: Key[Array, ""],
    seed: int,
) -> Pace:
    """Return the pace. `problem` has the density of the coordinates of `chart`. Steps use all rows without `batches`.

    Curvatures are taken beyond where the pilot run has been furthest along each outer coordinate: the posterior of a
    scale with few levels is far from normal, and steps must be stable at its ends too.
    """
    T, passes = problem.temperature, 0.0
    rng = np.random.default_rng(seed)
    points = T**0.5 * rng.standard_normal((_RANDOM, tree.size(frame.center)))
    force_at = lambda h, A: (
        all_rows(problem.density, problem.data) if batches is None else batches.force(h, A)
    )
    curved = (problem.density, problem.data, frame) if batches is None else batches.curved(seed)
    stiffest, spent = largest_curvature(*curved, points, seed=seed)
    stiffest, passes, A, slow, every = max(1.0, stiffest), passes + spent, 0.7, 0.0, _EVERY
    for number in range(_PILOTS):
        h = STEP / math.sqrt(stiffest)
        force = force_at(h, A)
        kernel = kernel_of(problem, chart, frame, h, A, force)
        start = jax.random.fold_in(key, number)
        while True:
            paths = _pilot(problem, kernel, frame, start, every)
            passes += _CHAINS * (_BEFORE + _KEPT * every) * force.batch_size / problem.num_data
            outer = _outer(frame, chart, paths)
            if every == _MOST_EVERY or math.isfinite(_relaxation(outer)):
                break
            every *= _LONGER
        if outer.shape[2] == 0:  # no scale is unknown: curvatures are those of any point
            break
        far = _furthest(outer)
        if len(far) == 0:  # all chains have failed
            stiffest *= 4
            continue
        points = _beyond(curved, frame, _positions(frame, chart, paths, far))
        found, spent = largest_curvature(*curved, points, seed=seed)
        passes, stiffest = passes + spent, max(stiffest, found)
        slow = min(_relaxation(outer), _KEPT / 3) * every * h
        A = 1 / math.sqrt(_widest(outer, T))
        if STEP / math.sqrt(stiffest) > _SLOWER * h:
            break
    h, widest = STEP / math.sqrt(stiffest), _widest(outer, T)
    slowest = 1 / widest
    by_theory = max(A / slowest, 1 / A) / h
    patience = _PATIENT if force.batch_size <= _FEW else _SLOWEST
    relaxation = min(max(by_theory, slow / h), patience / 2)
    burn_in, thinning = math.ceil(20 * relaxation), max(1, round(2 * relaxation))
    ends = [(chain, _KEPT // 2 * (k + 1) - 1) for chain in range(_CHAINS) for k in range(2)]
    some = _positions(frame, chart, paths, ends)
    return Pace(h, A, burn_in, thinning, relaxation, stiffest, widest, passes, some)


def _pilot(
    problem: Problem, kernel: Kernel, frame: ArrowPreconditioner, key: Key[Array, ""], every: int
) -> PyTree[np.ndarray]:
    """Return parameters at every so many steps of a pilot run, (chain, draw, ...), NaN after a chain has failed."""
    starts = NormalStarts(frame, problem.temperature**0.5)
    setup = Setup(problem, kernel, starts, _BEFORE, every)
    points = starts.positions(_CHAINS, key=key)
    ensemble = ensemble_of([setup], points, Length(_CHAINS, _KEPT), key)
    outcome = drive(ensemble, progress=False, title="warm-up")
    if outcome.interrupted:
        raise KeyboardInterrupt
    return outcome.kept.params


def _outer(frame: ArrowPreconditioner, chart: Charted, paths: PyTree) -> Float[np.ndarray, "chain draw o"]:
    """Return the outer coordinates v of each draw."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(paths)]
    chains, draws = leaves[0].shape[:2]
    if not frame.parts.outer:
        return np.zeros((chains, draws, 0))
    flat = [tree.put(leaves[i].reshape(chains * draws, *leaves[i].shape[2:])) for i in _outer_leaves(frame)]
    free = np.asarray(_free_outer(frame, chart, flat), np.float64)
    origin = np.concatenate(
        [tree.flat(x) for x in map(jax.tree.leaves(frame.center).__getitem__, frame.parts.outer)]
    )
    v = (free - origin) @ np.asarray(frame.outer_inverse, np.float64).T
    return v.reshape(chains, draws, -1)


def _outer_leaves(frame: ArrowPreconditioner) -> list[int]:
    return sorted(set(frame.parts.outer))


@compile_quickly
def _free_outer(frame: ArrowPreconditioner, chart: Charted, outer: list[Array]) -> Float[Array, "n o"]:
    """Return the free outer parameters of draws, whose outer leaves are given."""
    # Other leaves do not matter, and are those of the center: there may be many of them.
    center, structure = jax.tree.flatten(chart.constraint.constrained(frame.center))

    def one(own: list[Array]) -> Array:
        named = dict(zip(_outer_leaves(frame), own, strict=True))
        params = structure.unflatten([named.get(i, x) for i, x in enumerate(center)])
        return frame.parts.split(chart.constraint.free(params))[0]

    return jax.vmap(one)(outer)


def _furthest(outer: Float[np.ndarray, "chain draw o"]) -> list[tuple[int, int]]:
    """Return chain and draw of the positions that are furthest out along each coordinate, in both directions."""
    flat = outer.reshape(outer.shape[0] * outer.shape[1], outer.shape[2])
    ok = np.isfinite(flat).all(axis=1)
    if not ok.any() or flat.shape[1] == 0:
        return []
    index = np.flatnonzero(ok)
    ends = [index[f(flat[ok, j])] for j in range(flat.shape[1]) for f in (np.argmin, np.argmax)]
    chosen = list(dict.fromkeys(int(i) for i in ends))[:_EXTREME]
    chosen = (chosen * -(-_EXTREME // len(chosen)))[:_EXTREME]  # always as many: one compiled program
    return [divmod(i, outer.shape[1]) for i in chosen]


@compile_quickly
def _from_params(frame: ArrowPreconditioner, chart: Charted, params: PyTree) -> PyTree:
    return jax.lax.map(lambda x: frame.from_params(chart.free(x)), params)


def _positions(
    frame: ArrowPreconditioner, chart: Charted, paths: PyTree, where: list[tuple[int, int]]
) -> Float[np.ndarray, "m d"]:
    """Return the positions v of some draws."""
    params = jax.tree.map(lambda x: tree.put(np.stack([np.asarray(x[i, j]) for i, j in where])), paths)
    return tree.flat_rows(_from_params(frame, chart, params))


def _beyond(
    curved: tuple[Posterior, PyTree, Preconditioner],
    frame: ArrowPreconditioner,
    points: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, "m d"]:
    """Return the points moved further out along the outer coordinates, where a long run is likely to come."""
    temperature = float(curved[0].temperature)
    leaves = enumerate(jax.tree.leaves(frame.center))
    is_outer = [np.full(x.size, i in frame.parts.outer) for i, x in leaves]
    moved = np.where(np.concatenate(is_outer), _BEYOND * points, points)
    both = np.concatenate([points, moved])
    values = log_densities(*curved, both)
    with np.errstate(invalid="ignore"):
        likely = values[: len(points)] - values[len(points) :] < _REACHED * temperature
    return np.where(likely[:, None], moved, points)


def _widest(outer: Float[np.ndarray, "chain draw o"], T: float) -> float:
    """Return the largest variance of the outer coordinates, in units of T."""
    flat = outer.reshape(outer.shape[0] * outer.shape[1], outer.shape[2])
    flat = flat[np.isfinite(flat).all(axis=1)]
    if len(flat) < 2 or flat.shape[1] == 0:
        return 1.0
    return float(np.clip(np.linalg.eigvalsh(np.atleast_2d(np.cov(flat.T)))[-1] / T, 1.0, _WIDEST))


def _relaxation(outer: Float[np.ndarray, "chain draw o"]) -> float:
    """Return half the longest integrated autocorrelation time of the outer coordinates, in draws.

    It is infinite if autocorrelations do not end within a third of the run.
    """
    longest = 0.0
    for j in range(outer.shape[2]):
        chains = [x for x in outer[:, :, j] if np.isfinite(x).all()]
        if not chains:
            continue
        x = np.stack(chains)
        x = x - x.mean()
        variance = float(np.mean(x**2))
        if not variance > 0:
            continue
        total = 1.0
        for lag in range(1, x.shape[1] // 3):
            r = float(np.mean(x[:, lag:] * x[:, :-lag])) / variance
            if r < 0.05:
                break
            total += 2 * r
        else:
            return math.inf
        longest = max(longest, total)
    return longest / 2
