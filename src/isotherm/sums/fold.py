"""The engine of all sums over rows: one compiled loop over blocks of rows.

A pass calls a function of one block for block after block, adds up what it returns, and leaves nothing else in
memory. Blocks are slices of contiguous rows, without a copy of the data. The number of blocks is an argument of the
compiled program, so that one program serves a part of the rows and all of them.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_fully, compile_quickly, compile_untuned
from isotherm.data.permutation import permute
from isotherm.data.stream import Stream, num_rows, padded, put
from isotherm.sums.compensated import Sum

# Numbers in a block, so that it stays in the cache of a CPU, or keeps a GPU busy without taking much of its memory.
_NUMBERS = {"cpu": (2**18, 2**18)}
_NUMBERS_ELSEWHERE = (2**20, 2**24)  # fewest and most; one in 64 of the data between them
_FEWEST_ROWS, _MOST_NUMBERS = 64, 2**26  # rows in a block, unless they would hold this many numbers

CHUNK = 256  # the rows in a block are a multiple of this, if there are as many
# Numbers, in the data or computed in all, up to which programs are not optimised, and up to which they are not tuned.
_EFFORTS = (2**24, 2**30)

RowFunction = Callable[..., PyTree]


@dataclasses.dataclass(frozen=True)
class Part:
    """The rows from `begin` to `end` of the random order that `key` selects."""

    key: Key[Array, ""]
    end: int
    begin: int = 0

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.end - self.begin


def largest_part(data: PyTree | Stream) -> int:
    """Return the number of rows that a `Part` may have: all, or those in the sample of a stream."""
    return num_rows(data.sample if isinstance(data, Stream) else data)


def picked(data: PyTree, index: Int[Array, " n"]) -> PyTree:
    """Return the rows at `index`."""
    return jax.tree.map(lambda x: x.at[index].get(mode="promise_in_bounds"), data)


def fold(
    f: RowFunction,
    data: PyTree | Stream,
    *args: PyTree,
    numbers_per_row: int = 1,
    part: Part | None = None,
) -> PyTree[np.ndarray]:
    """Return the sum of `f(rows, valid, *args)` over blocks of all rows, in float64.

    **Arguments:**

    - `f`: returns a pytree of sums over the rows of a block. Rows that are not `valid` were seen before and must
      not be counted.
    - `data`: arrays on the device, or a stream, whose blocks are read while others are summed.
    - `numbers_per_row`: size of the largest intermediate result of `f` for each row, if it is larger than a row.
    - `part`: random rows to use instead of all, at most `largest_part`.
    """
    if isinstance(data, Stream):
        if part is None:
            return _fold_stream(f, data, args, numbers_per_row)
        data = data.sample
    length = _block_length(data, numbers_per_row)
    if part is None:
        with jax.enable_x64(False):  # a key that is made in x64 mode needs another program
            part = Part(jax.random.key(0), num_rows(data))
    begin, end = (tree.put(x, np.int32) for x in (part.begin, part.end))
    run = _FOLDS[_effort(data)]
    return run(f, data, args, part.key, begin, end, length).result()


def _fold_stream(
    f: RowFunction, data: Stream, args: tuple[PyTree, ...], numbers_per_row: int
) -> PyTree[np.ndarray]:
    run, total = _BLOCK_FOLDS[_effort(data.sample, data.width * data.num_rows)], None
    for block in data.blocks():
        count = num_rows(block)
        block = jax.tree.map(put, padded(block, data.block_length))
        length = _block_length(block, numbers_per_row)
        total = _nothing(f, block, args, length) if total is None else total
        before, total = total, run(f, block, args, tree.put(count, np.int32), length, total)
        # A block is read while the last one is summed: without waiting for earlier ones, memory would fill up.
        jax.block_until_ready(before)
    assert total is not None
    return total.result()


def _nothing(f: RowFunction, block: PyTree, args: tuple[PyTree, ...], length: int) -> Sum:
    """Return an empty sum."""
    rows = jax.tree.map(lambda x: jax.ShapeDtypeStruct((length, *x.shape[1:]), x.dtype), block)
    shapes = eqx.filter_eval_shape(f, rows, jax.ShapeDtypeStruct((length,), np.bool_), *args)
    zeros = lambda: tree.put_zeros_like(shapes)
    return Sum(zeros(), zeros())


def each(
    f: RowFunction,
    data: PyTree,
    *args: PyTree,
    numbers_per_row: int = 1,
    block_length: int | None = None,
    work: int = 0,
) -> PyTree[Array]:
    """Return `f(rows, *args)` for all rows, computed block by block: leaves have a leading axis of N rows.

    **Arguments:**

    - `numbers_per_row`: size of the largest intermediate result of `f` for each row, if it is larger than a row.
    - `block_length`: the number of rows in a block; `None` chooses it by the numbers in a row.
    - `work`: numbers that all calls of this program compute, if these are more than the numbers in the data.
    """
    length = _block_length(data, numbers_per_row) if block_length is None else block_length
    run = _EACHES[_effort(data, work)]
    return run(f, data, args, length)


def _block_length(data: PyTree, numbers_per_row: int) -> int:
    width = sum(math.prod(x.shape[1:]) for x in jax.tree.leaves(data))
    fewest, most = _NUMBERS.get(jax.default_backend(), _NUMBERS_ELSEWHERE)
    numbers = min(max(fewest, width * num_rows(data) // 64), most)
    width = max(width, numbers_per_row, 1)
    fewest_rows = max(1, min(_FEWEST_ROWS, _MOST_NUMBERS // width))
    length = min(num_rows(data), max(fewest_rows, numbers // width))
    return length if length < CHUNK else length // CHUNK * CHUNK


def _effort(data: PyTree, work: int = 0) -> int:
    """Return 0, 1 or 2: how long it pays to optimise a program, for the time that it takes to run."""
    numbers = max(work, sum(x.size for x in jax.tree.leaves(data)))
    return sum(numbers >= limit for limit in _EFFORTS)


def _fold(
    f: RowFunction,
    data: PyTree,
    args: tuple[PyTree, ...],
    key: Key[Array, ""],
    begin: Int[Array, ""],
    end: Int[Array, ""],
    length: int,
) -> Sum:
    all_rows = end - begin == num_rows(data)

    def block(i: Int[Array, ""]) -> PyTree:
        first = begin + i * length
        contiguous = functools.partial(_contiguous, data, first, length)
        at_random = functools.partial(_random, data, first, length, key, end)
        return f(*jax.lax.cond(all_rows, contiguous, at_random), *args)

    shapes = jax.eval_shape(block, jnp.zeros((), jnp.int32))
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    blocks = (end - begin + length - 1) // length
    return jax.lax.fori_loop(0, blocks, lambda i, total: total.add(block(i)), Sum.zero(zero))


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
        start = jnp.minimum(i * length, num_rows(block) - length)
        return f(rows, new & (start + jnp.arange(length, dtype=jnp.int32) < count), *args)

    return jax.lax.fori_loop(0, (count + length - 1) // length, lambda i, sums: sums.add(part(i)), total)


def _each(f: RowFunction, data: PyTree, args: tuple[PyTree, ...], length: int) -> PyTree[Array]:
    N = num_rows(data)
    of_block = lambda begin: f(_contiguous(data, begin, length)[0], *args)
    shapes = jax.eval_shape(of_block, jnp.zeros((), jnp.int32))
    out = jax.tree.map(lambda x: jnp.zeros((N, *x.shape[1:]), x.dtype), shapes)

    def write(i: Int[Array, ""], out: PyTree) -> PyTree:
        begin = jnp.minimum(i * length, N - length)
        put = lambda buffer, x: jax.lax.dynamic_update_slice_in_dim(buffer, x, begin, axis=0)
        return jax.tree.map(put, out, of_block(begin))

    return jax.lax.fori_loop(0, -(-N // length), write, out)


_FOLDS = compile_quickly(_fold), compile_untuned(_fold), compile_fully(_fold)
_BLOCK_FOLDS = compile_quickly(_fold_block), compile_untuned(_fold_block), compile_fully(_fold_block)
_EACHES = compile_quickly(_each), compile_untuned(_each), compile_fully(_each)


def _contiguous(data: PyTree, begin: Int[Array, ""], length: int) -> tuple[PyTree, Bool[Array, " n"]]:
    """Return a block of contiguous rows. The last one begins early, with rows that were counted before."""
    start = jnp.minimum(begin, num_rows(data) - length).astype(jnp.int32)
    rows = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, length, axis=0), data)
    return rows, start + jnp.arange(length, dtype=jnp.int32) >= begin


def _random(
    data: PyTree, begin: Int[Array, ""], length: int, key: Key[Array, ""], end: Int[Array, ""]
) -> tuple[PyTree, Bool[Array, " n"]]:
    """Return a block of rows of a random order that ends at `end`."""
    position = begin + jnp.arange(length, dtype=jnp.int32)
    # All blocks use the same key on purpose, since it names one order of the rows.
    key = jax.random.clone(key)
    index = permute(jnp.minimum(position, num_rows(data) - 1), num_rows(data), key=key)
    return picked(data, index), position < end
