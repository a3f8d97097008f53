"""Several ways downhill from one start, by Adam on minibatches: where Newton's method leads nowhere or costs much."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from isotherm import tree
from isotherm.data.minibatch import WithReplacement
from isotherm.gradient import Minibatch
from isotherm.posterior import Posterior
from isotherm.records import Needs

_RATE = (
    0.02  # Adam's first step, for parameters of order 1; of those that start larger, in units of their rms
)
_JITTER = 0.5  # how far apart the ways start, in units of the rms of each leaf


def descend(
    posterior: Posterior,
    data: PyTree,
    start: PyTree,
    *,
    ways: int,
    steps: int,
    batch_size: int,
    key: Key[Array, ""],
) -> PyTree[Array]:
    """Where `ways` runs of Adam end, along a leading axis."""
    keys = jax.random.split(key, ways)
    return _descend(posterior, data, start, keys, jnp.asarray(steps), batch_size)


@eqx.filter_jit
def _descend(
    posterior: Posterior,
    data: PyTree,
    start: PyTree,
    keys: Key[Array, " ways"],
    steps: Int[Array, ""],
    batch_size: int,
) -> PyTree[Array]:
    num_data = jax.tree.leaves(data)[0].shape[0]
    gradient, plan = Minibatch(posterior), WithReplacement()
    # The length of a cosine that ends at zero is no constant of the program.
    optimiser = optax.scale_by_adam()

    def one(key: Key[Array, ""]) -> PyTree[Array]:
        first, later = jax.random.split(key)
        apart = jax.tree.map(lambda x: _JITTER * jnp.sqrt(jnp.mean(x * x)), start)
        reach = jax.tree.map(lambda x, a: jnp.full_like(x, jnp.maximum(1.0, a / _JITTER)), start, apart)
        theta = jax.tree.map(lambda x, a, z: x + a * z, start, apart, tree.normal_like(start, key=first))

        def step(i: Int[Array, ""], carry: tuple) -> tuple:
            theta, state = carry
            picked, signs = jax.random.split(jax.random.fold_in(later, i))
            batch = plan.batch(
                data, i, num_data=num_data, batch_size=batch_size, key=picked, chain_key=picked
            )
            force = gradient(theta, batch, needs=Needs.NOTHING, key=signs).force
            move, state = optimiser.update(force, state)
            rate = _RATE * 0.5 * (1 + jnp.cos(jnp.pi * i / steps))
            return tree.add_scaled(theta, (rate, tree.multiply(reach, move))), state

        return jax.lax.fori_loop(0, steps, step, (theta, optimiser.init(theta)))[0]

    return jax.vmap(one)(keys)
