"""`isotherm data convert`: CSV to Parquet, streamed, in order or shuffled."""

import gzip

import numpy as np
import pyarrow.parquet as pq
import pytest

import isotherm as iso
from isotherm.cli import main
from isotherm.tables import convert

N = 3000


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks, row groups and buckets for a small file."""
    monkeypatch.setattr(convert, "_BLOCK_BYTES", 4096)
    monkeypatch.setattr(convert, "_GROUP_ROWS", 500)
    monkeypatch.setattr(convert, "_BUCKET_BYTES", 8192)


def write(path, lines, header="i,x,name"):
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def lines():
    return [f"{i},{i / 8},n{i % 3}" for i in range(N)]


def run(folder, *options):
    return main(["data", "convert", str(folder / "in.csv"), str(folder / "out.parquet"), *options])


@pytest.mark.usefixtures("small_blocks")
def test_rows_keep_their_order(tmp_path, capsys):
    write(tmp_path / "in.csv", lines())
    assert run(tmp_path) == 0
    assert capsys.readouterr().out.startswith("3,000 rows")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["i"].to_pylist() == list(range(N))
    assert table["x"].to_pylist() == [i / 8 for i in range(N)]
    assert table["name"].to_pylist() == [f"n{i % 3}" for i in range(N)]
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups > 3
    source = iso.data.parquet(tmp_path / "out.parquet", columns=["i", "x"])
    assert np.array_equal(next(source.blocks(N))["i"], np.arange(N))


@pytest.mark.usefixtures("small_blocks")
def test_shuffled_rows_are_a_permutation_that_the_seed_repeats(tmp_path):
    """Rows stay whole. The rank correlation of a uniform permutation has sd 1/sqrt(N - 1): 5 sd is 1 in 2 million."""
    write(tmp_path / "in.csv", lines())
    orders = []
    for seed in ("0", "0", "1"):
        assert run(tmp_path, "--shuffle", seed, "--force") == 0
        table = pq.read_table(tmp_path / "out.parquet")
        order = table["i"].to_numpy()
        assert np.array_equal(np.sort(order), np.arange(N))
        assert np.array_equal(table["x"].to_numpy(), order / 8)
        assert abs(np.corrcoef(order, np.arange(N))[0, 1]) < 5 / np.sqrt(N - 1)
        orders.append(order)
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.parquet"]


@pytest.mark.usefixtures("small_blocks")
def test_integers_become_floats_if_later_lines_need_it(tmp_path):
    write(tmp_path / "in.csv", [*lines(), "0.5,1e3,n0"])
    assert run(tmp_path) == 0
    found = pq.read_table(tmp_path / "out.parquet")["i"].to_pylist()
    assert found == [*map(float, range(N)), 0.5]


def test_tabs_and_compression(tmp_path):
    with gzip.open(tmp_path / "in.tsv.gz", "wt") as file:
        file.write("a\tb\n1\t2.5\n")
    assert main(["data", "convert", str(tmp_path / "in.tsv.gz"), str(tmp_path / "out.parquet")]) == 0
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [{"a": 1, "b": 2.5}]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("content", "header", "words"),
    [
        ([*lines(), "many,1,n0"], "i,x,name", "Column 'i' of {in} holds 'many' in line 3002"),
        ([*lines(), "1,few,n0"], "i,x,name", "Column 'x' of {in} holds 'few' in line 3002"),
        ([*lines(), "1,2"], "i,x,name", "Expected 3 columns, got 2"),
        (["1,2"], "a,a", "every column a different name"),
        ([], "a,b", "has no rows after its first line"),
    ],
)
def test_bad_files_are_refused_and_nothing_is_written(tmp_path, capsys, content, header, words):
    write(tmp_path / "in.csv", content, header)
    for options in ((), ("--shuffle", "0")):
        assert run(tmp_path, *options) == 2
        assert words.replace("{in}", str(tmp_path / "in.csv")) in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_existing_files_are_kept_without_force(tmp_path, capsys):
    write(tmp_path / "in.csv", lines())
    (tmp_path / "out.parquet").write_text("old")
    assert run(tmp_path) == 2
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "out.parquet").read_text() == "old"


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [("no.csv", "o.parquet", "There is no file"), ("a.csv", "o.csv", "end in .parquet")],
)
def test_bad_paths_are_refused(source, target, words, tmp_path, capsys):
    assert main(["data", "convert", str(tmp_path / source), str(tmp_path / target)]) == 2
    assert words in capsys.readouterr().err


def test_data_alone_lists_the_data_sets(capsys):
    assert main(["data"]) == 0
    assert "mnist-7v9" in capsys.readouterr().out


def test_files_of_other_countries_are_converted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("âge;y\n0,5;1\n1,5;2\n".encode("cp1252"))
    target = tmp_path / "t.parquet"
    options = ["--separator", ";", "--decimal", ",", "--encoding", "cp1252"]
    assert main(["data", "convert", str(path), str(target), *options]) == 0
    assert pq.read_table(target).to_pydict() == {"âge": [0.5, 1.5], "y": [1, 2]}
