"""The posteriors and calls that hostile arguments are put into. Each is made once, so that calls share programs."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

import isotherm as iso

N = 12


def squares(t, d):
    return -0.5 * jnp.sum((d - t) ** 2)


def squares_of_columns(t, d):
    return -0.5 * jnp.sum((d["x"] - t) ** 2) - 0.1 * jnp.sum(d["y"] * t)


def squares_of_pair(t, d):
    return -0.5 * jnp.sum((d[0] - t) ** 2) - 0.1 * jnp.sum(d[1] * t)


def squares_of_params(t, d):
    return -0.5 * jnp.sum((d - t["w"]) ** 2) - 0.5 * jnp.sum((jnp.sum(d) - t["b"]) ** 2)


def prior(t):
    return -0.5 * jnp.sum(t**2)


BARE = iso.Posterior(squares, prior)
COLUMNS = iso.Posterior(squares_of_columns, prior)
PAIR = iso.Posterior(squares_of_pair, prior)
TREE = iso.Posterior(squares_of_params)

START = np.zeros(2, np.float32)
NUMBERS = np.array([[i % 4, (i * i) % 3] for i in range(N)], np.float32)


@functools.cache
def default_sampler() -> iso.SGLD:
    return iso.SGLD(0.01)


def run(posterior: Any = BARE, data: Any = NUMBERS, init: Any = START, **options: Any) -> Any:
    """Call `iso.sample` on a tiny model, with a sampler unless `sampler=None` is asked for."""
    settings = {
        "sampler": default_sampler(),
        "batch_size": 4,
        "num_draws": 3,
        "num_chains": 2,
        "progress": False,
    } | options
    return iso.sample(posterior, data, init, **settings)
