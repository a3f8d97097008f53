"""Named operations on pytrees of arrays, so that the code of a sampler reads like its equation.

A *scale* is a scalar or a pytree of the same structure (a diagonal matrix). Scalars take the dtype of the
leaf they meet, so a float64 hyper-parameter never promotes a float32 chain.
"""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

Scale = PyTree

_SMALL = 4096


def is_scalar(scale: Scale) -> bool:
    """Whether `scale` is one number rather than a pytree of diagonals."""
    return isinstance(scale, int | float) or (hasattr(scale, "ndim") and scale.ndim == 0)


def _with_scale(f: Callable[[Array, Array], Array], scale: Scale, tree: PyTree) -> PyTree:
    if is_scalar(scale):
        return jax.tree.map(lambda x: f(jnp.asarray(scale, x.dtype), x), tree)
    return jax.tree.map(lambda a, x: f(jnp.asarray(a, x.dtype), x), scale, tree)


def multiply(scale: Scale, tree: PyTree) -> PyTree:
    """`scale * tree`."""
    return _with_scale(jnp.multiply, scale, tree)


def divide(tree: PyTree, scale: Scale) -> PyTree:
    """`tree / scale`."""
    return _with_scale(lambda a, x: x / a, scale, tree)


def sqrt(scale: Scale) -> Scale:
    """Elementwise square root."""
    return jax.tree.map(jnp.sqrt, scale)


def add_scaled(tree: PyTree, *terms: tuple[Scale, PyTree]) -> PyTree:
    """`tree + a * x + b * y + ...` for `terms = (a, x), (b, y), ...`, summed in that order."""
    for scale, x in terms:
        tree = jax.tree.map(jnp.add, tree, multiply(scale, x))
    return tree


def subtract(x: PyTree, y: PyTree) -> PyTree:
    """`x - y`."""
    return jax.tree.map(jnp.subtract, x, y)


def dot(x: PyTree, y: PyTree) -> Float[Array, ""]:
    """Inner product over all leaves, summed in float32 or wider."""

    def one(a: Array, b: Array) -> Array:
        dtype = jnp.promote_types(a.dtype, jnp.float32)
        a, b = a.astype(dtype), b.astype(dtype)
        # On a CPU `vdot` is ten times faster for large leaves; for small ones the sum of products is fused.
        return jnp.vdot(a, b, precision="highest") if a.size > _SMALL else jnp.sum(a * b)

    terms = [one(a, b) for a, b in _pairs(x, y)]
    return sum(terms[1:], start=terms[0])


def products(rows: PyTree, x: PyTree) -> Float[Array, " k"]:
    """The inner products of each of k stacked trees with one tree."""
    terms = [_matmul(a.reshape(a.shape[0], -1), b.reshape(-1)) for a, b in _pairs(rows, x)]
    return sum(terms[1:], start=terms[0])


def grams(rows: PyTree, others: PyTree) -> Float[Array, "k l"]:
    """The inner products of each of k stacked trees with each of l."""
    terms = [_matmul(a.reshape(a.shape[0], -1), b.reshape(b.shape[0], -1).T) for a, b in _pairs(rows, others)]
    return sum(terms[1:], start=terms[0])


def combine(weights: Float[Array, "*l k"], rows: PyTree) -> PyTree:
    """The weighted sum of k stacked trees, or a stack of l such sums."""

    def one(a: Array) -> Array:
        sums = _matmul(weights.astype(a.dtype), a.reshape(a.shape[0], -1))
        return sums.reshape(*weights.shape[:-1], *a.shape[1:])

    return jax.tree.map(one, rows)


def _matmul(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")  # a GPU may round to fewer bits by default


def _pairs(x: PyTree, y: PyTree) -> Iterable[tuple[Array, Array]]:
    return zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True)


def size(tree: PyTree) -> int:
    """Number of scalars in all leaves: N_d of a position."""
    return sum(x.size for x in jax.tree.leaves(tree))


def zeros_like(tree: PyTree) -> PyTree:
    """A tree of zeros with the shapes and dtypes of `tree`."""
    return jax.tree.map(jnp.zeros_like, tree)


def where(condition: Array, x: PyTree, y: PyTree) -> PyTree:
    """`x` if the scalar `condition` holds, else `y`, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), x, y)


def normal_like(tree: PyTree, *, key: Key[Array, ""]) -> PyTree:
    """Independent standard normal numbers in the shapes and dtypes of `tree`."""
    leaves, structure = jax.tree.flatten(tree)
    if size(tree) <= _SMALL and len({x.dtype for x in leaves}) == 1:
        # One call of the generator instead of one per leaf, which would be most of the cost of a small step.
        return unravel_like(jax.random.normal(key, (size(tree),), leaves[0].dtype), tree)
    keys = jax.random.split(key, len(leaves))
    draws = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, draws)


def ravel(tree: PyTree) -> Float[Array, " d"]:
    """All leaves, concatenated into one vector."""
    leaves = jax.tree.leaves(tree)
    return jnp.ravel(leaves[0]) if len(leaves) == 1 else jnp.concatenate([jnp.ravel(x) for x in leaves])


def unravel_like(vector: Float[Array, " d"], tree: PyTree) -> PyTree:
    """The inverse of `ravel`, with the shapes and dtypes of `tree`."""
    leaves, structure = jax.tree.flatten(tree)
    pieces, start = [], 0
    for x in leaves:
        pieces.append(vector[start : start + x.size].reshape(x.shape).astype(x.dtype))
        start += x.size
    return jax.tree.unflatten(structure, pieces)


# Counterparts for the host, which compile nothing.


def put(x: Any, dtype: Any = None) -> Array:
    """A copy of `x` as an array on the device."""
    return jax.device_put(np.array(x, dtype))  # of the copy, since JAX may keep the memory that it is given


def put_zeros_like(tree: PyTree) -> PyTree[Array]:
    """A tree of zeros with the shapes and dtypes of `tree`."""
    return jax.tree.map(lambda x: put(np.zeros(x.shape, x.dtype)), tree)


def as_ravelled(x: Any, like: PyTree) -> Array:
    """`x` as an array of the dtype that `like` has when ravelled."""
    return put(x, dtype_of(like))


def dtype_of(tree: PyTree) -> np.dtype:
    """The dtype that a tree has when ravelled."""
    return jnp.result_type(*jax.tree.leaves(tree))


def flat(tree: PyTree) -> Float[np.ndarray, " d"]:
    """All leaves, concatenated into one vector of 64 bits."""
    return np.concatenate([np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(tree)])


def flat_rows(tree: PyTree) -> Float[np.ndarray, "m d"]:
    """What `flat` returns of each element of a leading axis that all leaves share."""
    leaves = [np.asarray(x, np.float64) for x in jax.tree.leaves(tree)]
    return np.concatenate([x.reshape(len(x), -1) for x in leaves], axis=1)


def put_like(vector: np.ndarray, tree: PyTree) -> PyTree[Array]:
    """The inverse of `flat`, with the shapes and dtypes of `tree`. Leading axes of `vector` are kept."""
    leaves, structure = jax.tree.flatten(tree)
    pieces = np.split(vector, np.cumsum([x.size for x in leaves])[:-1], axis=-1)
    shapes = [(*vector.shape[:-1], *x.shape) for x in leaves]
    put_piece = lambda piece, shape, x: put(piece.reshape(shape), x.dtype)
    return structure.unflatten(map(put_piece, pieces, shapes, leaves))


def name_of(path: tuple[Any, ...]) -> str:
    """A leaf's name such as `layers.0.weight`; the empty string for a bare array."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def named_leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[str, Any]]:
    """Pairs of leaf name and leaf, in flattening order."""
    return [(name_of(path), x) for path, x in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_leaf)]


def shapes(tree: PyTree, bare: str) -> str:
    """The shapes of the leaves with their names, for a message. A tree that is one array is called `bare`."""
    return ", ".join(f"{name or bare}: {x.shape}" for name, x in named_leaves(tree))
