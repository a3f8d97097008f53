"""How often each row of a stream should be drawn, from one pass that keeps a byte for each row.

A byte holds the logarithm of how much the gradient of a row varies. Of more rows than that is possible for, only sums
over blocks are kept, and rows are measured again when a block is read.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt8

from isotherm import processes, tree
from isotherm.compilation import compile_untuned
from isotherm.data.plans import MinibatchPlan
from isotherm.data.stream import Drawn, Stream, host_rows, num_rows, padded, picked, put
from isotherm.data.weighted_blocks import (
    SHARES,
    TICKETS,
    BlockScores,
    WeightedBlocks,
    encoded,
    shares_of,
    tickets_of,
)
from isotherm.sums.fold import each, each_on_devices
from isotherm.tuning.tickets import Representatives, copies_of, num_top

_ORDERS = (1, 2)  # whose codes are kept
_MOST_CODES = 2**27  # rows for which a byte is kept, for each of these orders
_OTHERS = 4096  # random rows that represent those that are not among the top
_POOL, _POOL_NUMBERS = 2**15, 2**24  # rows drawn by a plan from those in memory, and numbers in them, at most

_NUMBERS_PER_ROW = 32  # that `roots` computes for each row at once, or more

Roots = Callable[[PyTree], tuple[Float[Array, " n"], ...]]


class _Top(eqx.Module):
    """The rows of a stream that vary most, in the order of their numbers, and their codes."""

    index: np.ndarray
    codes: UInt8[np.ndarray, " n"]
    rows: PyTree[np.ndarray]

    def merged(self, index: np.ndarray, codes: np.ndarray, rows: PyTree[np.ndarray], most: int) -> "_Top":
        """Return the `most` rows with the largest codes of these and others, whose numbers are larger."""
        index, codes = np.append(self.index, index), np.append(self.codes, codes)
        rows = jax.tree.map(lambda a, b: np.concatenate([a, b]), self.rows, rows)
        kept = np.sort(np.argsort(codes, kind="stable")[::-1][:most])
        return _Top(index[kept], codes[kept], jax.tree.map(lambda x: x[kept], rows))


@dataclasses.dataclass(frozen=True)
class StreamedRows:
    """Codes of how much the gradients of rows vary, by order.

    - `roots`: a function of a block of rows that returns their root mean squares, by order.
    - `scales`: their means, which codes are relative to.
    - `sample_roots`: those of the rows in the sample of the stream.
    - `counts`: the number of rows in each block with each code, by order: (order, block, code).
    - `codes`: that of each row, for orders 1 and 2; `None` if there are too many rows.
    - `tops`: the rows that vary most, for orders 1 and 2.
    - `changed`: rows that were measured again, by order, and their roots.
    """

    data: Stream
    roots: Roots
    size: int
    passes: float
    scales: Float[np.ndarray, " orders"]
    sample_roots: tuple[Float[np.ndarray, " sample"], ...]
    counts: Int[np.ndarray, "orders blocks 256"]
    codes: dict[int, UInt8[np.ndarray, " rows"]] | None
    tops: dict[int, _Top]
    changed: dict[int, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)

    @property
    def num_data(self) -> int:
        """The number of rows."""
        return self.data.num_rows

    def noise(self) -> tuple[Float[np.ndarray, " orders"], Float[np.ndarray, " orders"]]:
        """Return the mean eigenvalue of C for batches of one row, by order: drawn equally often, and by `plan`."""
        counts = self.counts.sum(axis=1).astype(np.float64)
        squares = (self.scales[:, None] * SHARES) ** 2
        equal = self.num_data * np.sum(counts * squares, axis=1)
        weighted = np.sum(counts * TICKETS, axis=1) * np.sum(counts * squares / TICKETS, axis=1)
        return equal / self.size, weighted / self.size

    def plan(self, order: int) -> WeightedBlocks:
        """Return a plan that draws rows in proportion to how much they vary."""
        totals = self.counts[order].astype(np.float64) @ TICKETS
        if self.codes is not None:
            return WeightedBlocks(totals, self.codes[order], self._pool(order))
        changed = self.changed.get(order, (np.zeros(0, np.int64), np.zeros(0)))
        function, wide = _OfOrder(self.roots, order), bool(jax.config.read("jax_enable_x64"))
        scores = BlockScores(function, wide, float(self.scales[order]), *changed)
        return WeightedBlocks(totals, scores, self._pool(order))

    def representatives(self, order: int) -> Representatives:
        """Return the rows that vary most and some others; for order 0, others alone."""
        return self._in_memory(order, _OTHERS)[0]

    def weights(self, order: int, plan: MinibatchPlan, chosen: Representatives) -> Float[np.ndarray, " n"]:
        """Return the weights of `representatives(order)` under `plan(order)`, or under equal probabilities."""
        if not isinstance(plan, WeightedBlocks):
            return np.ones(len(chosen.index))
        return plan.totals.sum() / (self.num_data * self._in_memory(order, _OTHERS)[1])

    def replaced(self, order: int, index: np.ndarray, roots: np.ndarray, passes: float) -> "StreamedRows":
        """Return a copy with other root mean squares of this order for the top rows `index`, which took `passes`."""
        top, counts = self.tops[order], self.counts.copy()
        assert np.array_equal(index, top.index)
        new = np.asarray(_encoded(jnp.asarray(roots), float(self.scales[order])))
        block = index // self.data.block_length
        np.subtract.at(counts[order], (block, top.codes), 1)
        np.add.at(counts[order], (block, new), 1)
        codes = self.codes
        if codes is not None:
            codes = codes | {order: codes[order].copy()}
            codes[order][index] = new
        return dataclasses.replace(
            self,
            counts=counts,
            codes=codes,
            tops=self.tops | {order: dataclasses.replace(top, codes=new)},
            changed=self.changed | {order: (index, roots)},
            passes=self.passes + passes,
        )

    def _in_memory(self, order: int, most: int) -> tuple[Representatives, Float[np.ndarray, " n"]]:
        """Return the top rows with at most so many of the sample, and their tickets."""
        index, N = self.data.sample_index, self.num_data
        top = self.tops.get(order)
        others = np.arange(len(index)) if top is None else np.flatnonzero(~np.isin(index, top.index))
        others = others[:most]  # the sample is in random order
        rows = picked(self.data.sample, others)
        tickets = tickets_of(shares_of(self.sample_roots[order][others], float(self.scales[order])))
        if top is None:
            return Representatives(rows, index[others], copies_of(N, 0, len(others)), 0), tickets
        rows = jax.tree.map(lambda a, b: jnp.concatenate([put(a), b]), top.rows, rows)
        numbers, tickets = np.append(top.index, index[others]), np.append(TICKETS[top.codes], tickets)
        count = len(top.index)
        return Representatives(rows, numbers, copies_of(N, count, len(others)), count), tickets

    def _pool(self, order: int) -> Drawn:
        """Return rows that the plan could have drawn, from those in memory."""
        chosen, tickets = self._in_memory(order, len(self.data.sample_index))
        count = min(_POOL, max(1024, _POOL_NUMBERS // self.data.width))
        shares = chosen.copies * tickets
        index = np.random.default_rng(2).choice(len(shares), count, p=shares / shares.sum())
        weights = shares.sum() / (self.num_data * tickets[index])
        return Drawn(picked(chosen.rows, index), put(weights.astype(np.float32)))


def streamed_rows(data: Stream, roots: Roots, size: int) -> StreamedRows:
    """Return how much the gradients of all rows vary, from one pass. `roots` is as in `StreamedRows`."""
    sample_roots = tuple(
        np.asarray(x, np.float64) for x in each(roots, data.sample, numbers_per_row=_NUMBERS_PER_ROW)
    )
    scales = np.array([x.mean() for x in sample_roots])
    parts = processes.gathered(lambda: _measured(data, roots, scales), "measure rows")
    counts, codes, tops = parts[0]
    for more_counts, more_codes, more_tops in parts[1:]:
        counts = np.concatenate([counts, more_counts], axis=1)
        if codes is not None and more_codes is not None:
            codes = {k: np.append(codes[k], more_codes[k]) for k in _ORDERS}
        most = num_top(data.num_rows)
        tops = {k: tops[k].merged(x.index, x.codes, x.rows, most) for k, x in more_tops.items()}
    return StreamedRows(data, roots, size, 1.0, scales, sample_roots, counts, codes, tops)


def _measured(
    data: Stream, roots: Roots, scales: Float[np.ndarray, " orders"]
) -> tuple[np.ndarray, dict[int, np.ndarray] | None, dict[int, _Top]]:
    """Return counts, codes and top rows of the blocks that are this process's to read."""
    N, (first, last) = data.num_rows, processes.own_range(data.num_blocks)
    start, own_rows = first * data.block_length, min(last * data.block_length, N) - first * data.block_length
    counts = np.zeros((len(scales), last - first, 256), np.int64)
    codes = {k: np.empty(own_rows, np.uint8) for k in _ORDERS} if N <= _MOST_CODES else None
    none = jax.tree.map(lambda x: np.empty((0, *x.shape[1:]), x.dtype), data.sample)
    tops = dict.fromkeys(_ORDERS, _Top(np.zeros(0, np.int64), np.zeros(0, np.uint8), none))
    most, on_scale = num_top(N), tree.put(scales, np.float32)
    for b, block in enumerate(data.blocks(first, last)):
        count, begin = num_rows(block), b * data.block_length
        same_length, work = padded(block, data.block_length), data.num_rows * data.width
        found = each_on_devices(
            _Codes(roots), same_length, on_scale, numbers_per_row=_NUMBERS_PER_ROW, work=work
        )
        coded = {k: np.asarray(found[k])[:count] for k in _ORDERS}
        for k, x in enumerate(found):
            counts[k, b] = _counts(x, count)
        for k in _ORDERS:
            if codes is not None:
                codes[k][begin : begin + count] = coded[k]
            least = tops[k].codes.min() if len(tops[k].codes) == most else 0
            new = np.flatnonzero(coded[k] > least if least else np.ones(count, bool))
            if len(new):
                new = np.sort(new[np.argsort(coded[k][new], kind="stable")[::-1][:most]])
                rows = host_rows(block, new)
                tops[k] = tops[k].merged(start + begin + new, coded[k][new], rows, most)
    return counts, codes, tops


def _counts(codes: Array | np.ndarray, count: int) -> Int[np.ndarray, " 256"]:
    """Return how often each code occurs among the first `count`."""
    if jax.default_backend() == "cpu" or isinstance(codes, np.ndarray):
        return np.bincount(np.asarray(codes)[:count], minlength=256)
    return np.asarray(_compared(codes, tree.put(count, np.int32)), np.int64)


@compile_untuned
def _compared(codes: UInt8[Array, " n"], count: Int[Array, ""]) -> Int[Array, " 256"]:
    # A GPU compares with all codes in less time than it takes to add to one counter after the other.
    same = codes[:, None] == jnp.arange(256, dtype=jnp.uint8)
    counted = jnp.arange(len(codes), dtype=jnp.int32)[:, None] < count
    return jnp.sum(same & counted, axis=0, dtype=jnp.int32)


class _OfOrder(eqx.Module):
    """The root mean squares of one order."""

    roots: Roots
    order: int = eqx.field(static=True)

    def __call__(self, rows: PyTree) -> Float[Array, " n"]:
        """Return one for each row."""
        return self.roots(rows)[self.order]


class _Codes(eqx.Module):
    """Codes of the root mean squares, by order."""

    roots: Roots

    def __call__(self, rows: PyTree, scales: Float[Array, " orders"]) -> tuple[UInt8[Array, " n"], ...]:
        """Return one code for each row, by order."""
        return tuple(_encoded(x, scales[k]) for k, x in enumerate(self.roots(rows)))


def _encoded(roots: Float[Array, " n"], scale: Float[Array, ""] | float) -> UInt8[Array, " n"]:
    safe = jnp.where(scale > 0, scale, 1)
    return encoded(jnp.where(scale > 0, roots / safe, 1))
