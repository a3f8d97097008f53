"""Adam on minibatches from several starting points, where Newton's method fails or costs too much."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_fully
from isotherm.data.fed import Pool
from isotherm.data.stream import Stream, num_rows, rows_in_memory
from isotherm.gradients.minibatch import Minibatch
from isotherm.posterior import Posterior
from isotherm.records import Needs

# Adam's initial learning rate: absolute for leaves with an rms below 1, and relative to the rms of others.
_RATE = 0.02
_JITTER = 0.5  # spread of the starting points, in units of the rms of each leaf


def apart(start: PyTree, *, count: int, key: Key[Array, ""]) -> PyTree[Array]:
    """Return `count` copies of `start` along a leading axis, perturbed by half the rms of each leaf."""

    def perturbed(key: Key[Array, ""]) -> PyTree[Array]:
        return jax.tree.map(lambda x, z: x + _JITTER * _rms(x) * z, start, tree.normal_like(start, key=key))

    return jax.vmap(perturbed)(jax.random.split(key, count))


def descend(
    posterior: Posterior,
    data: PyTree | Stream,
    starts: PyTree[Array],
    *,
    steps: int,
    batch_size: int,
    key: Key[Array, ""],
) -> PyTree[Array]:
    """Return the end of Adam from each of `starts`, which are stacked along a leading axis.

    Batches of a stream are drawn from its sample.
    """
    keys = jax.random.split(key, jax.tree.leaves(starts)[0].shape[0])
    return _descend(
        posterior, rows_in_memory(data), starts, keys, jnp.asarray(steps), batch_size, num_rows(data)
    )


def _rms(x: Array) -> Array:
    return jnp.sqrt(jnp.mean(x * x))


@compile_fully
def _descend(
    posterior: Posterior,
    data: PyTree,
    starts: PyTree[Array],
    keys: Key[Array, " starts"],
    steps: Int[Array, ""],
    batch_size: int,
    num_data: int,
) -> PyTree[Array]:
    gradient, plan = Minibatch(posterior), Pool(None)
    # The cosine schedule is written out below: `steps` is an argument of the compiled program, not a constant.
    optimiser = optax.scale_by_adam()

    def one(start: PyTree, key: Key[Array, ""]) -> PyTree[Array]:
        scale = jax.tree.map(lambda x: jnp.full_like(x, jnp.maximum(1.0, _rms(x))), start)

        def step(i: Int[Array, ""], carry: tuple) -> tuple:
            theta, state = carry
            batch_key, gradient_key = jax.random.split(jax.random.fold_in(key, i))
            batch = plan.batch(
                data, i, num_data=num_data, batch_size=batch_size, key=batch_key, chain_key=batch_key
            )
            force = gradient(theta, batch, needs=Needs.NOTHING, key=gradient_key).force
            move, state = optimiser.update(force, state)
            rate = _RATE * 0.5 * (1 + jnp.cos(jnp.pi * i / steps))
            return tree.add_scaled(theta, (rate, tree.multiply(scale, move))), state

        return jax.lax.fori_loop(0, steps, step, (start, optimiser.init(start)))[0]

    return jax.vmap(one)(starts, keys)
