"""`isotherm sample` and `isotherm predict` on tables that are not loaded: Parquet files and folders, large files."""

import json
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isotherm as iso
import isotherm.sampling.resume  # before a test replaces what it imports
from isotherm.cli import cost, main, spec
from isotherm.cli.cost import Cost
from isotherm.cli.spec import make_problem, read_spec
from isotherm.tables import reader, survey
from isotherm.tables.encoded import EncodedSource
from isotherm.tables.npy_table import NpyTable
from isotherm.tables.reader import open_table
from support.made_forecast import made_forecast, table, target
from support.made_run import made_diagnosis, made_draws

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROWS = 90
SPEC = 'model = "linear"\n[data]\npath = "{}"\ntarget = "y"\n'
RNG = np.random.default_rng(0)
COLUMNS = {"a": RNG.normal(5, 2, ROWS), "b": RNG.choice(["u", "v"], ROWS), "y": RNG.normal(size=ROWS)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a table in a file and in a folder, which is the working directory of the command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    whole = pa.table(COLUMNS)
    pq.write_table(whole, "t.parquet", row_group_size=17)
    pq.write_table(whole.slice(0, 40), "parts/0.parquet")
    pq.write_table(whole.slice(40), "parts/1.parquet")
    return tmp_path


def problem_of(path):
    with open("spec.toml", "w") as file:
        file.write(SPEC.format(path))
    return make_problem(read_spec("spec.toml"))


@pytest.mark.parametrize("path", ["t.parquet", "parts"])
def test_small_tables_are_loaded_and_others_are_sources(path, folder, monkeypatch):
    small = problem_of(path)
    monkeypatch.setattr(spec, "_SMALL_BYTES", 0)
    large = problem_of(path)
    assert isinstance(large.data, EncodedSource)
    assert large.data.num_rows == ROWS
    for name, x in large.data.in_memory().items():
        np.testing.assert_array_equal(small.data[name], x)
    described = large.about.data
    assert (described["file"], described["rows"], described["columns"]) == (path, ROWS, 3)
    assert described["files"] == (1 if path == "t.parquet" else 2)
    assert len(described["sha256 of the footers"]) == 64
    json.dumps(described)


def test_a_table_is_identified_without_reading_its_rows(folder):
    before = open_table("t.parquet").describe()
    assert open_table("t.parquet").describe() == before
    pq.write_table(pa.table(COLUMNS | {"a": COLUMNS["a"] + 1}), "t.parquet", row_group_size=17)
    assert open_table("t.parquet").describe()["sha256 of the footers"] != before["sha256 of the footers"]


def test_a_store_is_named_by_its_uri(folder):
    assert problem_of((folder / "parts").as_uri()).about.data["rows"] == ROWS


def test_a_run_reads_its_table_by_blocks(folder, monkeypatch, capsys):
    draws, given = made_draws(2), []
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # no figures
    monkeypatch.setattr(spec, "_SMALL_BYTES", 0)
    monkeypatch.setattr("isotherm.sampling.sampled.setup_of", lambda _, data, *__, **___: given.append(data))
    monkeypatch.setattr("isotherm.sampling.sampled.sampled", lambda *_, **__: draws)
    monkeypatch.setattr("isotherm.chains.stored.save_setup", lambda *_: None)
    monkeypatch.setattr(iso, "diagnose", lambda *_, **__: made_diagnosis(draws))
    monkeypatch.setattr(cost, "measure", lambda *_, **__: Cost(1.0, "about 1 s"))
    (folder / "spec.toml").write_text(SPEC.format("t.parquet") + 'missing = "drop"\n')
    pq.write_table(pa.table(COLUMNS | {"a": [None, *COLUMNS["a"][1:]]}), "t.parquet", row_group_size=17)
    assert main(["sample", "spec.toml"]) == 0
    assert "1 rows have a missing value and are left out" in capsys.readouterr().out
    assert given[0].num_rows == ROWS - 1
    assert iso.load("run/draws.iso").about.data["file"] == "t.parquet"


def test_a_function_of_the_user_gets_the_columns_in_memory(folder):
    (folder / "own.py").write_text("def make(columns):\n    return 1, columns, 2\n")
    (folder / "spec.toml").write_text('function = "own.py:make"\n[data]\npath = "parts"\n')
    found = make_problem(read_spec("spec.toml")).data
    assert {name: x.tolist() for name, x in found.items()} == {n: list(x) for n, x in COLUMNS.items()}


def _truncated(folder):
    (folder / "bad.parquet").write_bytes((folder / "t.parquet").read_bytes()[:-40])


def _no_rows(folder):
    pq.write_table(pa.table(COLUMNS).slice(0, 0), folder / "bad.parquet")


def _nulls(folder):
    pq.write_table(
        pa.table(COLUMNS | {"a": [*COLUMNS["a"][:70], None, *COLUMNS["a"][71:]]}), folder / "bad.parquet"
    )


def _schemas(folder):
    (folder / "bad.parquet").mkdir()
    pq.write_table(pa.table(COLUMNS), folder / "bad.parquet" / "0.parquet")
    pq.write_table(pa.table(COLUMNS | {"a": ["x"] * ROWS}), folder / "bad.parquet" / "1.parquet")


def _without_a_column(folder):
    (folder / "bad.parquet").mkdir()
    pq.write_table(pa.table(COLUMNS), folder / "bad.parquet" / "0.parquet")
    pq.write_table(pa.table(COLUMNS).drop_columns("b"), folder / "bad.parquet" / "1.parquet")


def _lists(folder):
    pq.write_table(pa.table(COLUMNS | {"a": [[1.0]] * ROWS}), folder / "bad.parquet")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "There is no file or folder"),
        (lambda folder: (folder / "bad.parquet").mkdir(), "has no files that end in .parquet"),
        (_truncated, "bad.parquet is not a Parquet file, or is truncated or damaged"),
        (_no_rows, "bad.parquet has no rows"),
        (_nulls, "column `a` must have a value in every row; the value in row 71 is missing (1 of 90 rows)"),
        (_schemas, "Column 'a' is double in"),
        (_without_a_column, "has no column named 'b'"),
        (_lists, "`a` must be a column of numbers"),
    ],
)
def test_bad_tables_are_refused_and_nothing_is_written(make, message, folder, capsys):
    make(folder)
    (folder / "spec.toml").write_text(SPEC.format("bad.parquet"))
    assert main(["sample", "spec.toml"]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "run").exists()


def test_text_that_does_not_fit_into_memory_is_refused_with_the_repair(folder, monkeypatch, capsys):
    pd.DataFrame(COLUMNS).to_csv("t.csv", index=False)
    monkeypatch.setattr(reader, "available_bytes", lambda: 1000)
    (folder / "spec.toml").write_text(SPEC.format("t.csv"))
    assert main(["sample", "spec.toml"]) == 2
    assert (
        "by `isotherm data convert t.csv t.parquet`: Parquet files are not loaded" in capsys.readouterr().err
    )
    with pytest.raises(ValueError, match=r"more than half of .* Read its rows by `iso.data.parquet` instead"):
        reader.read_table("t.parquet")
    monkeypatch.undo()
    available = reader.available_bytes()
    assert available is None or available > 2**20


def test_large_npy_files_are_not_loaded(folder, monkeypatch):
    records = np.zeros(ROWS, [("x", "f4", (2,)), ("y", "f8")])
    np.save("t.npy", records)
    assert not isinstance(open_table("t.npy"), NpyTable)
    monkeypatch.setattr(reader, "_LARGE_BYTES", 100)
    found = open_table("t.npy")
    assert isinstance(found, NpyTable)
    assert found.shapes == {"x": (2,), "y": ()}
    assert found.describe()["bytes"] == (folder / "t.npy").stat().st_size
    np.save("matrix.npy", np.zeros((ROWS, 3)))
    assert open_table("matrix.npy").shapes == {"x": (3,)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("model", ["poisson", "softmax"])
def test_predictions_are_written_in_blocks(model, name, folder, monkeypatch, capsys):
    new = table(ROWS, seed=1) | {"y": target(model, ROWS)}
    new["age"][:40] = np.nan  # the whole first block
    made_forecast(model).save("run/draws.iso")
    pd.DataFrame(new).to_csv("new.csv", index=False)
    pd.DataFrame(new).to_parquet("new.parquet", row_group_size=25)
    records, frames = [], []
    for i, (given, rows) in enumerate([("new.csv", 2**10), ("new.parquet", 32)]):
        monkeypatch.setattr(survey, "_CHUNK_ROWS", rows)
        monkeypatch.setattr(survey, "_FEW_ROWS", rows)
        out = f"{i}{name}"
        assert main(["predict", "run", given, "--out", out, "--missing", "empty", "--json"]) == 0
        records.append(json.loads(capsys.readouterr().out))
        frames.append(pd.read_csv(out) if name.endswith("csv") else pd.read_parquet(out))
    pd.testing.assert_frame_equal(*frames, rtol=1e-5)
    assert len(frames[0]) == ROWS
    assert records[1]["rows_without_prediction"] == 40
    for key, value in records[0]["scores"].items():
        assert records[1]["scores"][key] == pytest.approx(value, rel=1e-4)


def test_a_terminal_shows_the_pass_and_its_speed(folder, monkeypatch):
    shown = []

    class Bar(survey.Progress):
        def __enter__(self):
            shown.append((self.title, self.show))
            return self

        def say(self, text):
            shown.append(text)

    monkeypatch.setattr(survey, "Progress", Bar)
    problem_of("t.parquet")
    assert shown[0] == ("pass 1: means, levels and checks", True)
    assert shown[-1].endswith(" MB/s")
    shown.clear()
    pd.DataFrame(COLUMNS).to_csv("t.csv", index=False)
    problem_of("t.csv")
    assert shown[0] == ("pass 1: means, levels and checks", False)  # rows in memory are not read
