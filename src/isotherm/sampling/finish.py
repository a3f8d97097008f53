"""From what a run left behind to `Draws`."""

import platform
import warnings
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.draws import Draws, Moments
from isotherm.errors import IsothermWarning
from isotherm.records import State
from isotherm.samplers.base import Sampler
from isotherm.sampling.moments import finish
from isotherm.sampling.run import Job, Outcome
from isotherm.sampling.status import sentences

_CHAINS = 8  # whose s is looked at: it differs little between chains


def to_draws(job: Job, outcome: Outcome, samplers: Sequence[Sampler], num_chains: int) -> list[Draws]:
    """One `Draws` per setting from lanes that hold all chains of all settings."""
    ended = np.asarray(outcome.lanes.ended)
    own = [samplers[lane // num_chains] for lane in range(len(ended))]
    status = sentences(job, own, num_chains, outcome)
    moments = finish(outcome.lanes.accumulator)
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
            ),
            status=tuple(status[lanes]),
            lengths=lengths[lanes],
            complete=ended[lanes] < 0,
            settings=_settings(job, outcome, sampler, num_chains, _median_s(outcome, sampler, lanes)),
        )
        _warn(draws, outcome)
        results.append(draws)
    return results


def _median_s(outcome: Outcome, sampler: Sampler, lanes: slice) -> float | None:
    """s of a setting by its own estimate of the noise, the median over its running chains at the end."""
    average = outcome.lanes.state.covariance
    if average is None or outcome.steps == 0:
        return None
    alive = np.flatnonzero(np.asarray(outcome.lanes.ended)[lanes] < 0) + lanes.start
    values = [
        float(_s(sampler, jax.tree.map(lambda x, i=i: x[i], outcome.lanes.state))) for i in alive[:_CHAINS]
    ]
    return float(np.median(values)) if values else None


@eqx.filter_jit
def _s(sampler: Sampler, state: State) -> Array:
    return sampler.stability(state.covariance.operator, state.step)


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
    job: Job, outcome: Outcome, sampler: Sampler, num_chains: int, s: float | None
) -> dict[str, Any]:
    kernel = job.kernel
    return {
        "sampler": describe(sampler),
        "gradient": type(kernel.gradient).__name__,
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
        "s": s,
        "data_passes": outcome.steps * kernel.batch_size / kernel.num_data,
        "seconds": round(outcome.seconds, 3),
        "key": np.asarray(jax.random.key_data(job.key)).tolist(),
        "versions": versions(),
    }


def describe(module: Any) -> dict[str, Any]:
    """A module's name and fields as plain JSON values."""
    out: dict[str, Any] = {"name": type(module).__name__}
    for field in module.__dataclass_fields__:
        value = getattr(module, field)
        if hasattr(value, "__dataclass_fields__"):
            value = describe(value)
        elif callable(value):
            value = getattr(value, "__name__", type(value).__name__)
        elif hasattr(value, "ndim"):
            value = describe_leaf(value)
        elif isinstance(value, dict | list | tuple):
            value = {name: describe_leaf(x) for name, x in tree.named_leaves(value)}
        elif value is not None and not isinstance(value, int | float | str):
            value = repr(value)
        out[field] = value
    return out


def describe_leaf(x: Any) -> Any:
    """Numbers as lists, anything else as text."""
    try:
        return np.asarray(x, np.float64).tolist()
    except (TypeError, ValueError):
        return repr(x)


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
