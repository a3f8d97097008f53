"""The gradient noise far out, where control variates have left their anchor: too much of it cuts the tails off."""

from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Array, Key

from isotherm import tree
from isotherm.diagnosis.heat import end_to_end, inside, positions, some
from isotherm.noise import measure
from isotherm.sampling.run import refresh_every

if TYPE_CHECKING:
    from isotherm.draws import Draws
    from isotherm.sampling.run import Job

_LOOKS = 8  # draws, those farthest out in any coordinate


def noise_in_the_tails(draws: "Draws", job: "Job", *, key: Key[Array, ""]) -> float | None:
    """The largest s at the draws farthest out; `None` where it cannot be measured."""
    if job.kernel.gradient.all_rows or refresh_every(job):
        return None
    chains = np.flatnonzero(draws.complete)
    v = positions(job, some(draws, chains, tree.size(jax.tree.map(lambda x: x[0], job.positions))))
    flat = end_to_end(v, inside(v))
    y = np.asarray(jax.vmap(tree.ravel)(flat), np.float64)
    if len(y) < 2:
        return None
    away = np.max(np.abs(y - y.mean(axis=0)) / np.maximum(y.std(axis=0), 1e-300), axis=1)
    keys = jax.random.split(key, _LOOKS + 1)
    data, step = job.kernel.minibatch.arrange(job.data, key=keys[-1]), draws.settings["steps"]
    found = [
        measure(job.kernel, job.sampler, data, jax.tree.map(lambda x, i=i: x[i], flat), step=step, key=k)
        for i, k in zip(np.argsort(-away), keys[:-1], strict=False)
    ]
    return max((noise.s for noise in found if noise is not None), default=None)
