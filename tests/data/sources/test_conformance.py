"""Every kind of source gives the same rows, bit for bit, in blocks of any length from any row on."""

import jax
import numpy as np
import pytest

from isotherm.data import Source
from isotherm.data.sources.base import check_index, check_unchanged, row_of
from support.sources import SOURCES, Minimal, N, rows

CHECKED = sorted(set(SOURCES) - {"three methods"})


@pytest.fixture(params=SOURCES)
def source(request, tmp_path):
    return SOURCES[request.param](tmp_path)


def equal(found, expected):
    """Return whether structure, dtypes and bits agree."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))
    return all(
        x.dtype == y.dtype and x.dtype.isnative and np.array_equal(np.asarray(x), np.asarray(y))
        for x, y in pairs
    )


def test_number_and_form_of_the_rows(source):
    assert source.num_rows == N
    assert source.row == row_of(rows())
    assert jax.tree.leaves(source) == [source]


@pytest.mark.parametrize(
    ("length", "begin", "end"),
    [(1, 7, 12), (97, 0, None), (250, 1199, 1203), (1000, 130, 2400), (N, 0, N), (4000, N - 1, None)],
)
def test_blocks_are_the_rows_in_order(source, length, begin, end):
    stop, count = N if end is None else end, 0
    for i, block in zip(range(begin, stop, length), source.blocks(length, begin, end), strict=True):
        assert equal(block, jax.tree.map(lambda x, i=i: x[i : min(i + length, stop)], rows()))
        count += 1
    assert count == -(-(stop - begin) // length)


def test_an_empty_interval_has_no_blocks(source):
    assert list(source.blocks(10, 5, 5)) == []


@pytest.mark.parametrize("count", [0, 1, 50, N])
def test_take_returns_the_rows_at_an_index(source, count):
    index = np.sort(np.random.default_rng(count).permutation(N)[:count])
    expected = jax.tree.map(lambda x: x[index], rows())
    assert equal(source.take(index), expected)
    assert equal(Source.take(source, index), expected)


def test_a_pass_may_be_left_and_begun_again(source):
    first = next(passed := source.blocks(100))
    passed.close()
    assert equal(next(source.blocks(100)), first)


def test_nothing_has_changed(source):
    check_unchanged(source, source.state())


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [((0,), "`length`"), ((5, -1), "`begin`"), ((5, 0, N + 1), "rows 0 to 2503"), ((5, 3, 2), "rows 0 to")],
)
def test_intervals_outside_the_rows_are_refused(name, tmp_path, arguments, words):
    with pytest.raises(ValueError, match=words):
        SOURCES[name](tmp_path).blocks(*arguments)


@pytest.mark.parametrize("index", [[3, 2], [2, 2], [-1, 4], [N]])
def test_indices_that_are_not_sorted_rows_are_refused(source, index):
    with pytest.raises(ValueError, match="`index` must be"):
        source.take(np.array(index))


@pytest.mark.parametrize("index", [[[1]], [0.5]])
def test_an_index_is_a_vector_of_integers(index):
    with pytest.raises(ValueError, match="`index` must be a vector of row numbers"):
        check_index(Minimal(), np.array(index))
