"""A quick stand-in for `iso.sample` on tiny data: independent draws from the normal approximation at the mode."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from support.made import made

_STEPS = 15  # of length 1 at most: a scale of zero, the mode where a line fits exactly, is never reached
_LEAST = 0.1  # curvature: coordinates are standardised, and priors have a curvature of 0.04 or more


def sample(posterior, data, init, *, num_draws, num_chains, seed, progress):
    """Return draws from N(mode, inverse Hessian) of the unconstrained parameters."""
    del progress
    start, unravel = ravel_pytree(posterior.constraint.free(init))
    mode, hessian = (np.asarray(x, np.float64) for x in _mode(posterior, data, start, unravel))
    noise = np.random.default_rng(seed).normal(size=(num_chains, num_draws, len(mode)))
    curvature, axes = np.linalg.eigh(hessian)
    free = mode + noise / np.sqrt(np.maximum(curvature, _LEAST)) @ axes.T
    params = _constrained(posterior.constraint, jnp.asarray(free, jnp.float32), unravel)
    return made(params, num_data=len(data["y"]), num_chains=num_chains, num_draws=num_draws)


@eqx.filter_jit
def _mode(posterior, data, start, unravel):
    """Return mode and Hessian of U, or a point on the way to it, by damped Newton steps."""
    energy = lambda z: -posterior.unconstrained.log_density(unravel(z), data)
    sizes = 0.5 ** jnp.arange(8.0)

    def step(_, z):
        curvature, axes = jnp.linalg.eigh(jax.hessian(energy)(z))
        way = axes @ (axes.T @ jax.grad(energy)(z) / jnp.maximum(jnp.abs(curvature), _LEAST))
        way = way / jnp.maximum(jnp.linalg.norm(way), 1)
        values = jax.vmap(lambda size: energy(z - size * way))(sizes)
        values = jnp.where(jnp.isfinite(values), values, jnp.inf)
        best = jnp.argmin(values)
        return jnp.where(values[best] < energy(z), z - sizes[best] * way, z)

    mode = jax.lax.fori_loop(0, _STEPS, step, start)
    return mode, jax.hessian(energy)(mode)


@eqx.filter_jit
def _constrained(constraint, free, unravel):
    return jax.vmap(jax.vmap(lambda z: constraint.constrained(unravel(z))))(free)
