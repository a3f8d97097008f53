"""Why each chain ended, in a sentence, with the number that explains it."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm import tree
from isotherm.covariance import Dense, Diagonal
from isotherm.hyper import at
from isotherm.records import Needs
from isotherm.samplers.base import Sampler
from isotherm.sampling.run import Job, Outcome

_DENSE_UP_TO = 1000
_LARGEST = 10**8  # per-row gradients that may be formed to explain a failure
_EULER_LIMIT = 0.25


def sentences(job: Job, samplers: list[Sampler], num_chains: int, outcome: Outcome) -> tuple[str, ...]:
    """One sentence per lane; `samplers` are the lanes' own."""
    lines = []
    for lane, end in enumerate(np.asarray(outcome.lanes.ended)):
        if end >= 0:
            position = jax.tree.map(lambda x, lane=lane: x[lane], outcome.sane)
            heat = _heat(samplers[lane], outcome, lane)
            lines.append(_failed(job, samplers[lane], lane % num_chains, int(end), position, heat))
        elif outcome.interrupted:
            lines.append(
                f"interrupted after {outcome.steps} of {job.num_steps} steps; the draws so far are kept"
            )
        else:
            lines.append(f"completed {outcome.steps} steps")
    return tuple(lines)


def _heat(sampler: Sampler, outcome: Outcome, lane: int) -> float | None:
    """Mean kinetic temperature of the kept draws of a lane, in units of the target's."""
    kept = outcome.kept.stats.get("kinetic_temperature", np.empty((lane + 1, 0)))[lane]
    kept = kept[np.isfinite(kept)]
    target = float(sampler.temperature_at(jnp.zeros((), jnp.int32)))
    return float(kept.mean(dtype=np.float64)) / target if len(kept) else None


def _failed(job: Job, sampler: Sampler, chain: int, end: int, position: PyTree, heat: float | None) -> str:
    h = float(at(sampler.step_size, jnp.asarray(end)))
    s = measure_s(job, sampler, position, end)
    head = f"chain {chain} turned non-finite at step {end} and was stopped"
    hot = "" if heat is None or heat < 2 else f" It had been {heat:.1f} times as hot as it should be."
    if s is None:
        return f"{head}; s was not measured.{hot} Halve step_size (now {h:.3g})."
    if s > _EULER_LIMIT:
        smaller, larger = h * (_EULER_LIMIT / s) ** 0.5, s / _EULER_LIMIT
        return (
            f"{head}; s = {s:.3g}, above the {_EULER_LIMIT} that the Euler scheme bears.{hot} "
            f"Reduce step_size from {h:.3g} to {smaller:.2g} or make batch_size {larger:.1f} times as large."
        )
    return (
        f"{head}; s = {s:.3g}, which the Euler scheme bears.{hot} The position left the support, or the step is "
        f"too long for the stiffest direction: halve step_size (now {h:.3g}), raise friction if the chain was hot, "
        "or transform constrained parameters."
    )


def measure_s(job: Job, sampler: Sampler, position: PyTree, step: int) -> float | None:
    """s at `position` from one batch, whatever the sampler itself estimates."""
    size, kernel = tree.size(position), job.kernel
    if kernel.batch_size < 2 or kernel.batch_size * size > _LARGEST:
        return None
    keys = jax.random.split(jax.random.fold_in(job.key, step), 4)
    data = kernel.minibatch.arrange(job.data, key=keys[0])
    batch = kernel.minibatch.batch(
        data,
        jnp.asarray(step),
        num_data=kernel.num_data,
        batch_size=kernel.batch_size,
        key=keys[1],
        chain_key=keys[3],
    )
    estimate = kernel.gradient(position, batch, needs=Needs.EXACT, key=keys[2])
    covariance = Dense() if size <= _DENSE_UP_TO else Diagonal()
    C = covariance.update(covariance.init(position), estimate).operator
    s = float(sampler.stability(C, jnp.asarray(step)))
    return s if np.isfinite(s) else None
