"""Rows that are computed from their number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso

MATRIX = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)


def random_row(number):
    """Return a row whose bits depend on how many rows are computed together, unless care is taken."""
    z = jax.random.normal(jax.random.fold_in(jax.random.key(0), number), (16,))
    return {"x": MATRIX @ jnp.exp(z), "y": jnp.sin(z.sum())}


def joined(blocks):
    return jax.tree.map(lambda *xs: np.concatenate(xs), *blocks)


@pytest.mark.parametrize(("length", "begin"), [(7, 4970), (100, 3), (1024, 1024), (1500, 1), (4000, 999)])
def test_a_row_depends_on_its_number_alone(length, begin):
    source = iso.data.generated(random_row, 5000)
    everything, part = joined(source.blocks(5000)), joined(source.blocks(length, begin))
    for name in ("x", "y"):
        assert np.array_equal(part[name], everything[name][begin:])
        index = np.arange(begin, 5000, 3)
        assert np.array_equal(source.take(index)[name], everything[name][index])


def test_one_program_serves_all_blocks_of_a_length():
    traced = []

    def f(number):
        traced.append(number)
        return number

    source = iso.data.generated(f, 5000)
    before = len(traced)  # one trace finds out the form of a row
    for begin in (0, 1, 1023, 2500):
        assert int(next(source.blocks(700, begin))[0]) == begin
    assert sum(len(block) for block in source.blocks(700)) == 5000
    assert len(traced) == before + 1


@pytest.mark.parametrize("begin", [0, 2**31 - 2, 2**32 - 2, 2**40 - 5])
def test_large_numbers_have_two_words(begin):
    block = np.asarray(next(iso.data.generated(lambda words: words, 2**40).blocks(5, begin)))
    assert block.dtype == np.uint32
    high, low = block.astype(np.int64).T
    assert np.array_equal(high * 2**32 + low, begin + np.arange(5))


def test_the_last_of_the_numbers_of_one_word():
    source = iso.data.generated(lambda number: number, 2**31)
    assert np.array_equal(next(source.blocks(5, 2**31 - 3)), 2**31 - 3 + np.arange(3))


def test_rows_keep_their_dtype_in_x64_mode():
    source = iso.data.generated(lambda number: jnp.sqrt(number), 10)
    with jax.enable_x64(True):
        block, taken = next(source.blocks(10)), source.take(np.arange(10))
    assert block.dtype == taken.dtype == source.row.dtype == np.float32
    assert np.array_equal(block, next(source.blocks(10)))


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="`num_rows` must be an integer of at least 1; got 0"):
        iso.data.generated(random_row, 0)


def test_rows_without_numbers_are_refused():
    source = iso.data.generated(lambda i: {"y": 1.0 * i, "x": jnp.zeros(0)}, 100)
    posterior = iso.Posterior(lambda mean, row: -((row["y"] - mean) ** 2), lambda mean: -(mean**2))
    with pytest.raises(ValueError, match=r"`data\.x` must hold at least one number in each row"):
        iso.sample(posterior, source, jnp.zeros(()), num_draws=10)
