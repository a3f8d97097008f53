"""The compiled programs of passes over rows, on one device and on several.

On several devices each takes some blocks, or some rows of a block that was read, and keeps one sum. These sums are
added on the host, so that no device waits for another within a pass.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Int, Key, PyTree

from isotherm import devices
from isotherm.compilation import compile_fully, compile_quickly, compile_untuned
from isotherm.data.permutation import permute
from isotherm.sums.compensated import Sum

RowFunction = Callable[..., PyTree]


def picked(data: PyTree, index: Int[Array, " n"]) -> PyTree:
    """Return the rows at `index`."""
    return jax.tree.map(lambda x: x.at[index].get(mode="promise_in_bounds"), data)


def _length(data: PyTree) -> int:
    return jax.tree.leaves(data)[0].shape[0]


def _fold(
    f: RowFunction,
    data: PyTree,
    args: tuple[PyTree, ...],
    key: Key[Array, ""],
    begin: Int[Array, ""],
    end: Int[Array, ""],
    length: int,
    first: Int[Array, ""] | int = 0,
    stride: int = 1,
) -> Sum:
    """Return the sum over blocks `first`, `first + stride`, ... of the rows from `begin` to `end`."""
    all_rows = end - begin == _length(data)

    def block(i: Int[Array, ""]) -> PyTree:
        start = begin + (first + i * stride) * length
        contiguous = functools.partial(_contiguous, data, start, length)
        at_random = functools.partial(_random, data, start, length, key, end)
        return f(*jax.lax.cond(all_rows, contiguous, at_random), *args)

    shapes = jax.eval_shape(block, jnp.zeros((), jnp.int32))
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    blocks = (end - begin + length - 1) // length
    own = (blocks - first + stride - 1) // stride
    return jax.lax.fori_loop(0, own, lambda i, total: total.add(block(i)), Sum.zero(zero))


def _fold_block(
    f: RowFunction,
    block: PyTree,
    args: tuple[PyTree, ...],
    count: Int[Array, ""],
    length: int,
    total: Sum,
) -> Sum:
    """Return `total` plus the sum over the first `count` rows of a block."""

    def part(i: Int[Array, ""]) -> PyTree:
        rows, new = _contiguous(block, i * length, length)
        start = jnp.minimum(i * length, _length(block) - length)
        return f(rows, new & (start + jnp.arange(length, dtype=jnp.int32) < count), *args)

    return jax.lax.fori_loop(0, (count + length - 1) // length, lambda i, sums: sums.add(part(i)), total)


def _each(f: RowFunction, data: PyTree, args: tuple[PyTree, ...], length: int) -> PyTree[Array]:
    N = _length(data)
    of_block = lambda begin: f(_contiguous(data, begin, length)[0], *args)
    shapes = jax.eval_shape(of_block, jnp.zeros((), jnp.int32))
    out = jax.tree.map(lambda x: jnp.zeros((N, *x.shape[1:]), x.dtype), shapes)

    def write(i: Int[Array, ""], out: PyTree) -> PyTree:
        begin = jnp.minimum(i * length, N - length)
        put = lambda buffer, x: jax.lax.dynamic_update_slice_in_dim(buffer, x, begin, axis=0)
        return jax.tree.map(put, out, of_block(begin))

    return jax.lax.fori_loop(0, -(-N // length), write, out)


def _fold_spread(mesh: Mesh, first: Int[Array, " devices"], stride: int, length: int, *args: Any) -> Sum:
    """Return a sum for each device, over the blocks from `first` on."""

    def one(first: Int[Array, " 1"], *shared: Any) -> Sum:
        run = functools.partial(_fold, length=length, first=first[0], stride=stride)
        return _stacked(run(*shared))

    return _on_devices(one, mesh, (first,), args)


def _fold_block_spread(
    mesh: Mesh, block: PyTree, counts: Int[Array, " devices"], total: Sum, length: int, *args: Any
) -> Sum:
    """Return a sum for each device, with the first of its rows of a block added."""

    def one(block: PyTree, count: Int[Array, " 1"], total: Sum, f: RowFunction, rest: Any) -> Sum:
        before = jax.tree.map(lambda x: x[0], total)
        return _stacked(_fold_block(f, block, rest, count[0], length, before))

    return _on_devices(one, mesh, (block, counts, total), args)


def _each_spread(mesh: Mesh, rows: PyTree, length: int, *args: Any) -> PyTree[Array]:
    """Return `f` of all rows, which are split over the devices."""

    def one(rows: PyTree, f: RowFunction, rest: Any) -> PyTree[Array]:
        return _each(f, rows, rest, length)

    return _on_devices(one, mesh, (rows,), args)


def _stacked(x: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda leaf: leaf[None], x)


def _on_devices(one: Callable, mesh: Mesh, divided: PyTree[Array], shared: PyTree) -> PyTree[Array]:
    """Return `one(*divided, *shared)` of each device, stacked. Of `divided`, each device gets its part."""
    arrays, rest = eqx.partition(shared, eqx.is_array)

    def local(divided: PyTree, arrays: PyTree) -> PyTree:
        return one(*divided, *eqx.combine(arrays, rest))

    specs = (devices.SPLIT, devices.EVERYWHERE)
    run = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=devices.SPLIT, check_vma=False)
    return run(divided, arrays)


def _by_effort(f: Callable) -> tuple[Callable, Callable, Callable]:
    return compile_quickly(f), compile_untuned(f), compile_fully(f)


FOLDS, BLOCK_FOLDS, EACHES = _by_effort(_fold), _by_effort(_fold_block), _by_effort(_each)
SPREAD_FOLDS, SPREAD_BLOCK_FOLDS = _by_effort(_fold_spread), _by_effort(_fold_block_spread)
SPREAD_EACHES = _by_effort(_each_spread)


def _contiguous(data: PyTree, begin: Int[Array, ""], length: int) -> tuple[PyTree, Bool[Array, " n"]]:
    """Return a block of contiguous rows. The last one begins early, with rows that were counted before."""
    start = jnp.minimum(begin, _length(data) - length).astype(jnp.int32)
    rows = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, length, axis=0), data)
    return rows, start + jnp.arange(length, dtype=jnp.int32) >= begin


def _random(
    data: PyTree, begin: Int[Array, ""], length: int, key: Key[Array, ""], end: Int[Array, ""]
) -> tuple[PyTree, Bool[Array, " n"]]:
    """Return a block of rows of a random order that ends at `end`."""
    position = begin + jnp.arange(length, dtype=jnp.int32)
    # All blocks use the same key on purpose, since it names one order of the rows.
    key = jax.random.clone(key)
    index = permute(jnp.minimum(position, _length(data) - 1), _length(data), key=key)
    return picked(data, index), position < end
