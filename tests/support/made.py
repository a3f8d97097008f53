"""Draws built from given numbers, as if from a run."""

import jax
import numpy as np

import isotherm as iso
from isotherm.draws import Draws, Moments
from isotherm.draws.record import RunRecord, SamplerRecord

SAMPLER = iso.CCAdL(0.5, 1.0, iso.Dense(), scheme="symmetric", thermal_mass=8.0, temperature=1.0)


def made_record(sampler=SAMPLER, **changes):
    """Return a made-up record of a run."""
    plain = {
        "num_data": 100,
        "batch_size": 10,
        "num_parameters": 2,
        "num_chains": 2,
        "burn_in": 0,
        "thinning": 1,
        "num_draws": 100,
        "steps": 100,
        "data_passes": 10.0,
        "seconds": 1.0,
        "key": [0, 0],
        "versions": {"isotherm": "0.1.0", "jax": "0.10.2"},
    }
    return RunRecord(sampler=SamplerRecord.of(sampler), **(plain | changes))


def made(posterior, complete=None, stats=None, sampler=SAMPLER, **changes):
    """Return `Draws` with these leaves (chain, draw, ...). The second half of incomplete chains is NaN."""
    posterior = jax.tree.map(lambda x: np.array(x), posterior)
    chains, num_draws = jax.tree.leaves(posterior)[0].shape[:2]
    complete = np.ones(chains, bool) if complete is None else np.asarray(complete)
    for leaf in jax.tree.leaves(posterior):
        leaf[~complete, num_draws // 2 :] = np.nan
    mean = jax.tree.map(lambda x: x.mean(axis=1), posterior)
    return Draws(
        posterior=posterior,
        stats={"configurational_temperature": np.ones(chains), **(stats or {})},
        moments=Moments(np.full(chains, num_draws), mean, mean, mean),
        status=tuple("completed" if c else "turned non-finite" for c in complete),
        lengths=np.where(complete, num_draws, num_draws // 2),
        complete=complete,
        record=made_record(sampler, **changes),
    )
