"""What one pass over a stream finds out about its rows, beside the same measured in memory."""

import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.data import stream
from isotherm.data.opening import opened
from isotherm.data.rows import as_rows
from isotherm.data.weighted_blocks import BlockScores
from isotherm.tuning import streamed_rows
from isotherm.tuning.streamed_rows import streamed_rows as measured
from isotherm.tuning.tickets import RowsInMemory

N = 30_011


def roots(rows):
    """Return numbers by order that need no model: 1, `a` and `b`, of which `b` is rarely large."""
    return jnp.ones_like(rows["a"]), rows["a"], rows["b"]


@pytest.fixture
def both(monkeypatch):
    monkeypatch.setattr(stream, "_HELD", 0)
    monkeypatch.setattr(stream, "_SAMPLE", 10_000)
    monkeypatch.setattr(stream, "_BLOCK", 6_000)
    rng = np.random.default_rng(0)
    a = np.exp(rng.normal(size=N)).astype(np.float32)
    b = np.where(rng.random(N) < 0.001, 50.0, 0.1).astype(np.float32) * a
    data = {"a": a, "b": b}
    rows = as_rows(data)[0]
    in_memory = RowsInMemory(rows, tuple(roots(rows)), 5, 1.0)
    return in_memory, lambda: measured(opened(iso.data.arrays(data)).stream(), roots, 5)


def test_noise_is_that_in_memory(both):
    """Codes are off by up to 4.5 %, their squares by 9 % at most and far less on average."""
    in_memory, stream_of = both
    for there, here in zip(in_memory.noise(), stream_of().noise(), strict=True):
        assert np.allclose(here, there, rtol=0.03)


@pytest.mark.parametrize("order", [1, 2])
def test_rows_that_vary_most_are_found_in_every_block(both, order):
    in_memory, stream_of = both
    there, here = in_memory.representatives(order), stream_of().representatives(order)
    top, expected = here.index[: here.num_top], there.index[: there.num_top]
    assert here.num_top == there.num_top == N // 8
    least = np.asarray(in_memory.roots[order])[expected].min()
    # Codes are 9 % apart: a row among the top is at most that much below the least of them.
    assert np.asarray(in_memory.roots[order])[top].min() > least / 1.1
    assert np.array_equal(np.asarray(here.rows["a"]), np.asarray(in_memory.data["a"])[here.index])
    assert here.copies.sum() == pytest.approx(N)
    assert len(np.unique(here.index)) == len(here.index)


@pytest.mark.parametrize("kept", [True, False])
def test_rows_measured_again_change_codes_and_totals(both, monkeypatch, kept):
    monkeypatch.setattr(streamed_rows, "_MOST_CODES", N if kept else 0)
    rows = both[1]()
    top = rows.tops[2].index
    again = rows.replaced(2, top, np.full(len(top), 1e3), 0.5)
    assert again.passes == 1.5
    assert rows.counts.sum() == again.counts.sum()
    before, after = rows.plan(2), again.plan(2)
    blocks = np.unique(top // rows.data.block_length)
    assert np.all(after.totals[blocks] > before.totals[blocks])
    assert isinstance(after.scores, np.ndarray) is kept
    if kept:
        assert after.totals.sum() == pytest.approx(streamed_rows.TICKETS[after.scores].sum())
        assert len(set(after.scores[top].tolist())) == 1
    else:
        assert isinstance(after.scores, BlockScores)
        assert np.array_equal(after.scores.changed, top)


@pytest.mark.parametrize("order", [1, 2])
def test_the_pool_stands_for_all_rows(both, order):
    """The weighted mean over the pool of `a` is that over all rows, to 5 standard errors: one in 10^6.

    The pool is drawn from the top rows and the sample: the error of both counts.
    """
    in_memory, stream_of = both
    plan = stream_of().plan(order)
    a, weights = np.asarray(plan.pool.rows["a"], np.float64), np.asarray(plan.pool.weights, np.float64)
    everything = np.asarray(in_memory.data["a"], np.float64)
    pool_error = (weights * a).std() / np.sqrt(len(a))
    sample_error = everything.std() / np.sqrt(len(stream_of().data.sample_index))
    assert abs(np.mean(weights * a) - everything.mean()) < 5 * np.hypot(pool_error, sample_error)
    assert np.mean(weights) == pytest.approx(1, abs=5 * weights.std() / np.sqrt(len(weights)))


def test_rows_without_any_noise_are_drawn_equally(both, monkeypatch):
    def silent(rows):
        return tuple(jnp.zeros_like(rows["a"]) for _ in range(3))

    source = iso.data.arrays({"a": np.ones(N, np.float32)})
    plan = measured(opened(source).stream(), silent, 5).plan(2)
    assert len(np.unique(plan.scores)) == 1
    assert np.allclose(np.asarray(plan.pool.weights), 1, rtol=1e-6)
