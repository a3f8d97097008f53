"""Programs for several points that serve any number of them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from isotherm import tree


def padded(points: PyTree, length: int) -> tuple[PyTree[Array], Int[Array, ""]]:
    """Return points, stacked along the leading axis, repeated up to a multiple of `length`; and how many they are."""
    count = jax.tree.leaves(points)[0].shape[0]
    full = -(-count // length) * length
    repeated = jax.tree.map(lambda x: tree.put(np.resize(np.asarray(x), (full, *x.shape[1:]))), points)
    return repeated, tree.put(count, np.int32)


def at_each(f: Callable[[Any], PyTree], points: PyTree[Array], count: Int[Array, ""]) -> PyTree[Array]:
    """Return what `f` returns at each of the first `count` points, and zeros for the others."""
    of = lambda i: f(jax.tree.map(lambda x: x[i], points))
    length = jax.tree.leaves(points)[0].shape[0]
    zeros = jax.tree.map(lambda x: jnp.zeros((length, *x.shape), x.dtype), jax.eval_shape(of, 0))
    put = lambda i, out: jax.tree.map(lambda all_, x: all_.at[i].set(x), out, of(i))
    return jax.lax.fori_loop(0, count, put, zeros)
