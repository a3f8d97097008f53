"""Why each chain ended, in a sentence, with the number that explains it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm.chains.describe import describe
from isotherm.chains.noise import measure
from isotherm.chains.run import Job, Outcome
from isotherm.hyper import at
from isotherm.judging.summary import largest_s
from isotherm.samplers.base import LangevinSampler, Sampler

_EXPLAINED = 8  # failed lanes of a run for which s is measured
_PROBE = 2**32 - 6  # a fold of the run's key apart from those of its chains


def sentences(job: Job, samplers: list[Sampler], num_chains: int, outcome: Outcome) -> tuple[str, ...]:
    """One sentence per lane; `samplers` are the lanes' own."""
    ended = np.asarray(outcome.lanes.ended)
    explained = np.flatnonzero(ended >= 0)[:_EXPLAINED]
    lines = []
    for lane, end in enumerate(ended.tolist()):
        if end >= 0:
            head = f"chain {lane % num_chains} turned non-finite at step {end} and was stopped"
            position = jax.tree.map(lambda x, lane=lane: x[lane], outcome.sane)
            s = _measure_s(job, samplers[lane], position, end) if lane in explained else None
            hot = _heat(samplers[lane], outcome, lane)
            lines.append(f"{head}; {_advice(job, samplers[lane], end, s, hot)}")
        elif outcome.interrupted:
            what = (
                "the draws so far are kept" if outcome.steps > job.burn_in else "still in burn-in, no draws"
            )
            lines.append(f"interrupted after {outcome.steps} of {job.num_steps} steps; {what}")
        else:
            lines.append(f"completed {outcome.steps} steps")
    return tuple(lines)


def _heat(sampler: Sampler, outcome: Outcome, lane: int) -> str:
    """A sentence on the kinetic temperature of the kept draws of a lane, where that was far too high."""
    if "kinetic_temperature" not in outcome.kept.stats:
        return ""
    kept = outcome.kept.stats["kinetic_temperature"][lane]
    kept = kept[np.isfinite(kept)].astype(np.float64)
    target = float(sampler.temperature_at(jnp.zeros((), jnp.int32)))
    if len(kept) == 0 or kept.mean() < 2 * target:
        return ""
    return f" It had been {kept.mean() / target:.1f} times as hot as it should be."


def _advice(job: Job, sampler: Sampler, step: int, s: float | None, hot: str) -> str:
    h = float(at(sampler.step_size, jnp.asarray(step)))
    if s is None:
        return f"s was not measured.{hot} Halve step_size (now {h:.3g})."
    limit, scheme = largest_s(describe(sampler))
    if s > limit:
        # s grows with h^2 where there is a momentum and with h where there is none.
        excess = s / limit
        smaller = h / (excess if isinstance(sampler, LangevinSampler) else excess**0.5)
        rows = math.ceil(job.kernel.batch_size * excess)
        larger = f" or raise batch_size to {rows}" if rows <= job.kernel.num_data else ""
        return (
            f"s = {s:.3g}, above the {limit:g} that the {scheme} scheme bears.{hot} "
            f"Reduce step_size from {h:.3g} to {smaller:.2g}{larger}."
        )
    friction = ", raise friction" if hot else ""
    return (
        f"s = {s:.3g}, which the {scheme} scheme bears.{hot} The position left the support, or the step is too long "
        f"for the stiffest direction: halve step_size (now {h:.3g}){friction}, or transform constrained parameters. "
        "(A log-likelihood that is a loss, with a minus sign, ends like this too.)"
    )


def _measure_s(job: Job, sampler: Sampler, position: PyTree, step: int) -> float | None:
    """s at `position`, whatever the sampler itself estimates."""
    # Chains are numbered from 0: this fold is apart from theirs.
    keys = jax.random.split(jax.random.fold_in(job.key, _PROBE))
    data = job.kernel.minibatch.arrange(job.data, key=keys[0])
    noise = measure(job.kernel, sampler, data, position, step=step, key=keys[1])
    return None if noise is None else noise.s
