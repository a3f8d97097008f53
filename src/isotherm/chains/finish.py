"""From what a run left behind to `Draws`."""

import dataclasses
import platform
import warnings
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.chains import loop
from isotherm.chains.describe import describe
from isotherm.chains.moments import explained, finish
from isotherm.chains.noise import measure
from isotherm.chains.run import Job, Outcome, refresh_every
from isotherm.chains.status import sentences
from isotherm.data.weighted import Weighted
from isotherm.draws import Draws, Moments
from isotherm.errors import IsothermWarning
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Minibatch
from isotherm.hyper import at
from isotherm.kernel import Kernel
from isotherm.samplers.base import Sampler
from isotherm.samplers.momentum import MomentumSampler
from isotherm.transforms import Constraint

_CHAINS = 4  # whose s is looked at: it differs little between chains
_LAST = 2**32 - 7  # a fold of the run's key apart from those of its chains


def to_draws(job: Job, outcome: Outcome, samplers: Sequence[Sampler], num_chains: int) -> list[Draws]:
    """One `Draws` per setting from lanes that hold all chains of all settings."""
    ended = np.asarray(outcome.lanes.ended)
    own = [samplers[lane // num_chains] for lane in range(len(ended))]
    status = sentences(job, own, num_chains, outcome)
    moments = finish(outcome.lanes.accumulator)
    refined = _refined(job, outcome, moments, np.flatnonzero(ended < 0))
    drawn = jax.tree.leaves(outcome.kept.position)[0].shape[1]
    lengths = np.where(ended < 0, drawn, np.clip((ended - job.burn_in) // job.thinning, 0, drawn))
    size = tree.size(jax.tree.map(lambda x: x[0], job.positions))
    per_parameter = [t.reshape(len(ended), -1) for t in jax.tree.leaves(moments.temperature)]
    stats: dict[str, Any] = {
        **outcome.kept.stats,
        "configurational_temperature": np.concatenate(per_parameter, axis=1).sum(axis=1) / size,
    }
    if outcome.lanes.clipped is not None:
        stats["clipped_steps"] = np.asarray(outcome.lanes.clipped)
    results = []
    for i, sampler in enumerate(samplers):
        lanes = slice(i * num_chains, (i + 1) * num_chains)
        draws = Draws(
            posterior=_pick(outcome.kept.position, lanes),
            stats=_pick(stats, lanes),
            moments=Moments(
                count=moments.count[lanes],
                mean=_pick(moments.mean, lanes),
                variance=_pick(moments.variance, lanes),
                temperature=_pick(moments.temperature, lanes),
                kinetic=None if moments.kinetic is None else moments.kinetic[lanes],
                refined=None if refined is None else _pick(refined, lanes),
            ),
            status=tuple(status[lanes]),
            lengths=lengths[lanes],
            complete=ended[lanes] < 0,
            settings=_settings(job, outcome, sampler, num_chains, _noise(job, outcome, sampler, lanes)),
            job=dataclasses.replace(job, sampler=sampler, axis=None),
        )
        _warn(draws, outcome)
        results.append(draws)
    return results


def _refined(job: Job, outcome: Outcome, moments: Moments, chains: np.ndarray) -> PyTree[np.ndarray] | None:
    """Mean parameters less what the gradient explains, in coordinates that are about those of a normal posterior."""
    if job.kernel.preconditioner is None or job.kernel.constraint is not None or job.axis is not None:
        return None
    shift = explained(outcome.lanes.accumulator, chains)
    if shift is None:
        return None
    shift = jax.tree.map(lambda x: jnp.asarray(x, float), shift)
    shift = jax.vmap(job.kernel.preconditioner.multiply)(shift)
    return jax.tree.map(lambda m, s: m - np.asarray(s, np.float64), moments.mean, shift)


def _noise(job: Job, outcome: Outcome, sampler: Sampler, lanes: slice) -> dict[str, float | None]:
    """s of a setting where its chains ended, whatever it estimates itself, and the friction h tr C / (2 T N_d M) that
    damps the noise: medians over some of the chains.
    """
    unknown: dict[str, float | None] = {"s": None, "noise_friction": None}
    if outcome.steps == 0:
        return unknown
    alive = np.flatnonzero(np.asarray(outcome.lanes.ended)[lanes] < 0) + lanes.start
    keys = jax.random.split(jax.random.fold_in(job.key, _LAST), _CHAINS + 2)
    data = job.kernel.minibatch.arrange(job.data, key=keys[-1])
    looks = []
    for lane, key in zip(alive, keys[:-2], strict=False):
        position, anchor = jax.tree.map(lambda x, i=lane: x[i], outcome.oldest)
        kernel = loop.at_lane(job.kernel, sampler, anchor)
        noise = measure(kernel, sampler, data, position, step=outcome.steps, key=key)
        looks += [] if noise is None else [(noise, kernel, position)]
    if not looks:
        return unknown
    s, trace = np.median([(noise.s, noise.trace) for noise, *_ in looks], axis=0)
    noise, *where = looks[0]
    _warn_of_anchors(sampler, data, noise.trace, *where, key=keys[-2])
    size = tree.size(jax.tree.map(lambda x: x[0], job.positions))
    h = float(at(sampler.step_size, jnp.asarray(outcome.steps)))
    rubs = isinstance(sampler, MomentumSampler)
    return {"s": float(s), "noise_friction": float(trace / (2 * h * size)) if rubs else None}


def _warn_of_anchors(
    sampler: Sampler, data: PyTree, trace: float, kernel: Kernel, position: PyTree, *, key: Key[Array, ""]
) -> None:
    """Where plain batches would have had less noise. A warm-up, which weights rows, has compared them."""
    gradient = kernel.gradient
    if not isinstance(gradient, ControlVariate) or isinstance(kernel.minibatch, Weighted):
        return
    plain = eqx.tree_at(lambda k: k.gradient, kernel, Minibatch(gradient.posterior))
    noise = measure(plain, sampler, data, position, step=0, key=key)
    if noise is None or not trace > noise.trace:
        return
    instead = "Take `iso.Minibatch()`, another anchor, or `refresh`, with which anchors follow the chains."
    if gradient.refresh is not None:
        instead = f"Take `iso.Minibatch()`, or `refresh` below {gradient.refresh}."
    warnings.warn(
        f"Where the chains have come to, the noise of `ControlVariate` is {trace / noise.trace:.2g} times that of "
        f"plain minibatches: they have left the anchor. {instead}",
        IsothermWarning,
        stacklevel=6,
    )


def _pick(arrays: PyTree, lanes: slice) -> PyTree[np.ndarray]:
    return jax.tree.map(lambda x: np.asarray(x)[lanes], arrays)


def _warn(draws: Draws, outcome: Outcome) -> None:
    if outcome.interrupted:
        wanted = draws.settings["num_draws"]
        warnings.warn(
            f"interrupted after {outcome.steps} steps: {draws.num_draws} of {wanted} draws were taken",
            IsothermWarning,
            stacklevel=5,
        )
    failed = [draws.status[i] for i in np.flatnonzero(~draws.complete)]
    if failed:
        more = f" ({len(failed) - 1} more: see `draws.status`)" if len(failed) > 1 else ""
        warnings.warn(failed[0] + more, IsothermWarning, stacklevel=5)
    if "clipped_steps" in draws.stats:
        share = float(np.max(draws.stats["clipped_steps"])) / max(outcome.steps, 1)
        if share > 0:
            warnings.warn(
                f"The noise covariance of `{draws.settings['sampler']['name']}` was not positive semidefinite "
                f"in {share:.1%} of the steps and was clipped: those directions are too hot. Reduce step_size or "
                "raise batch_size" + (" or friction." if "friction" in draws.settings["sampler"] else "."),
                IsothermWarning,
                stacklevel=5,
            )


def _settings(
    job: Job, outcome: Outcome, sampler: Sampler, num_chains: int, noise: dict[str, float | None]
) -> dict[str, Any]:
    kernel = job.kernel
    return {
        "sampler": describe(sampler),
        "gradient": type(kernel.gradient).__name__,
        "gradient_order": getattr(kernel.gradient, "order", None),
        "gradient_refresh": getattr(kernel.gradient, "refresh", None),
        "preconditioner": None if kernel.preconditioner is None else type(kernel.preconditioner).__name__,
        "transforms": _transforms(kernel.constraint),
        "minibatch": describe(kernel.minibatch),
        "num_data": kernel.num_data,
        "batch_size": kernel.batch_size,
        "num_parameters": tree.size(jax.tree.map(lambda x: x[0], job.positions)),
        "num_chains": num_chains,
        "burn_in": job.burn_in,
        "thinning": job.thinning,
        "num_draws": job.num_draws,
        "steps": outcome.steps,
        "interrupted": outcome.interrupted,
        **noise,
        "data_passes": outcome.steps * kernel.batch_size / kernel.num_data + _refreshes(job, outcome.steps),
        "seconds": round(outcome.seconds, 3),
        "key": np.asarray(jax.random.key_data(job.key)).tolist(),
        "versions": versions(),
    }


def _refreshes(job: Job, steps: int) -> int:
    """Passes over the data that moved the anchors."""
    every = refresh_every(job)
    return 1 + max(0, steps - 1) // every if every else 0


def _transforms(constraint: Constraint | None) -> dict[str, str] | None:
    """The transform of each constrained leaf or branch, by name."""
    if constraint is None:
        return None
    return {name or "theta": type(t).__name__ for name, t in constraint.named() if t is not None}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # run from a source tree
        return "not installed"


def versions() -> dict[str, str]:
    """What a reader needs to run it again."""
    names = ("isotherm", "jax", "jaxlib", "equinox", "numpy")
    device = jax.devices()[0]
    return {
        **{name: _version(name) for name in names},
        "python": platform.python_version(),
        "device": f"{device.platform}: {device.device_kind}",
    }
