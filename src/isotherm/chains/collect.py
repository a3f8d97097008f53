"""Collect the outcome of a run into `Draws`."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import keys, tree
from isotherm.centring import Charted
from isotherm.chains import advice, loop
from isotherm.chains.drive import Outcome
from isotherm.chains.ensemble import Ensemble
from isotherm.chains.moments import explained, finish
from isotherm.chains.noise import measure
from isotherm.chains.resident import resident
from isotherm.chains.setup import Setup
from isotherm.chains.verify import part_to_check, verified
from isotherm.compilation import compile_quickly
from isotherm.deviations import Deviations
from isotherm.draws import Draws, Moments
from isotherm.draws.record import Arithmetic, RunRecord, SamplerRecord, describe
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Minibatch
from isotherm.kernel import Kernel
from isotherm.preconditioner import Preconditioner
from isotherm.store.stored_array import StoredArray
from isotherm.transforms import Constraint
from isotherm.versions import versions

_MEASURED_CHAINS = 4  # chains in which s is measured; it differs little between chains,
_NOISIER = 10  # ... unless by this factor
_MEASURED_FAILURES = 8  # failed lanes in which s is measured


def collect(ensemble: Ensemble, outcome: Outcome, *, stacklevel: int = 1) -> list[Draws]:
    """Return one `Draws` per setup. Warnings point `stacklevel` calls up."""
    ended = np.asarray(outcome.lanes.ended)
    setup, num_chains = ensemble.setup, ensemble.length.num_chains
    status = _sentences(ensemble, outcome)
    moments = finish(outcome.lanes.accumulator)
    refined = _refined(ensemble, outcome, moments, np.flatnonzero(ended < 0))
    drawn = jax.tree.leaves(outcome.kept.params)[0].shape[1]
    lengths = np.where(ended < 0, drawn, np.clip((ended - setup.burn_in) // setup.thinning, 0, drawn))
    per_parameter = [t.reshape(len(ended), -1) for t in jax.tree.leaves(moments.temperature)]
    stats: dict[str, Any] = {
        **outcome.kept.stats,
        "configurational_temperature": np.concatenate(per_parameter, axis=1).sum(axis=1)
        / setup.num_parameters,
    }
    if outcome.lanes.clipped is not None:
        stats["clipped_steps"] = np.asarray(outcome.lanes.clipped)
    results = []
    for i, member in enumerate(ensemble.setups):
        lanes = slice(i * num_chains, (i + 1) * num_chains)
        noise = _final_noise(ensemble, outcome, member, lanes, stacklevel=stacklevel + 1)
        draws = Draws(
            posterior=_pick(outcome.kept.params, lanes),
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
            record=dataclasses.replace(
                record_of(ensemble, member, outcome.steps, outcome.seconds),
                interrupted=outcome.interrupted,
                s=noise["s"],
                noise_friction=noise["noise_friction"],
                arithmetic=_arithmetic(ensemble, outcome, member, lanes),
            ),
            setup=member,
        )
        _warn(draws, outcome, stacklevel=stacklevel + 1)
        results.append(draws)
    return results


def _sentences(ensemble: Ensemble, outcome: Outcome) -> tuple[str, ...]:
    """Return why each lane ended."""
    ended = np.asarray(outcome.lanes.ended)
    measured = np.flatnonzero(ended >= 0)[:_MEASURED_FAILURES]
    lines = []
    for lane, end in enumerate(ended.tolist()):
        if end >= 0:
            chain = lane % ensemble.length.num_chains
            reason = _failure(ensemble, outcome, lane, end, measured=lane in measured)
            groups = advice.about_groups(ensemble.setup_of(lane).reasons)
            reason = " ".join([reason, *(f"{text[0].upper()}{text[1:]}." for text in groups)])
            lines.append(f"chain {chain} turned non-finite at step {end} and was stopped; {reason}")
        elif outcome.interrupted:
            drawing = outcome.steps > ensemble.setup.burn_in
            kept = (
                "the draws so far are kept"
                if drawing
                else "the chain was still in burn-in, so there are no draws"
            )
            lines.append(f"interrupted after {outcome.steps} of {ensemble.num_steps} steps; {kept}")
        else:
            lines.append(f"completed {outcome.steps} steps")
    return tuple(lines)


def _failure(ensemble: Ensemble, outcome: Outcome, lane: int, step: int, *, measured: bool) -> str:
    setup, s = ensemble.setup_of(lane), None
    if measured:
        arrange, batches = jax.random.split(jax.random.fold_in(ensemble.key, keys.FAILURES))
        kernel, data = resident(setup.kernel, ensemble.data, key=arrange)
        position = jax.tree.map(lambda x: x[lane], outcome.last_finite)
        anchor = jax.tree.map(lambda x: x[lane], outcome.anchors)
        kernel = loop.at_lane(kernel, setup.sampler, anchor)
        noise = measure(kernel, data, position, step=step, key=batches)
        s = None if noise is None else noise.s
    hot = ""
    if "kinetic_temperature" in outcome.kept.stats:
        _, T = setup.sampler.numbers_at(0)
        hot = advice.about_heat(np.asarray(outcome.kept.stats["kinetic_temperature"][lane]), T)
    h, _ = setup.sampler.numbers_at(step)
    n, N, tuned = setup.kernel.batch_size, setup.kernel.num_data, setup.arithmetic is not None
    return advice.about_failure(setup.sampler.traits, s, h, hot, n, N, tuned=tuned)


def _refined(
    ensemble: Ensemble, outcome: Outcome, moments: Moments, chains: np.ndarray
) -> PyTree[np.ndarray] | None:
    """Return mean parameters corrected by the mean gradient.

    `None` without a preconditioner, with transforms, in a sweep that runs several samplers side by side, and if there
    are too few steps.
    """
    kernel = ensemble.kernel
    if kernel.preconditioner is None or kernel.constraint is not None or len(ensemble.setups) > 1:
        return None
    shift = explained(outcome.lanes.accumulator, chains)
    if shift is None:
        return None
    shift = jax.tree.map(lambda x, like: tree.put(x, like.dtype), shift, outcome.lanes.state.position)
    shift = _multiplied(kernel.preconditioner, shift)
    return jax.tree.map(lambda m, s: m - np.asarray(s, np.float64), moments.mean, shift)


@compile_quickly
def _multiplied(preconditioner: Preconditioner, vectors: PyTree[Array]) -> PyTree[Array]:
    return jax.vmap(preconditioner.multiply)(vectors)


def _final_noise(
    ensemble: Ensemble, outcome: Outcome, setup: Setup, lanes: slice, *, stacklevel: int
) -> dict[str, float | None]:
    """Return s of a setup where its chains ended, and the friction h tr C / (2 T N_d M) that balances the noise.

    With moving anchors they are measured just before the anchors last moved, where the noise is largest. Both are
    medians over a few chains or, if the noise of one chain is many times theirs, those of that chain. They do not
    depend on the covariance that the sampler estimates.
    """
    unknown: dict[str, float | None] = {"s": None, "noise_friction": None}
    if outcome.steps == 0:
        return unknown
    alive = np.flatnonzero(np.asarray(outcome.lanes.ended)[lanes] < 0) + lanes.start
    split = keys.several(jax.random.fold_in(ensemble.key, keys.FINAL_NOISE), _MEASURED_CHAINS + 2)
    measuring, data = resident(setup.kernel, ensemble.data, key=split[-1])
    measured = []
    for lane, key in zip(alive, split[:-2], strict=False):
        position, anchor = jax.tree.map(lambda x, i=lane: tree.put(np.asarray(x)[i]), outcome.oldest)
        kernel = loop.at_lane(measuring, setup.sampler, anchor)
        noise = measure(kernel, data, position, step=outcome.steps, key=key)
        measured += [] if noise is None else [(noise, kernel, position)]
    if not measured:
        return unknown
    found = np.array([(noise.s, noise.trace) for noise, *_ in measured])
    s, trace = np.median(found, axis=0)
    if np.max(found[:, 1]) > _NOISIER * trace:
        s, trace = found[np.argmax(found[:, 1])]
    noise, kernel, position = measured[0]
    weighted = setup.kernel.minibatch.weighted
    _warn_of_anchors(
        kernel, data, position, noise.trace, weighted=weighted, key=split[-2], stacklevel=stacklevel + 1
    )
    h, _ = setup.sampler.numbers_at(outcome.steps)
    momentum = outcome.lanes.state.momentum is not None
    friction = float(trace / (2 * h * setup.num_parameters)) if momentum else None
    return {"s": float(s), "noise_friction": friction}


def _warn_of_anchors(
    kernel: Kernel,
    data: PyTree,
    position: PyTree,
    trace: float,
    *,
    weighted: bool,
    key: Key[Array, ""],
    stacklevel: int,
) -> None:
    """Warn if plain batches would have had less noise. A warm-up, which weights rows, has compared them."""
    gradient = kernel.gradient
    if not isinstance(gradient, ControlVariate) or weighted:
        return
    plain = eqx.tree_at(lambda k: k.gradient, kernel, Minibatch(gradient.posterior))
    noise = measure(plain, data, position, step=0, key=key)
    if noise is not None and trace > noise.trace > 0:  # it is 0 if the rows that were drawn are equal
        advice.warn(advice.about_anchors(trace / noise.trace, gradient.refresh), stacklevel=stacklevel + 1)


def _pick(arrays: PyTree, lanes: slice) -> PyTree[np.ndarray]:
    # Stored draws, which may be too many for memory, are those of a single setup.
    return jax.tree.map(lambda x: x if isinstance(x, StoredArray) else np.asarray(x)[lanes], arrays)


def _warn(draws: Draws, outcome: Outcome, *, stacklevel: int) -> None:
    if outcome.interrupted:
        wanted = draws.record.num_draws
        text = f"The run was interrupted after {outcome.steps} steps: {draws.num_draws} of {wanted} draws were taken"
        advice.warn(text, stacklevel=stacklevel + 1)
    failed = [draws.status[i] for i in np.flatnonzero(~draws.complete)]
    if failed:
        more = f" ({len(failed) - 1} more chains failed: see `draws.status`)" if len(failed) > 1 else ""
        advice.warn(failed[0] + more, stacklevel=stacklevel + 1)
    if "clipped_steps" in draws.stats:
        share = float(np.max(draws.stats["clipped_steps"])) / max(outcome.steps, 1)
        if share > 0:
            sampler = draws.record.sampler
            text = advice.about_clipped(sampler.name, share, sampler.traits)
            advice.warn(text, stacklevel=stacklevel + 1)


def _arithmetic(ensemble: Ensemble, outcome: Outcome, setup: Setup, lanes: slice) -> Arithmetic | None:
    """Return the arithmetic of a run, checked where chains ended; `None` for settings that were chosen by hand."""
    alive = np.flatnonzero(np.asarray(outcome.lanes.ended)[lanes] < 0) + lanes.start
    if setup.arithmetic is None or outcome.interrupted or len(alive) == 0:
        return setup.arithmetic
    flat = lambda i: tree.flat(jax.tree.map(lambda x: np.asarray(x)[i], outcome.lanes.state.position))
    last = flat(alive[-1])
    ends = np.stack([last, flat(alive[0]) if len(alive) > 1 else np.zeros_like(last)])
    rows_used = float(outcome.steps) * ensemble.length.num_chains * setup.batch_size
    key = jax.random.fold_in(ensemble.key, keys.VERIFICATION)
    return verified(setup, ends, part=part_to_check(setup, rows_used, key=key))


def record_of(ensemble: Ensemble, setup: Setup, steps: int, seconds: float) -> RunRecord:
    """Return the record of a run after some steps, without what is measured at its end."""
    kernel, refresh = setup.kernel, setup.refresh_every
    refreshes = 1 + max(0, steps - 1) // refresh if refresh else 0
    return RunRecord(
        sampler=SamplerRecord.of(setup.sampler),
        gradient=type(kernel.gradient).__name__,
        gradient_order=getattr(kernel.gradient, "order", None),
        gradient_refresh=getattr(kernel.gradient, "refresh", None),
        preconditioner=None if kernel.preconditioner is None else type(kernel.preconditioner).__name__,
        transforms=_transforms(kernel.constraint),
        minibatch=describe(kernel.minibatch),
        num_data=kernel.num_data,
        batch_size=kernel.batch_size,
        num_parameters=setup.num_parameters,
        num_chains=ensemble.length.num_chains,
        burn_in=setup.burn_in,
        thinning=setup.thinning,
        num_draws=ensemble.length.num_draws,
        steps=steps,
        data_passes=steps * kernel.batch_size / kernel.num_data + refreshes,
        seconds=round(seconds, 3),
        key=np.asarray(jax.random.key_data(ensemble.key)).tolist(),
        versions=versions(),
        reasons=setup.reasons,
        setup_passes=round(setup.passes, 2),
        setup_seconds=round(setup.seconds, 3),
        arithmetic=setup.arithmetic,
    )


def _transforms(constraint: Constraint | Deviations | Charted | None) -> dict[str, str] | None:
    """Return the transform of each constrained leaf or branch, by name."""
    if constraint is None:
        return None
    return {name or "theta": type(t).__name__ for name, t in constraint.named() if t is not None}
