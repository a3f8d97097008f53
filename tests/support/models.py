"""Small posteriors for tests of the driver, each built once so that equal calls share a compilation."""

import functools

import jax.numpy as jnp
import numpy as np

import isotherm as iso


@functools.cache
def normal_mean():
    """Return N(theta, 1) data in two dimensions with prior N(0, 1): posterior N(sum x / (N + 1), 1 / (N + 1))."""
    x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    posterior = iso.Posterior(lambda t, d: -0.5 * jnp.sum((d - t) ** 2), lambda t: -0.5 * jnp.sum(t**2))
    return posterior, x, jnp.zeros(2)


def call(sampler=None, *, model=None, **options):
    """Call `iso.sample` on `normal_mean` with small defaults."""
    posterior, data, init = normal_mean() if model is None else model
    settings = {
        "sampler": iso.CCAdL(0.02, 2.0, iso.Dense()) if sampler is None else sampler,
        "batch_size": 8,
        "num_draws": 50,
        "num_chains": 3,
        "progress": False,
    }
    return iso.sample(posterior, data, init, **(settings | options))
