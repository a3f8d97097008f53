"""Reading tables: every format gives the same columns, and what is refused."""

import gzip
import hashlib
import sys

import numpy as np
import pandas as pd
import pytest

from isotherm.tables.reader import read_table

FRAME = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, -1.5, 2.0], "c": ["x", "y", "x"], "d": [True, False, True]})


def write(path):
    if path.suffix == ".parquet":
        FRAME.to_parquet(path)
    elif path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(FRAME.to_csv(index=False).encode()))
    else:
        FRAME.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "T.CSV", "t.parquet"])
def test_every_kind_of_file_has_the_same_columns(name, tmp_path):
    path = write(tmp_path / name)
    table = read_table(path)
    assert list(table.columns) == ["a", "b", "c", "d"]
    assert table.columns["a"].tolist() == [1, 2, 3]
    assert table.columns["b"].tolist() == [0.5, -1.5, 2.0]
    assert table.columns["c"].tolist() == ["x", "y", "x"]
    assert table.columns["d"].tolist() == [1, 0, 1]
    described = table.describe()
    assert (described["file"], described["rows"], described["columns"]) == (name, 3, 4)
    if path.suffix != ".parquet":  # those are identified by their footers
        assert described["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_arrays_are_taken_as_they_are(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.ones((3, 2)), y=np.arange(3))
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    np.save(tmp_path / "named.npy", np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]))
    assert {k: v.shape for k, v in read_table(tmp_path / "t.npz").columns.items()} == {"x": (3, 2), "y": (3,)}
    assert read_table(tmp_path / "x.npy").columns["x"].shape == (3, 2)
    assert read_table(tmp_path / "named.npy").columns["b"].tolist() == [2.0]


def test_missing_values_are_kept(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n,\n3,y\n")
    columns = read_table(tmp_path / "t.csv").columns
    assert np.isnan(columns["a"][1])
    assert columns["b"].tolist() == ["x", None, "y"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "a,a\n1,2\n", "give every column a different name; got a, a"),
        ("t.csv", "a,\n1,2\n", "must give every column a different name"),
        ("t.csv", "", "cannot be read"),
        ("t.csv", "a,b\n", "a table with at least one row"),
        ("t.csv", "a,b\n1,2\n1,2,3\n", "cannot be read"),
        ("t.xlsx", "a", r"a file that ends in \.csv"),
        ("t.npy", "hello", "cannot be read"),
        ("t.parquet", "hello", "t.parquet is not a Parquet file, or is truncated or damaged"),
    ],
)
def test_files_that_are_not_tables_are_refused(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name)


def test_objects_are_not_unpickled(tmp_path):
    np.save(tmp_path / "t.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot be read"):
        read_table(tmp_path / "t.npy")


def test_parquet_without_its_extra_names_it(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"isotherm\[parquet\]"):
        read_table(path)


def test_a_line_with_more_fields_than_names_is_refused(tmp_path):
    """pandas would take the first column as row names and shift the others. An empty last field is not a column."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n1,2,3,\n4,5,6,\n")
    assert {name: x.tolist() for name, x in read_table(path).columns.items()} == {
        "a": [1, 4],
        "b": [2, 5],
        "c": [3, 6],
    }
    path.write_text("a,b,c\n1,2,3,9\n4,5,6,8\n")
    with pytest.raises(ValueError, match="every line must have as many fields as the first, 3"):
        read_table(path)


def test_names_that_look_like_missing_values_and_booleans(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("y,NA,K\ntrue,1,2\nfalse,3,4\n")
    table = read_table(path)
    assert list(table.columns) == ["y", "NA", "K"]
    assert table.columns["y"].tolist() == [True, False]
