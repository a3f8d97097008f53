"""Training by Adam: where the chains of a network begin."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from isotherm.compilation import compile_fully
from isotherm.data.plans import take_rows
from isotherm.posterior import Posterior


def restarted(params: PyTree[Array], *, key: Key[Array, ""]) -> PyTree[Array]:
    """Return the parameters with the entries of each array in a random order.

    Initial weights of an array are drawn independently, so that these are drawn like the first ones.
    """
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    shuffled = [
        jax.random.permutation(k, x.ravel()).reshape(x.shape) for k, x in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, shuffled)


def trained(
    posterior: Posterior,
    data: PyTree,
    params: PyTree[Array],
    *,
    epochs: int,
    batch_size: int,
    rate: float,
    key: Key[Array, ""],
) -> PyTree[Array]:
    """Return the end of Adam on minus the log-density per row. The learning rate falls to zero as a cosine."""
    N = jax.tree.leaves(data)[0].shape[0]
    each = N // batch_size
    total = jnp.asarray(epochs * each)
    carry = (params, optax.scale_by_adam().init(params), jnp.zeros((), jnp.int32))
    for epoch_key in jax.random.split(key, epochs):
        order = jax.random.permutation(epoch_key, N)[: each * batch_size].reshape(each, batch_size)
        carry = _epoch(posterior, data, carry, order, total, jnp.asarray(rate, float))
    return carry[0]


@compile_fully
def _epoch(
    posterior: Posterior,
    data: PyTree,
    carry: tuple,
    order: Int[Array, "batches n"],
    total: Int[Array, ""],
    rate: Array,
) -> tuple:
    N, n = jax.tree.leaves(data)[0].shape[0], order.shape[1]
    adam = optax.scale_by_adam()

    def loss(params: PyTree, rows: PyTree) -> Array:
        return (
            -jnp.sum(posterior.row_log_likelihoods(params, rows)) / n
            - posterior.prior_log_density(params) / N
        )

    def step(carry: tuple, index: Int[Array, " n"]) -> tuple:
        params, state, t = carry
        moves, state = adam.update(jax.grad(loss)(params, take_rows(data, index)), state)
        now = 0.5 * rate * (1 + jnp.cos(jnp.pi * t / total))
        return (jax.tree.map(lambda x, m: x - now * m, params, moves), state, t + 1), None

    return jax.lax.scan(step, carry, order)[0]
