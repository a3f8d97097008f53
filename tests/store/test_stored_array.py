"""Draws on the disk are indexed as NumPy arrays are, and read in pieces."""

import dataclasses

import numpy as np
import pytest

from isotherm.draws import elements
from isotherm.draws.elements import elements_of
from isotherm.errors import DamagedFileError
from isotherm.store.draws_writer import DrawsWriter
from isotherm.store.stored_array import StoredArray
from isotherm.store.zarr_layout import StoredLeaf, ZarrLayout
from support.made import made

CHAINS, DRAWS, CHUNK = 3, 23, 5
INDICES = [
    np.s_[...],
    np.s_[1],
    np.s_[1:],
    np.s_[:, 4:17],
    np.s_[:, 7],
    np.s_[2, 22, 1],
    np.s_[..., 3],
    np.s_[0, ..., 2],
    np.s_[:, ::3],
    np.s_[:, ::-1],
    np.s_[:, 20:2:-4, 0],
    np.s_[:, 10:10],
    np.s_[:, -4:],
    np.s_[:, [3, 21, 3, -1]],
    np.s_[:, np.asarray([[1, 20], [7, 7]]), 1:3],
    np.s_[[0, 2], :, 1],
    np.s_[[0, 2], [5, 22]],
    np.s_[np.asarray([True, False, True])],
    np.s_[:, np.arange(DRAWS) % 2 == 0],
    np.s_[:, :, :, [0, 3, 1]],
    np.s_[0, [1, 2], :, 1],
]


@pytest.fixture
def pair(tmp_path):
    """An array of draws in memory, and the same draws on the disk."""
    leaf = StoredLeaf("posterior", "w", (2, 4), "float32")
    layout = ZarrLayout(tmp_path, (leaf,), CHAINS, CHUNK)
    x = np.random.default_rng(0).normal(size=(CHAINS, DRAWS, 2, 4)).astype("float32")
    layout.describe(DRAWS)
    writer = DrawsWriter(layout)
    writer.add([x.swapaxes(0, 1)], DRAWS)
    return x, StoredArray(layout, leaf, DRAWS, writer.flush())


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices_are_those_of_numpy(index, pair):
    x, stored = pair
    got, expected = stored[index], x[index]
    assert got.shape == expected.shape
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("index", [np.s_[5], np.s_[:, 99], np.s_[0, 0, 0, 0, 0], np.s_[..., ...]], ids=str)
def test_what_numpy_refuses_is_refused(index, pair):
    x, stored = pair
    with pytest.raises(IndexError):
        x[index]
    with pytest.raises(IndexError):
        stored[index]


@pytest.mark.parametrize(
    "index", [None, True, np.ones((CHAINS, DRAWS), bool)], ids=["new axis", "bool", "mask"]
)
def test_indices_without_an_axis_of_their_own_are_refused(index, pair):
    with pytest.raises(TypeError, match="an index for each axis"):
        pair[1][index]


@pytest.mark.parametrize("at_once", [1, 200, 2**27])
def test_elements_come_one_by_one_whatever_is_read_at_once(at_once, pair, monkeypatch):
    x, stored = pair
    monkeypatch.setattr(elements, "_AT_ONCE", at_once)
    flat = x.reshape(CHAINS, DRAWS, 8)
    for one in (x, stored):
        found = list(elements_of(one))
        assert len(found) == 8
        assert all(np.array_equal(element, flat[:, :, i]) for i, element in enumerate(found))


def test_every_read_is_checked(pair):
    _, stored = pair
    path = stored.layout.chunk_path(stored.leaf, 2)
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    assert stored[:, :10].shape[1] == 10
    for read in (lambda: stored[:, 9:11], lambda: stored[0, 12], lambda: list(elements_of(stored))):
        with pytest.raises(DamagedFileError, match="checksum"):
            read()


@pytest.mark.slow  # where types are not checked: draws are annotated as arrays
def test_exports_read_draws_from_the_disk(pair):
    x, stored = pair
    draws = made({"w": x}, (True,) * CHAINS)
    on_disk = dataclasses.replace(draws, posterior={"w": stored})
    assert isinstance(on_disk["w"], np.ndarray)
    assert np.array_equal(on_disk["w"], x)
    assert np.array_equal(on_disk["w[1, 2]"], x[:, :, 1, 2])
    assert on_disk.to_pandas().equals(draws.to_pandas())
    assert on_disk._repr_html_() == draws._repr_html_()
    assert np.array_equal(on_disk.to_arviz()["posterior"]["w"], x)
