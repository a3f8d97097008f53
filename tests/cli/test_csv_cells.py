"""Cells of CSV files: text that a spreadsheet would take for a formula, and names that need quotes."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from isotherm.cli import main
from isotherm.cli.spec import make_problem, read_spec
from isotherm.cli.written import _csv, as_cell
from isotherm.tables.reader import read_table
from support.made_forecast import made_forecast, table

pytestmark = pytest.mark.usefixtures("quick_compilation")

NAMES = ("a,b", 'q"x', "line\nbreak", "cr\rx", "=1+1", "@x", "semi;colon", "tab\tx", "é漢", "'x")


@pytest.mark.parametrize(
    "text", ["=1+1", "+a", "-a", "@x", "\tx", "\rx", "\nx", "=", "-1+cmd|' /C calc'!A0", "＝1"]
)
def test_formulas_become_text(text):
    assert as_cell(text) == f"'{text}"


@pytest.mark.parametrize("cell", ["-1", "+2.5", "-.5e-3", "1e5", "a=b", "", "'x"])
def test_numbers_and_other_text_stay_as_they_are(cell):
    assert as_cell(cell) == cell


def written(path, *frames):
    with open(path, "wb") as file:
        write, close = _csv(file)
        for frame in frames:
            write(frame)
        close()
    return path.read_bytes()


def test_numbers_stay_numbers_and_missing_cells_stay_empty(tmp_path):
    frame = pd.DataFrame({"mean": [-1.5, np.nan], "predicted": np.array(["-1", None], object)})
    assert written(tmp_path / "p.csv", frame) == b"mean,predicted\n-1.5,-1\n,\n"


def test_names_survive_a_round_trip(tmp_path):
    frame = pd.DataFrame({name: np.array([name, "x"], object) for name in NAMES})
    text = written(tmp_path / "p.csv", frame, frame).decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    expected = [as_cell(name) for name in NAMES]
    assert rows[0] == rows[1] == rows[3] == expected
    assert len(rows) == 5


def test_hostile_classes_are_predicted_as_text(tmp_path, monkeypatch, capsys):
    classes = ("=HYPERLINK(1)", '@a,"b"', "-1")
    monkeypatch.chdir(tmp_path)
    draws = made_forecast("softmax")
    draws.about.model["classes"] = list(classes)
    draws.save("run/draws.iso")
    pd.DataFrame(table(20)).to_csv("new.csv", index=False)
    assert main(["predict", "run", "new.csv"]) == 0
    found = pd.read_csv("predictions.csv", dtype=str)
    assert list(found.columns) == [*(f"probability_{name}" for name in classes), "predicted"]
    assert set(found["predicted"]) <= {as_cell(name) for name in classes}
    assert found["predicted"].nunique() > 1
    assert found[found.columns[0]].astype(float).between(0, 1).all()
    capsys.readouterr()


def test_names_of_columns_reach_a_problem_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with open("t.csv", "w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
            [[*NAMES, "y"], *rng.normal(size=(30, len(NAMES) + 1))]
        )
    assert set(read_table("t.csv").columns) == {*NAMES, "y"}
    (tmp_path / "spec.toml").write_text('model = "linear"\n[data]\npath = "t.csv"\ntarget = "y"\n')
    assert make_problem(read_spec("spec.toml")).labels == {"coefficients": [["intercept", *NAMES]]}
