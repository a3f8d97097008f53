"""Rows of a stream drawn with unequal probabilities: how often each is drawn, and that its weight makes up for it."""

import jax
import numpy as np
import pytest

import isotherm as iso
from isotherm.data import stream
from isotherm.data.fed import words
from isotherm.data.opening import opened
from isotherm.data.stream import Drawn
from isotherm.data.weighted_blocks import SHARES, TICKETS, BlockScores, WeightedBlocks, encoded, tickets_of

N, DRAWS = 1_543, 400_000


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setattr(stream, "_HELD", 0)
    monkeypatch.setattr(stream, "_BLOCK", 256)
    share = np.exp(np.random.default_rng(0).normal(size=N)).astype(np.float32)
    share[7] = 300.0
    return opened(iso.data.arrays({"share": share, "number": np.arange(N)})).stream()


def _share(rows):
    return rows["share"]


def by_codes(data):
    shares = np.asarray(data.take(np.arange(N))["share"])
    codes = np.asarray(encoded(shares))
    tickets = TICKETS[codes]
    return codes, tickets


def plan_of(kind, data):
    """Return a plan and the tickets of its rows."""
    codes, tickets = by_codes(data)
    ends = np.minimum(np.arange(1, data.num_blocks + 1) * data.block_length, N)
    totals = np.diff(np.append(0, np.cumsum(tickets)[ends - 1]))
    nothing = Drawn(data.sample, None)
    if kind == "codes":
        return WeightedBlocks(totals, codes, nothing), tickets
    changed, score = np.array([3, 1_000]), np.array([50.0, 0.0])
    scores = BlockScores(_share, False, 1.0, changed, score)
    shares = np.array(data.take(np.arange(N))["share"], np.float64)
    shares[changed] = score
    return WeightedBlocks(totals, scores, nothing), tickets_of(shares)


@pytest.mark.parametrize("kind", ["codes", "computed again"])
def test_frequencies_and_weights(kind, data):
    """Pearson's statistic over N rows: chi-square with N - 1 degrees of freedom, 5 sd allowed (one in 10^6).

    Blocks are drawn by the totals of the codes, and rows in a block by their tickets, also where these differ.
    """
    plan, tickets = plan_of(kind, data)
    drawn = plan.found(data, np.asarray(words(jax.random.key(1), DRAWS)))
    number = np.asarray(drawn.rows["number"])
    block = np.arange(N) // data.block_length
    in_block = np.bincount(block, tickets)
    p = plan.totals[block] / plan.totals.sum() * tickets / in_block[block]
    counts = np.bincount(number, minlength=N)
    statistic = np.sum((counts - DRAWS * p) ** 2 / (DRAWS * p))
    assert abs(statistic - (N - 1)) < 5 * np.sqrt(2 * (N - 1))
    assert np.allclose(drawn.weights * p[number] * N, 1, rtol=1e-5)


def test_the_largest_share_is_drawn_most(data):
    plan, _ = plan_of("codes", data)
    drawn = plan.found(data, np.asarray(words(jax.random.key(2), 20_000)))
    assert np.argmax(np.bincount(np.asarray(drawn.rows["number"]))) == 7


def test_codes_are_within_five_per_cent():
    shares = np.exp(np.random.default_rng(1).uniform(np.log(2.0**-7.9), np.log(2.0**23), 10_000))
    coded = SHARES[np.asarray(encoded(shares))]
    assert np.abs(coded / shares - 1).max() < 0.045
    assert np.asarray(encoded(np.array([0.0, 1e30], np.float32))).tolist() == [0, 255]


@pytest.mark.slow
def test_rows_beyond_32_bits_are_found(monkeypatch):
    """Numbers of rows do not fit into 32 bits: each row found must carry its own number, also from the last block."""
    monkeypatch.setattr(stream, "_HELD", 0)
    monkeypatch.setattr(stream, "_BLOCK", 2**12)
    monkeypatch.setattr(stream, "_BLOCK_ON_DEVICE", 2**12)
    source = iso.data.generated(lambda number: {"number": number, "share": 1.0 + number[1] % 3}, 2**33)
    sample = source.take(np.arange(4096))
    length = stream.block_length_of(source)
    data = stream.Stream(source, "", _dtypes(source), length, sample, np.arange(4096), "")
    totals = np.ones(data.num_blocks)
    totals[-1] = 0.5 * data.num_blocks
    scores = BlockScores(_share, False, 1.0, np.zeros(0, np.int64), np.zeros(0))
    plan = WeightedBlocks(totals, scores, Drawn(sample, None))
    drawn = plan.found(data, np.asarray(words(jax.random.key(3), 100)))
    high, low = np.asarray(drawn.rows["number"], np.int64).T
    number = (high << 32) + low
    assert (number >= 2**33 - length).sum() > 10
    assert number.max() < 2**33
    shares = 1.0 + low % 3
    assert np.array_equal(np.asarray(drawn.rows["share"]), shares.astype(np.float32))
    block = number // length
    expected = _sum_of_tickets(data, block) * totals.sum() / (2**33 * totals[block] * tickets_of(shares))
    assert np.allclose(drawn.weights, expected, rtol=1e-5)


def _dtypes(source):
    return tuple(np.dtype(x.dtype) for x in jax.tree.leaves(source.row))


def _sum_of_tickets(data, blocks):
    """Return the tickets of all rows of each block."""
    each = {
        b: tickets_of(np.asarray(data.block(int(b))["share"], np.float64)).sum() for b in np.unique(blocks)
    }
    return np.array([each[b] for b in blocks])
