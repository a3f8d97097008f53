"""Streams: what is read of a source, in which order, and what is noticed on the way."""

import jax
import numpy as np
import pytest

import isotherm as iso
from isotherm.data import stream
from isotherm.data.opening import Opened, brought, opened
from isotherm.data.stream import read_ahead

N = 20_011


@pytest.fixture
def small(monkeypatch):
    """Make sources of a few thousand rows too large to be held, with a sample of 5,000 rows and many blocks."""
    monkeypatch.setattr(stream, "_HELD", 0)
    monkeypatch.setattr(stream, "_SAMPLE", 10_000)
    monkeypatch.setattr(stream, "_BLOCK", 3_000)


def rows():
    number = np.arange(N, dtype=np.float32)
    return {"number": number, "twice": 2 * number}


def test_blocks_hold_every_row_once_in_order(small):
    data = opened(iso.data.arrays(rows())).stream()
    blocks = list(data.blocks())
    assert len(blocks) == data.num_blocks > 10
    assert np.array_equal(np.concatenate([block["number"] for block in blocks]), rows()["number"])
    assert np.array_equal(data.block(3)["twice"], blocks[3]["twice"])


def test_the_sample_is_random_and_holds_the_rows_it_names(small):
    """The mean of 5,000 of N numbers in order has a standard error of N / sqrt(12 m); 5 of them: one in 10^6."""
    data = opened(iso.data.arrays(rows())).stream()
    index, m = data.sample_index, len(data.sample_index)
    assert m == 5_000
    assert len(np.unique(index)) == m
    assert np.array_equal(np.asarray(data.sample["number"]), index.astype(np.float32))
    for part in (index, index[: m // 10]):  # its beginning is a random sample too
        assert abs(part.mean() - N / 2) < 5 * N / np.sqrt(12 * len(part))


def test_rows_are_taken_in_any_order_and_more_than_once(small):
    data = opened(iso.data.arrays(rows())).stream()
    index = np.array([17, N - 1, 17, 0])
    assert np.array_equal(data.take(index)["number"], index)


def test_few_rows_are_read_into_memory():
    held = brought(iso.data.arrays(rows()))
    assert not isinstance(held, Opened)
    assert np.array_equal(held["number"], rows()["number"])


def test_memory_maps_are_sources(small, tmp_path):
    np.save(tmp_path / "rows.npy", rows()["number"])
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert isinstance(brought({"x": mapped}), Opened)
    assert not isinstance(brought({"x": np.asarray(rows()["number"])}), Opened)


def test_float64_rows_are_narrowed_as_jax_does(small):
    data = opened(iso.data.arrays({"x": rows()["number"].astype(np.float64)})).stream()
    assert data.sample["x"].dtype == np.float32
    assert next(data.blocks())["x"].dtype == np.float32
    with jax.enable_x64(True):
        wide = opened(iso.data.arrays({"x": rows()["number"].astype(np.float64)})).stream()
        assert next(wide.blocks())["x"].dtype == np.float64


def test_nan_is_refused_with_its_row(small):
    bad = rows()
    bad["twice"][15_003] = np.nan
    with pytest.raises(ValueError, match=r"`data.twice` must not contain NaN; row 15003 does"):
        opened(iso.data.arrays(bad))


def test_rows_with_infinite_values_are_counted(small):
    bad = rows()
    bad["number"][[5, 19_000]] = np.inf
    (found,) = opened(iso.data.arrays(bad)).infinite
    assert found.label == "data.number"
    assert found.count == 2
    assert found.index.tolist() == [5, 19_000]


def test_a_change_between_two_passes_is_noticed(small, tmp_path):
    np.save(tmp_path / "rows.npy", rows()["number"])
    data = opened(iso.data.npy(tmp_path / "rows.npy")).stream()
    np.save(tmp_path / "rows.npy", rows()["number"] + 1)
    with pytest.raises(ValueError, match=r"rows.npy has changed since its rows were first read"):
        next(data.blocks())


class _Wrong(iso.data.Source):
    """A source of N numbers that yields something else."""

    num_rows = N
    row = property(lambda self: {"x": jax.ShapeDtypeStruct((), np.float32)})

    def __init__(self, of_block, most=None):
        self.of_block, self.most = of_block, most

    def blocks(self, length, begin=0, end=None):
        for i in list(range(begin, N if end is None else end, length))[: self.most]:
            yield self.of_block(np.arange(i, min(i + length, N if end is None else end), dtype=np.float32))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (_Wrong(lambda x: {"x": x}, most=3), r"must yield all rows up to 20011; it ended before row 8448"),
        (
            _Wrong(lambda x: {"x": x[:100]}),
            r"must yield 2816 rows of shape \(\) from row 0 on; it yielded .*\(100,\)",
        ),
        (_Wrong(lambda x: {"x": x[:, None]}), r"it yielded an array of shape \(2816, 1\)"),
        (_Wrong(lambda x: {"y": x}), r"must yield arrays as `row` describes them"),
        (
            _Wrong(lambda x: {"x": np.ma.masked_less(x, 5)}),
            r"`data` must not have masked entries; row 0 does",
        ),
    ],
    ids=["too few blocks", "short blocks", "another shape", "another name", "a mask"],
)
def test_blocks_that_are_not_what_the_source_says_are_refused(small, source, words):
    with pytest.raises(ValueError, match=words):
        opened(source)


def test_an_error_on_the_reading_thread_is_raised_where_rows_are_used():
    def broken():
        yield 1
        raise OSError("the disk is gone")

    items = read_ahead(broken())
    assert next(items) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)


def test_reading_ends_when_nobody_uses_the_rows_any_more():
    """The thread stops after the items that it has read ahead."""
    given = []

    def items():
        for i in range(1000):
            given.append(i)
            yield i

    ahead = read_ahead(items())
    assert next(ahead) == 0
    ahead.close()
    assert len(given) < 10
