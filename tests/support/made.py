"""Draws made of given numbers, as if a run had left them."""

import jax
import numpy as np

from isotherm.draws import Draws, Moments


def made(posterior, complete=None, stats=None, **settings):
    """`Draws` of these leaves (chain, draw, ...); incomplete chains have NaN from half of their draws on."""
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
        settings={"sampler": {"name": "NUTS", "temperature": 1.0}, **settings},
    )
