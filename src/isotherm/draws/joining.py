"""Chains that were run one after the other, as the draws of one run."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from isotherm.draws.draws import Draws


def interrupted(run: Draws) -> Draws:
    """Return the draws of a run after which others were to come."""
    return dataclasses.replace(run, record=dataclasses.replace(run.record, interrupted=True))


def joined(runs: Sequence[Draws]) -> Draws:
    """Return the chains of all runs, in order. The runs may differ in their seeds, starts and lengths.

    Chains with fewer draws than others, as after Ctrl-C, are filled up with NaN and count as stopped early.
    """
    longest = max(run.num_draws for run in runs)
    runs = [_filled(run, longest) for run in runs]
    first, records = runs[0], [run.record for run in runs]
    together = lambda *x: np.concatenate(x)
    stack = lambda name: jax.tree.map(together, *(getattr(run, name) for run in runs))
    names = [field.name for field in dataclasses.fields(first.moments)]
    moments = {name: jax.tree.map(together, *(getattr(run.moments, name) for run in runs)) for name in names}
    measured = [record.s for record in records if record.s is not None]
    frictions = [record.noise_friction for record in records if record.noise_friction is not None]
    record = dataclasses.replace(
        first.record,
        num_chains=sum(record.num_chains for record in records),
        steps=max(record.steps for record in records),
        seconds=sum(record.seconds for record in records),
        interrupted=any(record.interrupted for record in records),
        s=max(measured, default=None),
        noise_friction=max(frictions, default=None),
    )
    return dataclasses.replace(
        first,
        **{name: stack(name) for name in ("posterior", "stats", "lengths", "complete", "derived")},
        moments=dataclasses.replace(first.moments, **moments),
        status=tuple(text for run in runs for text in run.status),
        record=record,
    )


def _filled(run: Draws, length: int) -> Draws:
    missing = length - run.num_draws
    if missing == 0:
        return run

    def fill(x: np.ndarray) -> np.ndarray:
        return np.pad(np.asarray(x), [(0, 0), (0, missing)] + [(0, 0)] * (x.ndim - 2), constant_values=np.nan)

    return dataclasses.replace(
        run,
        posterior=jax.tree.map(fill, run.posterior),
        derived={name: fill(x) for name, x in run.derived.items()},
        stats={name: fill(x) if x.ndim == 2 else x for name, x in run.stats.items()},
        complete=np.zeros_like(run.complete),
    )
