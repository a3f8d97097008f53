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


def test_a_source_that_yields_fewer_rows_than_it_says_is_refused(small):
    class Short(iso.data.Source):
        num_rows = N
        row = jax.ShapeDtypeStruct((), np.float32)

        def blocks(self, length, begin=0, end=None):
            yield np.zeros(100, np.float32)

    with pytest.raises(ValueError, match=f"`data` must yield {N} rows, its `num_rows`; it yielded 100"):
        opened(Short())


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
