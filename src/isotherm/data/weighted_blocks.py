"""Rows of a stream, drawn with unequal probabilities: first a block, then a row in it."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt8

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

    def shares(self, data: Stream, block: int, rows: Rows) -> Float[np.ndarray, " n"]:
        """Return the scores of the rows of a block, over the scale."""
        count = jax.tree.leaves(rows)[0].shape[0]
        with jax.enable_x64(self.float64):
            scored = _scored(self.function, jax.tree.map(put, padded(rows, data.block_length)))
        scores, begin = np.array(scored[:count], np.float64), block * data.block_length
        first, last = np.searchsorted(self.changed, [begin, begin + count])
        scores[self.changed[first:last] - begin] = self.changed_scores[first:last]
        return shares_of(scores, self.scale)


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
            tickets = self._tickets(data, b, read)
            tickets_end = np.cumsum(tickets)
            number = np.floor(row_fraction[places] * tickets_end[-1])
            offset = np.minimum(np.searchsorted(tickets_end, number, side="right"), len(tickets) - 1)
            share = float(self.totals[b]) / float(ends[-1])
            weights[places] = tickets_end[-1] / (data.num_rows * share * tickets[offset])
            index[places] = b * data.block_length + offset
            if rows is not None:
                assert read is not None
                found = jax.tree.leaves(host_rows(read, offset))
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

    def _tickets(self, data: Stream, block: int, rows: Rows | None) -> Float[np.ndarray, " n"]:
        """Return the tickets of the rows of a block, as integers in float64."""
        if isinstance(self.scores, BlockScores):
            return tickets_of(self.scores.shares(data, block, rows))
        begin = block * data.block_length
        return TICKETS[self.scores[begin : begin + data.block_length]]


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


@compile_untuned
def _scored(scores: Any, rows: PyTree) -> Array:
    return jnp.asarray(scores(rows))
