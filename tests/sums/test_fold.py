"""Sums over blocks of rows: each row is counted once, whatever the number of rows and the length of a block."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.sums import fold as engine
from isotherm.sums.compensated import Sum
from isotherm.sums.fold import Part, each, fold

BLOCK = 8
LENGTHS = (1, 2, 7, 8, 9, 16, 61)  # less than a block, whole blocks, and blocks that overlap

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Blocks of 8 rows."""
    monkeypatch.setattr(engine, "_NUMBERS", {"cpu": (1, 1)})
    monkeypatch.setattr(engine, "_FEWEST_ROWS", BLOCK)


def rows_of(num_rows):
    """Return rows of integers, whose sums float32 holds exactly, and the row numbers."""
    rng = np.random.default_rng(num_rows)
    return {
        "x": jnp.asarray(rng.integers(-9, 9, size=(num_rows, 3)), jnp.float32),
        "i": jnp.arange(num_rows, dtype=jnp.int32),
    }


def moments(rows, valid, factor):
    """Return what a block adds to the count, to the sum and to the second moment of x."""
    x = jnp.where(valid[:, None], rows["x"], 0)
    return {"count": jnp.sum(valid, dtype=jnp.float32), "sum": factor * jnp.sum(x, axis=0), "square": x.T @ x}


def seen(rows, valid, counts):
    """Return how often a block contains each row."""
    return counts.at[rows["i"]].add(jnp.where(valid, 1.0, 0.0))


@pytest.mark.parametrize("num_rows", LENGTHS)
def test_sums_are_those_of_numpy(num_rows):
    rows = rows_of(num_rows)
    total = fold(moments, rows, jnp.asarray(2.0))
    x = np.asarray(rows["x"], np.float64)
    assert total["count"] == num_rows
    np.testing.assert_array_equal(total["sum"], 2 * x.sum(axis=0))
    np.testing.assert_array_equal(total["square"], x.T @ x)
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(total))


@pytest.mark.parametrize("num_rows", LENGTHS)
def test_all_rows_are_seen_once(num_rows):
    counts = fold(seen, rows_of(num_rows), jnp.zeros(num_rows))
    np.testing.assert_array_equal(counts, 1)


@pytest.mark.parametrize("ends", [(61,), (1, 61), (5, 8, 30, 61), tuple(range(10, 62, 3))])
def test_parts_cover_each_row_once(ends):
    """One compiled program serves parts of any size; the parts are in no order of the rows."""
    rows, key = rows_of(61), jax.random.key(3)
    begins = (0, *ends[:-1])
    parts = [Part(key, end, begin) for begin, end in zip(begins, ends, strict=True)]
    counts = [fold(seen, rows, jnp.zeros(61), part=part) for part in parts]
    assert [c.sum() for c in counts] == [part.count for part in parts]
    np.testing.assert_array_equal(sum(counts), 1)
    x = np.asarray(rows["x"], np.float64)
    totals = [fold(moments, rows, jnp.asarray(1.0), part=part) for part in parts]
    np.testing.assert_array_equal(sum(t["sum"] for t in totals), x.sum(axis=0))


def test_parts_are_random_rows():
    """A part of 30 of 61 rows is another one for another key, and not the leading rows."""
    rows = rows_of(61)
    first, again, other = (
        fold(seen, rows, jnp.zeros(61), part=Part(jax.random.key(i), 30)) for i in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert 5 < first[:30].sum() < 25  # hypergeometric, 14.8 ± 1.95: five standard deviations


def test_a_part_of_the_rows_grows_into_all_of_them():
    rows, key = rows_of(61), jax.random.key(4)
    counts = [fold(seen, rows, jnp.zeros(61), part=Part(key, end)) for end in (10, 40, 61)]
    assert (counts[0] <= counts[1]).all()
    np.testing.assert_array_equal(counts[2], 1)


@pytest.mark.parametrize("num_rows", LENGTHS)
def test_values_of_rows_are_in_the_order_of_the_rows(num_rows):
    rows = rows_of(num_rows)
    out = each(lambda rows, a: {"i": rows["i"], "x": a * rows["x"]}, rows, jnp.asarray(2.0))
    np.testing.assert_array_equal(out["i"], np.arange(num_rows))
    np.testing.assert_array_equal(out["x"], 2 * np.asarray(rows["x"]))


@pytest.mark.parametrize("num_rows", LENGTHS)
def test_blocks_of_a_given_length_and_a_program_that_is_optimised(num_rows):
    rows, length = rows_of(num_rows), min(num_rows, 5)
    lengths = []

    def index(rows):
        lengths.append(len(rows["i"]))
        return rows["i"]

    out = each(index, rows, block_length=length, work=2**30)
    np.testing.assert_array_equal(out, np.arange(num_rows))
    assert set(lengths) == {length}


def test_the_length_of_a_block_follows_from_the_numbers_in_it(monkeypatch):
    length = lambda num_rows, numbers: engine._block_length({"x": np.zeros((num_rows, 3))}, numbers)
    assert length(5, 1) == 5
    assert length(100, 1) == BLOCK
    monkeypatch.setattr(engine, "_NUMBERS", {"cpu": (120, 120)})
    assert length(100, 1) == 40
    assert length(100, 6) == 20
    monkeypatch.setattr(engine, "_MOST_NUMBERS", 50)
    assert length(100, 25) == 4  # of 120 numbers, since two rows have 50
    assert length(100, 1000) == 1


def test_a_million_terms_in_single_precision():
    """Terms of 0.1 after one of 10^6, where numbers are 1/16 apart: a plain sum adds 0.125 for each of them.

    The relative error of a compensated sum of n terms is n u^2, with u = 2^-24 the rounding of float32.
    """
    terms = np.full(10**6, 0.1, np.float32)
    terms[0] = 1e6
    exact = terms.astype(np.float64).sum()

    @jax.jit
    def add(terms):
        plain = jax.lax.fori_loop(0, len(terms), lambda i, s: s + terms[i], jnp.zeros(()))
        kept = jax.lax.fori_loop(0, len(terms), lambda i, s: s.add(terms[i]), Sum.zero(jnp.zeros(())))
        return plain, kept

    plain, kept = add(jnp.asarray(terms))
    assert abs(float(plain) / exact - 1) > 1e-3
    assert abs(float(kept.result()) / exact - 1) < len(terms) * 2.0**-48
