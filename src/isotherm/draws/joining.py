"""Chains that were run one after the other, as the draws of one run."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from isotherm.draws.draws import Draws


def joined(runs: Sequence[Draws]) -> Draws:
    """Return the chains of all runs, in order. The runs may differ in their seeds and starts, and in nothing else."""
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
