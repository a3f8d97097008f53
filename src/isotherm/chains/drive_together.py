"""Chains that are shared out among processes. Each drives its own, and all receive the outcome of all."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import PyTree

from isotherm import processes, tree
from isotherm.chains import loop
from isotherm.chains.drive import Outcome, drive
from isotherm.chains.ensemble import Ensemble
from isotherm.store.folder import RunFolder


def drive_together(
    ensemble: Ensemble,
    *,
    progress: bool,
    title: str,
    cancelled: bool = False,
    folder: RunFolder | None = None,
) -> Outcome:
    """Return what `drive` does, with the chains shared out among all processes. Each stores its own in its `folder`.

    If one process is interrupted, or fails, all end. All return the draws that every one of them has made.
    """
    stop = processes.Stop()
    first, last = processes.own_range(len(ensemble.lane_keys))
    # A process without a chain runs the first one, whose draws are not used: all have an outcome of one form.
    lanes = ensemble.of_lanes(np.arange(first, last) if first < last else np.zeros(1, int))

    def own() -> dict[str, PyTree[np.ndarray]]:
        try:
            with processes.alone():
                outcome = drive(
                    lanes, progress=progress, title=title, cancelled=cancelled, stop=stop, folder=folder
                )
        except BaseException:
            stop.request()
            raise
        return {field.name: getattr(outcome, field.name) for field in dataclasses.fields(outcome)}

    kernel = ensemble.kernel
    label = (
        f"{len(ensemble.lane_keys)} chains, {ensemble.num_steps} steps, {kernel.batch_size} rows in a batch"
    )
    found = processes.gathered(own, label)
    used = [processes.range_of(i, len(ensemble.lane_keys)) for i in range(len(found))]
    return _merged([_outcome(x) for x, (first, last) in zip(found, used, strict=True) if first < last])


def _outcome(x: dict[str, PyTree[np.ndarray]]) -> Outcome:
    """Return what another process has sent."""
    steps, interrupted, seconds = int(x["steps"]), bool(x["interrupted"]), float(x["seconds"])
    return Outcome(**(x | {"steps": steps, "interrupted": interrupted, "seconds": seconds}))


def _merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcomes of all processes as one, in the order of the chains."""
    running = [x for x in outcomes if (x.lanes.ended < 0).any()]
    # A process whose chains all failed has no further draws: theirs are NaN.
    count = min(map(_num_draws, running)) if running else max(map(_num_draws, outcomes))
    on_device = lambda *trees: jax.tree.map(lambda *xs: tree.put(np.concatenate(xs)), *trees)
    kept = [_with_draws(x.kept, count) for x in outcomes]
    return Outcome(
        kept=jax.tree.map(lambda *xs: np.concatenate(xs), *kept),
        lanes=on_device(*(x.lanes for x in outcomes)),
        last_finite=on_device(*(x.last_finite for x in outcomes)),
        anchors=on_device(*(x.anchors for x in outcomes)),
        oldest=on_device(*(x.oldest for x in outcomes)),
        steps=min(x.steps for x in running) if running else max(x.steps for x in outcomes),
        interrupted=any(x.interrupted for x in outcomes),
        seconds=max(x.seconds for x in outcomes),
    )


def _num_draws(outcome: Outcome) -> int:
    return jax.tree.leaves(outcome.kept.params)[0].shape[1]


def _with_draws(kept: loop.Kept, count: int) -> loop.Kept:
    """Return the first `count` draws of each chain; those that it has not are NaN."""

    def one(x: np.ndarray) -> PyTree[np.ndarray]:
        missing = count - x.shape[1]
        if missing <= 0:
            return x[:, :count]
        return np.concatenate([x, np.full((x.shape[0], missing, *x.shape[2:]), np.nan, x.dtype)], axis=1)

    return jax.tree.map(one, kept)
