"""The engine of all sums over rows: one compiled loop over blocks of rows.

A pass calls a function of one block for block after block, adds up what it returns, and leaves nothing else in
memory. Blocks are slices of contiguous rows, without a copy of the data. The number of blocks is an argument of the
compiled program, so that one program serves a part of the rows and all of them.
"""

import dataclasses
import math

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import devices, processes, tree
from isotherm.data.stream import Stream, num_rows, padded, put
from isotherm.sums import spread
from isotherm.sums.compensated import Sum
from isotherm.sums.journal import recalled
from isotherm.sums.programs import BLOCK_FOLDS, EACHES, FOLDS, RowFunction
from isotherm.sums.programs import picked as picked

# Numbers in a block, so that it stays in the cache of a CPU, or keeps a GPU busy without taking much of its memory.
_NUMBERS = {"cpu": (2**18, 2**18)}
_NUMBERS_ELSEWHERE = (2**20, 2**24)  # fewest and most; one in 64 of the data between them
_FEWEST_ROWS, _MOST_NUMBERS = 64, 2**26  # rows in a block, unless they would hold this many numbers

CHUNK = 256  # the rows in a block are a multiple of this, if there are as many
# Numbers, in the data or computed in all, up to which programs are not optimised, and up to which they are not tuned.
_EFFORTS = (2**24, 2**30)


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
    rows = "all" if part is None else f"{part.begin} to {part.end}"
    return recalled(f, args, rows, lambda: _fold(f, data, args, numbers_per_row, part))


def _fold(
    f: RowFunction, data: PyTree | Stream, args: tuple[PyTree, ...], numbers_per_row: int, part: Part | None
) -> PyTree[np.ndarray]:
    if isinstance(data, Stream):
        if part is None:
            return _fold_stream(f, data, args, numbers_per_row)
        data = data.sample
    length = _block_length(data, numbers_per_row)
    if part is None:
        with jax.enable_x64(False):  # a key that is made in x64 mode needs another program
            part = Part(jax.random.key(0), num_rows(data))
    chosen = spread.over(part.count * _width(data))
    if chosen is not None:
        length = spread.shorter(length, num_rows(data), CHUNK)
        bounds = (part.begin, part.end)
        return spread.fold_arrays(f, data, args, part.key, bounds, length, _effort(data), chosen)
    begin, end = (tree.put(x, np.int32) for x in (part.begin, part.end))
    run = FOLDS[_effort(data)]
    return run(f, data, args, part.key, begin, end, length).result()


def _fold_stream(
    f: RowFunction, data: Stream, args: tuple[PyTree, ...], numbers_per_row: int
) -> PyTree[np.ndarray]:
    """Return the sum over all rows of a stream, of which this process reads its own blocks."""
    own = lambda: _fold_own_blocks(f, data, args, numbers_per_row)
    return spread.added(processes.gathered(own, f"sum {type(f).__name__}"))


def _fold_own_blocks(
    f: RowFunction, data: Stream, args: tuple[PyTree, ...], numbers_per_row: int
) -> PyTree[np.ndarray]:
    effort = _effort(data.sample, data.width * data.num_rows)
    chosen = spread.over(data.width * data.num_rows) or devices.current()[:1]
    rows_each = -(-data.block_length // len(chosen))
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((rows_each, *x.shape[1:]), x.dtype), data.sample)
    length = _block_length(one, numbers_per_row, data.width * data.num_rows)
    total = _nothing(f, one, args, length)
    several = spread.BlockFold(f, args, effort, chosen) if len(chosen) > 1 else None
    total = total if several is None else several.zero(total)
    for block in data.blocks(*processes.own_range(data.num_blocks)):
        count, block, before = num_rows(block), padded(block, data.block_length), total
        if several is None:
            block = jax.tree.map(put, block)
            total = BLOCK_FOLDS[effort](f, block, args, tree.put(count, np.int32), length, total)
        else:
            total = several.add(block, count, length, total)
        # A block is read while the last one is summed: without waiting for earlier ones, memory would fill up.
        jax.block_until_ready(before)
    return total.result() if several is None else spread.over_devices(total)


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
    length = _block_length(data, numbers_per_row, work) if block_length is None else block_length
    run = EACHES[_effort(data, work)]
    return run(f, data, args, length)


def each_on_devices(
    f: RowFunction, data: PyTree, *args: PyTree, numbers_per_row: int = 1, work: int = 0
) -> PyTree[Array | np.ndarray]:
    """Return what `each` does, from all devices in use; from several, on the host. `data` may be on the host."""
    chosen = spread.over(max(work, num_rows(data) * _width(data))) or ()
    if len(chosen) < 2:
        return each(f, jax.tree.map(put, data), *args, numbers_per_row=numbers_per_row, work=work)
    rows_each = -(-num_rows(data) // len(chosen))
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((rows_each, *x.shape[1:]), x.dtype), data)
    length = _block_length(one, numbers_per_row, work)
    return spread.each_of(f, data, args, length, _effort(data, work), chosen)


def _width(data: PyTree) -> int:
    return sum(math.prod(x.shape[1:]) for x in jax.tree.leaves(data))


def _block_length(data: PyTree, numbers_per_row: int, work: int = 0) -> int:
    """Return the rows in a block of `data`. `work` counts numbers, if these are only a part of all."""
    width = _width(data)
    fewest, most = _NUMBERS.get(jax.default_backend(), _NUMBERS_ELSEWHERE)
    numbers = min(max(fewest, max(work, width * num_rows(data)) // 64), most)
    width = max(width, numbers_per_row, 1)
    fewest_rows = max(1, min(_FEWEST_ROWS, _MOST_NUMBERS // width))
    length = min(num_rows(data), max(fewest_rows, numbers // width))
    return length if length < CHUNK else length // CHUNK * CHUNK


def _effort(data: PyTree, work: int = 0) -> int:
    """Return 0, 1 or 2: how long it pays to optimise a program, for the time that it takes to run."""
    numbers = max(work, sum(x.size for x in jax.tree.leaves(data)))
    return sum(numbers >= limit for limit in _EFFORTS)
