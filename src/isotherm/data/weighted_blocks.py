"""Rows of a stream, drawn with unequal probabilities: first a block, then a row in it."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int64, PyTree, UInt8

from isotherm.compilation import compile_untuned
from isotherm.data.fed import ByWords, fractions
from isotherm.data.plans import MinibatchPlan, PRNGKey, Step
from isotherm.data.stream import Drawn, Stream, host_rows, padded, put

_FINE = 2.0**16  # tickets that every row has; as many again are shared out, on average
_PER_OCTAVE, _OFFSET = 8, 64  # codes: 8 for each factor of 2; that of the mean

Rows = PyTree[Array | np.ndarray]


class BlockScores(eqx.Module):
    """Scores of the rows of a stream that are too many to keep a byte for each: computed again for rows in use.

    - `function`: returns the score of each row of a block; `float64` says in which mode of JAX.
    - `scale`: the score whose share is 1.
    - `changed`, `changed_scores`: numbers of rows that have another score, in order, and that score.
    """

    function: Callable[[PyTree], Float[Array, " n"]]
    float64: bool = eqx.field(static=True)
    scale: float
    changed: np.ndarray
    changed_scores: np.ndarray

    def drawn(self, data: Stream, block: int, rows: Rows, at: np.ndarray) -> "DrawnRows":
        """Return the rows of a block that hold the tickets `at` fractions of them, from 0 to 1."""
        count, begin = jax.tree.leaves(rows)[0].shape[0], block * data.block_length
        with jax.enable_x64(self.float64):
            scores = _scored(self.function, jax.tree.map(put, padded(rows, data.block_length)))
        first, last = np.searchsorted(self.changed, [begin, begin + count])
        changed = (self.changed[first:last] - begin).astype(np.int32), self.changed_scores[first:last]
        nowhere = (np.int32(data.block_length), 0.0)
        # Powers of two, so that few programs are compiled.
        index, new = (_lengthened(x, fill) for x, fill in zip(changed, nowhere, strict=True))
        with jax.enable_x64(True):
            scale = np.asarray(self.scale, np.float64)
            found = _found(scores, np.int32(count), index, new, scale, _lengthened(at, 0.0))
            offset, tickets, total = jax.device_get(found)
        return DrawnRows(offset[: len(at)].astype(np.int64), tickets[: len(at)], float(total))


class DrawnRows(NamedTuple):
    """Rows of a block drawn by their tickets: their places and tickets, and all tickets of the block."""

    offset: Int64[np.ndarray, " n"]
    tickets: Float[np.ndarray, " n"]
    total: float


class WeightedBlocks(MinibatchPlan):
    r"""Draws block b with probability $T_b/\sum T$, and in it row i with probability $r_i/\sum_{j\in b} r_j$.

    The plan of a warm-up on rows that are not in memory. Tickets r follow from one byte for each row or, if these are
    too many, are computed again when a block is read. The weight $1/(Np_i)$ comes from the same integers that draw a
    row: the force is unbiased whatever their rounding.

    - `totals`: T, positive integers, as float64.
    - `scores`: one code for each row, or how to compute them.
    - `pool`: rows drawn from those in memory, in place of rows of the stream, by which noise is measured.
    """

    totals: np.ndarray
    scores: UInt8[np.ndarray, " rows"] | BlockScores
    pool: Drawn

    white = True
    weighted = True

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        raise TypeError("`WeightedBlocks` draws from rows that are not in memory; use it with `iso.sample`.")

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1.0

    def found(self, data: Stream, names: np.ndarray) -> Drawn:
        block_fraction, row_fraction = fractions(names)
        ends = np.cumsum(self.totals)
        block = np.searchsorted(ends, np.floor(block_fraction * ends[-1]), side="right")
        block = np.minimum(block, len(ends) - 1)
        order = np.argsort(block, kind="stable")
        starts = np.searchsorted(block[order], np.arange(len(ends) + 1))
        index, weights = np.empty(len(block), np.int64), np.empty(len(block), np.float32)
        rows = None if isinstance(self.scores, np.ndarray) else _room(data, len(block))
        for b, read in self._visited(data, np.flatnonzero(np.diff(starts))):
            places = order[starts[b] : starts[b + 1]]
            drawn = self._drawn(data, b, read, row_fraction[places])
            share = float(self.totals[b]) / float(ends[-1])
            weights[places] = drawn.total / (data.num_rows * share * drawn.tickets)
            index[places] = b * data.block_length + drawn.offset
            if rows is not None:
                assert read is not None
                found = jax.tree.leaves(host_rows(read, drawn.offset))
                for out, x in zip(jax.tree.leaves(rows), found, strict=True):
                    out[places] = x
        return Drawn(data.take(index) if rows is None else rows, weights)

    @property
    def naming(self) -> MinibatchPlan:
        return ByWords()

    def pool_of(self, data: Stream) -> Drawn:
        return self.pool

    def drawn(self, data: Stream, count: int, rng: np.random.Generator) -> Drawn:
        """Return `count` rows of the pool, drawn with replacement, and their weights."""
        index = jnp.asarray(rng.integers(self.pool.count, size=count), jnp.int32)
        return jax.tree.map(lambda x: x[index], self.pool)

    def check_stream(self, num_data: int) -> None:
        """Accept any number of rows."""

    def _visited(self, data: Stream, blocks: np.ndarray) -> Iterator[tuple[int, Rows | None]]:
        """Yield the number of each of `blocks`, and its rows if they are needed for their tickets."""
        if isinstance(self.scores, np.ndarray):
            yield from ((int(b), None) for b in blocks)
        elif data.source.random_access and 2 * len(blocks) < data.num_blocks:
            yield from ((int(b), data.block(int(b))) for b in blocks)
        else:
            wanted = set(blocks.tolist())
            yield from ((b, rows) for b, rows in enumerate(data.blocks()) if b in wanted)

    def _drawn(self, data: Stream, block: int, rows: Rows | None, at: np.ndarray) -> DrawnRows:
        """Return the rows of a block that hold the tickets `at` fractions of them, from 0 to 1."""
        if isinstance(self.scores, BlockScores):
            assert rows is not None
            return self.scores.drawn(data, block, rows, at)
        begin = block * data.block_length
        tickets = TICKETS[self.scores[begin : begin + data.block_length]]
        ends = np.cumsum(tickets)
        number = np.floor(at * ends[-1])
        offset = np.minimum(np.searchsorted(ends, number, side="right"), len(tickets) - 1)
        return DrawnRows(offset, tickets[offset], float(ends[-1]))


def shares_of(scores: np.ndarray, scale: float) -> Float[np.ndarray, " n"]:
    """Return scores over their scale; 1 if that is zero."""
    return scores / scale if scale > 0 else np.ones_like(scores)


def tickets_of(shares: np.ndarray) -> Float[np.ndarray, " n"]:
    """Return tickets, as integers in float64: half of all are the same for all rows, half in proportion to shares."""
    return np.rint(_FINE * (1 + shares))


def encoded(shares: Array | np.ndarray) -> UInt8[Array, " n"]:
    """Return codes of shares from 2^-8 to 2^24. What they stand for is off by at most 4.5 %."""
    return jnp.clip(jnp.rint(_PER_OCTAVE * jnp.log2(shares)) + _OFFSET, 0, 255).astype(jnp.uint8)


SHARES = 2.0 ** ((np.arange(256) - _OFFSET) / _PER_OCTAVE)
"""The share that each code stands for."""

TICKETS = tickets_of(SHARES)
"""The tickets of a row with each code."""


def _room(data: Stream, count: int) -> PyTree[np.ndarray]:
    return jax.tree.map(lambda x: np.empty((count, *x.shape[1:]), x.dtype), data.sample)


def _lengthened(x: np.ndarray, fill: Any) -> np.ndarray:
    """Return a vector with `fill` after its end, up to a power of two."""
    return np.pad(x, (0, (1 << max(len(x) - 1, 0).bit_length()) - len(x)), constant_values=fill)


@compile_untuned
def _scored(scores: Any, rows: PyTree) -> Array:
    return jnp.asarray(scores(rows))


@compile_untuned
def _found(
    scores: Float[Array, " n"],
    count: Int[Array, ""] | np.int32,
    changed: Int[Array | np.ndarray, " k"],
    changed_scores: Float[Array | np.ndarray, " k"],
    scale: Float[Array | np.ndarray, ""],
    at: Float[Array | np.ndarray, " m"],
) -> tuple[Int[Array, " m"], Float[Array, " m"], Float[Array, ""]]:
    """Return what `DrawnRows` holds. Tickets are integers, whose sums are exact in float64."""
    scores = jnp.asarray(scores, jnp.float64).at[changed].set(changed_scores, mode="drop")
    valid = jnp.arange(len(scores), dtype=jnp.int32) < count
    shares = jnp.where(scale > 0, scores / jnp.where(scale > 0, scale, 1), 1)
    tickets = jnp.where(valid, jnp.rint(_FINE * (1 + shares)), 0)
    ends = jnp.cumsum(tickets)
    offset = jnp.searchsorted(ends, jnp.floor(at * ends[-1]), side="right")
    offset = jnp.minimum(offset, count - 1)
    return offset, tickets[offset], ends[-1]
