"""Data sets by name: where files are looked for, what is refused, and what is returned."""

import bz2
import dataclasses
import functools
import gzip
import hashlib
import http.server
import lzma
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import isotherm as iso
from isotherm import data
from isotherm.cli import main
from isotherm.data.sets import catalogue, fetch, formats, listing
from isotherm.data.sets import load as datasets
from isotherm.errors import DamagedFileError
from support.real_data import need

CONTENT = b"1 1:0.5 3:2\n3 2:-1\n" * 50
COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
NOWHERE = "http://127.0.0.1:9/some/file.gz"  # nothing listens there


def file_at(url=NOWHERE, name="some/file"):
    return catalogue.File(name, url, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def put(folder, name, content):
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Return an empty folder of the user and an empty cache."""
    folder, cached = tmp_path / "data", tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv(fetch.FOLDER, str(folder))
    monkeypatch.setattr(fetch, "cache", lambda: cached)
    return folder, cached


@pytest.fixture
def server(tmp_path):
    """Yield a folder that is served over HTTP, its address, and the paths that were requested."""
    served, requested = tmp_path / "served", []
    served.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            requested.append(self.path)

    handler = functools.partial(Quiet, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield served, f"http://127.0.0.1:{running.server_address[1]}", requested
        running.shutdown()


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("which", [0, 1], ids=["folder", "cache"])
def test_every_compression_is_read(folders, suffix, which):
    put(folders[which], "some/file" + suffix, COMPRESS[suffix](CONTENT))
    assert fetch.fetch(file_at()) == CONTENT


def test_the_users_folder_comes_before_the_cache(folders):
    copy = put(folders[0], "some/file.xz", lzma.compress(CONTENT))
    put(folders[1], "some/file", b"another")
    assert fetch.find(file_at()) == copy
    assert fetch.fetch(file_at()) == CONTENT


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_truncated_file_is_refused(folders, suffix):
    whole = COMPRESS[suffix](CONTENT)
    path = put(folders[0], "some/file" + suffix, whole[: len(whole) // 2])
    with pytest.raises(OSError, match=f"{path} (cannot be uncompressed|is not some/file)"):
        fetch.fetch(file_at())


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_damaged_file_is_refused(folders, suffix):
    """One byte in the middle of the file is changed."""
    damaged = bytearray(COMPRESS[suffix](CONTENT))
    damaged[len(damaged) // 2] ^= 0xFF
    put(folders[0], "some/file" + suffix, bytes(damaged))
    with pytest.raises(OSError, match=r"(cannot be uncompressed|is not some/file)"):
        fetch.fetch(file_at())


@pytest.mark.parametrize("suffix", COMPRESS)
def test_an_altered_file_is_refused(folders, suffix):
    put(folders[0], "some/file" + suffix, COMPRESS[suffix](CONTENT.replace(b"0.5", b"0.6")))
    with pytest.raises(OSError, match=r"is not some/file as it was published: it has 950 bytes .* Delete it"):
        fetch.fetch(file_at())


def test_absent_and_offline(folders):
    """The message names the file, its size, where it comes from and where to put it."""
    with pytest.raises(OSError, match="could not be downloaded") as caught:
        fetch.fetch(file_at())
    for part in ("some/file", "950 bytes", NOWHERE, str(folders[0] / "some/file"), fetch.FOLDER):
        assert part in str(caught.value)


def test_a_download_is_checked_and_kept(folders, server):
    served, address, requested = server
    put(served, "file.gz", gzip.compress(CONTENT))
    file = file_at(f"{address}/file.gz")
    assert fetch.fetch(file) == CONTENT
    assert fetch.fetch(file) == CONTENT
    assert requested == ["/file.gz"]
    assert fetch.find(file) == folders[1] / "some/file.gz"


def test_a_bad_download_is_refused_and_leaves_nothing(folders, server):
    served, address, _ = server
    put(served, "file.gz", gzip.compress(b"a page that says that the file has moved"))
    file = file_at(f"{address}/file.gz")
    with pytest.raises(
        OSError, match=r"refused and not kept: .* is not some/file as it was published"
    ) as caught:
        fetch.fetch(file)
    assert "Delete" not in str(caught.value)
    assert fetch.find(file) is None
    put(served, "file.gz", gzip.compress(CONTENT))
    assert fetch.fetch(file) == CONTENT


def test_the_folder_must_exist(folders, tmp_path, monkeypatch):
    put(tmp_path, "home/data/some/file", CONTENT)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(fetch.FOLDER, "~/data")
    assert fetch.fetch(file_at()) == CONTENT
    monkeypatch.setenv(fetch.FOLDER, "~/data/some/file")
    with pytest.raises(OSError, match="ISOTHERM_DATA_DIR must name a folder; got '~/data/some/file'"):
        fetch.fetch(file_at())


def test_a_file_that_cannot_be_read_is_not_called_damaged(folders, monkeypatch):
    put(folders[0], "some/file", CONTENT)

    def denied(path, limit):
        raise PermissionError(13, "denied")

    monkeypatch.setattr(fetch, "read_at_most", denied)
    with pytest.raises(PermissionError):
        fetch.fetch(file_at())


def test_an_unknown_name():
    with pytest.raises(ValueError, match=r"`name` must be one of 'mnist-7v9', .*; got 'iris'"):
        data.load("iris")


def test_idx():
    header = b"\0\0\x08\x02" + (2).to_bytes(4, "big") + (3).to_bytes(4, "big")
    np.testing.assert_array_equal(formats.idx(header + bytes(range(6))), [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(ValueError, match="must start with 00 00 08"):
        formats.idx(b"\x1f\x8b\x08\x00")


@pytest.mark.parametrize("name", ["letter", "acoustic", "a9a"])
def test_a_missing_extra_is_named_before_anything_is_fetched(name, folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)  # as if it were not installed
    monkeypatch.setattr(datasets, "fetch", lambda file: pytest.fail(f"{file.name} was fetched"))
    with pytest.raises(ImportError, match=r"pip install 'isotherm\[datasets\]'"):
        data.load(name)


def test_libsvm_text():
    """Indices start at 1, absent entries are 0, and the width is the one requested."""
    rows, labels = formats.libsvm(b"2 1:0.5 3:2\n-1 2:-1 # a remark\n1\n", 4)
    np.testing.assert_array_equal(rows, [[0.5, 0, 2, 0], [0, -1, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(labels, [2, -1, 1])
    assert rows.dtype == np.float32


def test_table_and_one_hot():
    rows = formats.table(b"a\tb\n0\t2\n1\t1\n", "\t")
    np.testing.assert_array_equal(rows, [[0, 2], [1, 1]])
    np.testing.assert_array_equal(formats.one_hot(rows, 3), [[1, 0, 0, 0, 0, 1], [0, 1, 0, 0, 1, 0]])


def test_acoustic_from_small_files_in_its_format(folders, monkeypatch):
    """The files are LIBSVM's text in bz2, with classes from 1. A file with too few rows is refused."""
    small = dataclasses.replace(catalogue.ENTRIES["acoustic"], train=100, test=2, features=3)
    monkeypatch.setitem(catalogue.ENTRIES, "acoustic", small)

    def put_vouched(name, content):
        put(folders[0], name, bz2.compress(content))
        put(folders[0], f"{name}.sha256", hashlib.sha256(content).hexdigest().encode())

    put_vouched("acoustic/acoustic.bz2", CONTENT)
    put(folders[0], "acoustic/acoustic.t.bz2", bz2.compress(CONTENT[:19]))
    with pytest.raises(DamagedFileError, match="cannot be checked, since no checksum"):
        data.load("acoustic")
    put_vouched("acoustic/acoustic.t.bz2", CONTENT[:19])
    loaded = data.load("acoustic")
    np.testing.assert_array_equal(loaded.x_train[:2], [[0.5, 0, 2], [0, -1, 0]])
    np.testing.assert_array_equal(loaded.y_test, [0, 2])
    assert "100 + 2 rows of 3, 3 classes" in repr(loaded)
    put_vouched("acoustic/acoustic.t.bz2", CONTENT[:12])
    with pytest.raises(OSError, match="must hold 2 rows of 3 features for testing; they hold 1 of 3"):
        data.load("acoustic")


def test_the_list(folders, capsys):
    put(folders[0], "a9a/a9a.xz", b"")
    assert main(["data"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in catalogue.ENTRIES)
    entry = catalogue.ENTRIES["a9a"]
    assert listing.where(entry) == "missing: 1 of 2 files, 1.2 MB uncompressed"
    put(folders[1], "a9a/a9a.t", b"")
    assert listing.where(entry) == f"{folders[1] / 'a9a'}, {folders[0] / 'a9a'}"


COUNTS = {  # rows of each class, for training and testing together
    "mnist-7v9": {-1: 5_949 + 1_009, 1: 6_265 + 1_028},
    "mnist": dict(enumerate([6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958])),
    "connect-4": {0: 6_449, 1: 16_635, 2: 44_473},
    "covertype": dict(enumerate([211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510])),
    "a9a": {-1: 24_720 + 12_435, 1: 7_841 + 3_846},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in catalogue.ENTRIES if n != "acoustic"])
def test_the_real_files(name):
    """Rows, features and classes are those that were published."""
    need(name)
    loaded, entry = data.load(name), catalogue.ENTRIES[name]
    assert loaded.x_train.shape == (entry.train, entry.features)
    assert loaded.x_test.shape == (entry.test, entry.features)
    assert loaded.x_train.dtype == np.float32
    assert loaded.train["y"].shape == (entry.train,)
    assert loaded.test["x"].shape[0] == entry.test
    labels, counts = np.unique(np.concatenate([loaded.y_train, loaded.y_test]), return_counts=True)
    assert len(labels) == entry.classes
    if name in COUNTS:
        assert dict(zip(labels.tolist(), counts.tolist(), strict=True)) == COUNTS[name]
    x = loaded.x_train
    if name.startswith("mnist"):
        assert (x.min(), x.max()) == (0, 1)
    if name == "connect-4":
        # One of three in each of 42 squares. Without a shuffle the shares of wins differ by a tenth.
        np.testing.assert_array_equal(x.reshape(len(x), 42, 3).sum(axis=2), 1)
        assert abs(np.mean(loaded.y_train == 2) - np.mean(loaded.y_test == 2)) < 0.02
    if name == "covertype":
        np.testing.assert_allclose(x[:, :10].mean(axis=0, dtype=np.float64), 0, atol=1e-5)
        np.testing.assert_allclose(x[:, :10].std(axis=0, dtype=np.float64), 1, atol=1e-5)
        np.testing.assert_array_equal(x[:, 10:14].sum(axis=1), 1)
    if name == "letter":
        assert np.abs(x).max() == 1


def test_every_data_set_has_a_reader():
    assert set(datasets._READERS) == set(catalogue.ENTRIES)
    assert iso.data.load is data.load
