"""Several ways downhill, by Adam on minibatches: where Newton's method leads nowhere or costs much."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from isotherm import tree
from isotherm.data.plans import WithReplacement
from isotherm.gradients.minibatch import Minibatch
from isotherm.posterior import Posterior
from isotherm.records import Needs

# Adam's first step, for parameters of order 1; of those that start larger, in units of their rms.
_RATE = 0.02
_JITTER = 0.5  # how far apart the ways start, in units of the rms of each leaf


def apart(start: PyTree, *, count: int, key: Key[Array, ""]) -> PyTree[Array]:
    """`start` that many times along a leading axis, moved apart by half the size of each leaf."""

    def one(key: Key[Array, ""]) -> PyTree[Array]:
        return jax.tree.map(lambda x, z: x + _JITTER * _size(x) * z, start, tree.normal_like(start, key=key))

    return jax.vmap(one)(jax.random.split(key, count))


def descend(
    posterior: Posterior,
    data: PyTree,
    starts: PyTree[Array],
    *,
    steps: int,
    batch_size: int,
    key: Key[Array, ""],
) -> PyTree[Array]:
    """Where Adam ends from each of `starts`, along their leading axis."""
    keys = jax.random.split(key, jax.tree.leaves(starts)[0].shape[0])
    return _descend(posterior, data, starts, keys, jnp.asarray(steps), batch_size)


def _size(x: Array) -> Array:
    return jnp.sqrt(jnp.mean(x * x))


@eqx.filter_jit
def _descend(
    posterior: Posterior,
    data: PyTree,
    starts: PyTree[Array],
    keys: Key[Array, " ways"],
    steps: Int[Array, ""],
    batch_size: int,
) -> PyTree[Array]:
    num_data = jax.tree.leaves(data)[0].shape[0]
    gradient, plan = Minibatch(posterior), WithReplacement()
    # The length of a cosine that ends at zero is no constant of the program.
    optimiser = optax.scale_by_adam()

    def one(start: PyTree, key: Key[Array, ""]) -> PyTree[Array]:
        reach = jax.tree.map(lambda x: jnp.full_like(x, jnp.maximum(1.0, _size(x))), start)

        def step(i: Int[Array, ""], carry: tuple) -> tuple:
            theta, state = carry
            picked, signs = jax.random.split(jax.random.fold_in(key, i))
            batch = plan.batch(
                data, i, num_data=num_data, batch_size=batch_size, key=picked, chain_key=picked
            )
            force = gradient(theta, batch, needs=Needs.NOTHING, key=signs).force
            move, state = optimiser.update(force, state)
            rate = _RATE * 0.5 * (1 + jnp.cos(jnp.pi * i / steps))
            return tree.add_scaled(theta, (rate, tree.multiply(reach, move))), state

        return jax.lax.fori_loop(0, steps, step, (start, optimiser.init(start)))[0]

    return jax.vmap(one)(starts, keys)
