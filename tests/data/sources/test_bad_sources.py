"""Files that cannot be sources of rows: each is refused with a sentence that names it."""

import datetime
import decimal
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
import zarr

import isotherm as iso
from isotherm.data.sources.base import check_unchanged

X = np.arange(12.0).reshape(4, 3)


def saved(folder, name="x.npy", array=X):
    np.save(folder / name, array, allow_pickle=array.dtype == object)
    return folder / name


def cut(path, part=0.5):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    return path


def text(path):
    path.write_text("a,b\n1,2\n" * 100)
    return path


def written(folder, columns, name="x.parquet"):
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def stored(folder, name="x.zarr", array=X):
    zarr.create_array(folder / name, data=array, chunks=(2, *array.shape[1:]))
    return folder / name


def npy_pair(folder):
    return iso.data.npy([saved(folder), saved(folder, "y.npy", X[:3])])


def with_columns(folder, columns):
    return iso.data.npy(saved(folder), columns=columns)


def two_files(folder):
    written(folder, {"a": [1.0]}, "0.parquet")
    written(folder, {"a": [1]}, "1.parquet")
    return iso.data.parquet(folder)


def in_partitions(folder):
    (folder / "year=2026").mkdir()
    written(folder, {"a": [1.0]}, "year=2026/0.parquet")
    return iso.data.parquet(folder)


def zarr_pair(folder):
    return iso.data.zarr({"x": stored(folder), "y": stored(folder, "y.zarr", X[:3])})


def broken_zarr(folder):
    path = stored(folder)
    (path / "zarr.json").write_text("{")
    return iso.data.zarr(path)


def column(folder, values, **options):
    return iso.data.parquet(written(folder, {"a": values}), **options)


TODAY = datetime.date(2026, 1, 1)
CASES = {
    "npy: missing": (lambda d: iso.data.npy(d / "no.npy"), FileNotFoundError, r"There is no file .*no\.npy\."),
    "npy: a folder": (lambda d: iso.data.npy(d), IsADirectoryError, "is a folder, and must be a file"),
    "npy: truncated": (lambda d: iso.data.npy(cut(saved(d), 0.9)), ValueError, r"x\.npy is truncated or damaged"),
    "npy: header only": (lambda d: iso.data.npy(cut(saved(d), 0.1)), ValueError, r"x\.npy is truncated or damaged"),
    "npy: empty file": (lambda d: iso.data.npy(cut(saved(d), 0)), ValueError, r"x\.npy is not an \.npy file"),
    "npy: other file": (lambda d: iso.data.npy(text(d / "x.npy")), ValueError, r"x\.npy is not an \.npy file"),
    "npy: objects": (lambda d: iso.data.npy(saved(d, array=X.astype(object))), ValueError, r"x\.npy holds Python obj"),
    "npy: text": (lambda d: iso.data.npy(saved(d, array=X.astype(str))), TypeError, r"x\.npy holds <U"),
    "npy: Fortran": (lambda d: iso.data.npy(saved(d, array=np.asfortranarray(X))), ValueError, "in Fortran order"),
    "npy: no rows": (lambda d: iso.data.npy(saved(d, array=X[:0])), ValueError, r"x\.npy has no rows or no columns"),
    "npy: a number": (lambda d: iso.data.npy(saved(d, array=np.array(1.0))), ValueError, "holds a single number"),
    "npy: lengths": (npy_pair, ValueError, r"x\.npy has 4, and .*y\.npy has 3"),
    "npy: no path": (lambda d: iso.data.npy(3), TypeError, "`paths` must be a path or a pytree of paths; got 3"),
    "npy: empty pytree": (lambda d: iso.data.npy({}), ValueError, "at least one array"),
    "npy: column": (lambda d: with_columns(d, {"y": 3}), ValueError, r"`columns\['y'\]` must be a number, list or sl"),
    "npy: columns": (lambda d: with_columns(d, {"y": []}), ValueError, r"`columns\['y'\]` must be"),
    "parquet: missing": (lambda d: iso.data.parquet(d / "no"), FileNotFoundError, "no file or folder .*no"),
    "parquet: empty folder": (lambda d: iso.data.parquet(d), FileNotFoundError, "has no files that end in .parquet"),
    "parquet: truncated": (lambda d: iso.data.parquet(cut(written(d, {"a": X[0]}))), ValueError, "x.parquet is not a"),
    "parquet: empty file": (lambda d: iso.data.parquet(cut(written(d, {"a": X[0]}), 0)), ValueError, "x.parquet is no"),
    "parquet: other file": (lambda d: iso.data.parquet(text(d / "x.parquet")), ValueError, "x.parquet is not a Parq"),
    "parquet: no rows": (lambda d: column(d, pa.array([], pa.int8())), ValueError, "x.parquet has no rows"),
    "parquet: text": (lambda d: column(d, ["u"]), TypeError, "Column 'a' of .*x.parquet holds string.*Encode"),
    "parquet: dates": (lambda d: column(d, [TODAY]), TypeError, "Column 'a' of .*holds date32.*days since a date"),
    "parquet: decimals": (lambda d: column(d, [decimal.Decimal("1.5")]), TypeError, "Column 'a'.*Convert it to float64"),
    "parquet: categories": (lambda d: column(d, pa.array(["u"]).dictionary_encode()), TypeError, "'a' .*as integers"),
    "parquet: lists": (lambda d: column(d, [[1, 2]]), TypeError, "Column 'a' .*holds list"),
    "parquet: no column": (lambda d: column(d, [1], columns={"x": "z"}), ValueError, "no column named 'z'; it has a"),
    "parquet: bad columns": (lambda d: column(d, [1], columns={"x": 3}), TypeError, "`columns` must be a pytree"),
    "parquet: no columns": (lambda d: column(d, [1], columns=[]), ValueError, "`columns` must be the names of at"),
    "parquet: schemas": (two_files, ValueError, r"'a' is double in .*0\.parquet, and int64 in .*1\.parquet"),
    "parquet: partitions": (in_partitions, ValueError, "a folder whose name holds a column"),
    "parquet: bad store": (lambda d: iso.data.parquet("nosuch://a/b"), ValueError, "nosuch://a/b cannot be located"),
    "parquet: bad system": (lambda d: iso.data.parquet("a", filesystem=3), TypeError, "`filesystem` must be a file"),
    "zarr: missing": (lambda d: iso.data.zarr(d / "no.zarr"), FileNotFoundError, r"There is no .*no\.zarr"),
    "zarr: not zarr": (lambda d: iso.data.zarr(str(d)), FileNotFoundError, "no Zarr array or group at"),
    "zarr: damaged": (broken_zarr, ValueError, r"x\.zarr is truncated or damaged"),
    "zarr: no rows": (lambda d: iso.data.zarr(stored(d, array=X[:0])), ValueError, r"x\.zarr has no rows"),
    "zarr: a number": (lambda d: iso.data.zarr(zarr.create_array(d / "x.zarr", data=np.array(1.0))), ValueError, "single"),
    "zarr: lengths": (zarr_pair, ValueError, r"x\.zarr has 4, and .*y\.zarr has 3"),
    "zarr: no path": (lambda d: iso.data.zarr({"x": 3}), TypeError, "`stores` must be a Zarr array or group"),
    "arrays: text": (lambda d: iso.data.arrays({"x": X.astype(str)}), TypeError, "`pytree.x` holds <U"),
    "arrays: lengths": (lambda d: iso.data.arrays([X, X[:3]]), ValueError, "has 4, and .* has 3"),
    "arrays: a number": (lambda d: iso.data.arrays(1.0), ValueError, "`pytree` must be an array with a leading axis"),
    "arrays: no rows": (lambda d: iso.data.arrays(X[:0]), ValueError, "`pytree` has no rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_sources_are_refused_by_name(case, tmp_path):
    make, error, words = CASES[case]
    with pytest.raises(error, match=words) as caught:
        make(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [iso.data.npy, iso.data.parquet, iso.data.zarr])
def test_files_without_permission_are_refused_by_name(make, tmp_path, monkeypatch):
    """The superuser may read everything, so the refusal of the system is simulated."""
    path = {"npy": saved, "zarr": stored}.get(make.__name__, lambda d: written(d, {"a": X[0]}))(tmp_path)
    refusal = PermissionError(13, "Permission denied")

    def refuse(*arguments, **options):
        raise refusal

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr(pq, "ParquetFile", refuse)
    monkeypatch.setattr(zarr, "open", refuse)
    with pytest.raises(PermissionError, match=rf"{path.name} may not be read by this user"):
        make(path)


def test_a_store_that_does_not_answer_is_named():
    def fail(self, paths):
        raise OSError("When getting information: network connection timed out")

    members = dict.fromkeys(pyarrow.fs.FileSystemHandler.__abstractmethods__, fail)
    handler = type("Unreachable", (pyarrow.fs.FileSystemHandler,), members)()
    with pytest.raises(OSError, match=r"bucket/rows.parquet cannot be reached \(.*timed out\)"):
        iso.data.parquet("bucket/rows.parquet", filesystem=pyarrow.fs.PyFileSystem(handler))


def test_nulls_are_refused_with_their_row_in_the_data_set(tmp_path):
    written(tmp_path, {"a": [1.0, 2.0]}, "0.parquet")
    written(tmp_path, {"a": [1.0, None, 3.0]}, "1.parquet")
    source = iso.data.parquet(tmp_path)
    words = "Column 'a' must not have nulls; row 3 of the data set does"
    with pytest.raises(ValueError, match=words):
        list(source.blocks(2))
    with pytest.raises(ValueError, match=words):
        source.take(np.array([0, 3]))
    assert source.take(np.array([0, 4]))["a"].tolist() == [1.0, 3.0]


def test_integers_that_a_matrix_cannot_hold_are_refused(tmp_path):
    path = written(tmp_path, {"a": [1, 2**53 + 1], "b": [0.5, 0.5], "c": pa.array([1, 2], pa.uint64())})
    with pytest.raises(ValueError, match=r"Column 'a' has an integer above 2\^53 in row 1"):
        list(iso.data.parquet(path, columns={"x": ["a", "b"]}).blocks(2))
    with pytest.raises(ValueError, match="of types that one integer type holds"):
        iso.data.parquet(path, columns={"x": ["a", "c"]})


def test_a_file_cut_short_during_a_pass_is_an_error(tmp_path):
    path = saved(tmp_path, array=np.zeros((1000, 3)))
    source = iso.data.npy(path)
    blocks = source.blocks(500)
    next(blocks)
    os.truncate(path, 15_000)
    with pytest.raises(ValueError, match=r"x\.npy has become shorter"):
        next(blocks)
    with pytest.raises(ValueError, match=r"x\.npy has become shorter"):
        source.take(np.array([1]))


def test_a_damaged_row_group_is_named(tmp_path):
    path = written(tmp_path, {"a": np.random.default_rng(0).normal(size=5000)})
    source, content = iso.data.parquet(path), bytearray(path.read_bytes())
    content[4:2000] = b"\xff" * 1996
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match=r"x\.parquet"):
        list(source.blocks(1000))


def test_a_damaged_chunk_is_named(tmp_path):
    path = stored(tmp_path)
    source = iso.data.zarr(path)
    cut(path / "c" / "1" / "0")
    with pytest.raises(ValueError, match=r"x\.zarr is truncated or damaged between rows 2 and 4"):
        list(source.blocks(2))


@pytest.mark.parametrize("make", [iso.data.npy, iso.data.parquet, iso.data.zarr])
def test_a_changed_file_is_noticed(make, tmp_path):
    path = {"npy": saved, "zarr": stored}.get(make.__name__, lambda d: written(d, {"a": X[0]}))(tmp_path)
    source = make(path)
    state = source.state()
    check_unchanged(source, state)
    inner = path / "c" / "0" / "0" if path.is_dir() else path
    status = inner.stat()
    assert stat.S_ISREG(status.st_mode)
    os.utime(inner, ns=(status.st_atime_ns, status.st_mtime_ns + 10**12))
    with pytest.raises(ValueError, match=rf"{path.name} has changed since its rows were first read"):
        check_unchanged(source, state)
