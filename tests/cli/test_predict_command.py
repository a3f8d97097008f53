"""`isotherm predict`: files, exit codes, what it prints, and what it refuses."""

import dataclasses
import json
import sys

import numpy as np
import pandas as pd
import pytest

import isotherm as iso
from isotherm.cli import main
from isotherm.cli.folder import write_run
from isotherm.draws.record import About
from isotherm.tables import forecasting as module
from isotherm.tables.forecasting import forecast
from support.made_forecast import made_forecast, table, target
from support.made_run import made_diagnosis, made_draws

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROWS = 20
NEW = table(ROWS, seed=1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a run and a table, which is the working directory of the command."""
    monkeypatch.chdir(tmp_path)
    save(made_forecast("linear"))
    pd.DataFrame(NEW).to_csv("new.csv", index=False)
    return tmp_path


def save(draws, name="run"):
    draws.save(f"{name}/draws.iso")
    return draws


def read(name="predictions.csv"):
    return pd.read_csv(name) if name.endswith("csv") else pd.read_parquet(name)


@pytest.mark.parametrize("name", ["predictions.csv", "deep/p.parquet"])
@pytest.mark.parametrize("model", ["linear", "negative-binomial", "logistic", "softmax"])
def test_a_line_for_each_row_in_order(model, name, folder, capsys):
    draws = save(made_forecast(model))
    assert main(["predict", "run", "new.csv", "--out", name, "--interval", "0.5", "--seed", "3"]) == 0
    found, exact = read(name), forecast(iso.load("run/draws.iso"), NEW, interval=0.5, seed=3).columns
    assert list(found.columns) == list(exact)
    for column, values in exact.items():
        if column == "predicted":
            assert found[column].tolist() == values.tolist()
        else:
            np.testing.assert_allclose(found[column], values, rtol=1e-6)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{draws.about.title}: 20 rows, 800 draws"
    assert out[-1] == f"predictions {name}: {', '.join(exact)}"
    assert ("`probability` is the probability of y = b" in out) is (model == "logistic")
    assert len(out) == 2 + (model == "logistic") + (model == "softmax")  # where a class is hardly predicted


def test_counts_are_written_as_integers(folder):
    save(made_forecast("poisson"))
    assert main(["predict", "run", "new.csv"]) == 0
    cells = [line.split(",")[-2:] for line in (folder / "predictions.csv").read_text().splitlines()[1:]]
    assert all(cell.isdigit() for row in cells for cell in row)


@pytest.mark.parametrize("model", ["linear", "softmax"])
def test_scores_are_printed_if_the_table_has_the_target(model, folder, capsys):
    draws, y = save(made_forecast(model)), target(model, ROWS)
    pd.DataFrame(NEW | {"y": y}).to_csv("new.csv", index=False)
    assert main(["predict", "run", "new.csv", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    exact = forecast(draws, NEW | {"y": y})
    scores = record["scores"]
    assert scores["rows"] == ROWS
    assert scores["log_likelihood"] == pytest.approx(exact.log_likelihood.mean, rel=1e-4)
    if model == "linear":
        assert scores["rmse"] == pytest.approx(exact.scores.rmse, rel=1e-4)
        assert {"crps", "coverage", "coverage_error", "width"} <= set(scores)
    else:
        assert scores["accuracy"] == exact.scores.accuracy
        assert {"brier", "brier_error", "accuracy_error", "calibration_error"} <= set(scores)
    assert main(["predict", "run", "new.csv", "--force"]) == 0
    out = capsys.readouterr().out
    assert "scored against `y` of the table\nlog predictive density per row: " in out
    assert ("rmse" if model == "linear" else "accuracy") in out


def test_a_precision_takes_fewer_draws(folder, capsys):
    assert main(["predict", "run", "new.csv", "--precision", "0.08"]) == 0
    out = capsys.readouterr().out
    used = int(out.split("20 rows, ")[1].split(" draws")[0])
    assert 100 <= used < 800
    assert f"{used} of 800 draws give the means to 0.08 of their posterior sd\n" in out


def test_levels_that_were_not_seen_are_counted_and_listed(folder, capsys):
    frame = pd.DataFrame(NEW)
    frame.loc[[3, 8], "sex"] = "x"
    frame.to_csv("new.csv", index=False)
    assert main(["predict", "run", "new.csv", "--unseen", "mean"]) == 0
    out = capsys.readouterr().out
    assert (
        "`sex` has levels that the run has not seen in 2 rows (4, 9): the average of all levels was taken"
        in out
    )
    assert main(["predict", "run", "new.csv", "--unseen", "missing", "--out", "empty.csv"]) == 0
    out = capsys.readouterr().out
    assert "2 rows have a missing value or an unknown level; their predictions are empty" in out
    assert read("empty.csv")["mean"].isna().to_numpy().nonzero()[0].tolist() == [3, 8]
    assert main(["predict", "run", "new.csv", "--unseen", "mean", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_with_unseen_levels"] == {"sex": 2}


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("given", ["new.csv", "new.parquet"])
def test_columns_are_kept_as_they_are(given, name, folder, capsys):
    frame = pd.DataFrame({"id": [f"{i:03}" for i in range(ROWS)], "big": 2**60 + np.arange(ROWS), **NEW})
    frame["note"] = ["=1", None, "a,b", *["x"] * (ROWS - 3)]
    frame["half"] = np.where(np.arange(ROWS) == 1, np.nan, np.arange(ROWS) / 3)
    frame["day"] = pd.Timestamp("2024-03-01")
    frame.to_csv("new.csv", index=False) if given.endswith("csv") else frame.to_parquet(given)
    names = ["big", "id", "age", "note", "half", "day"]
    assert main(["predict", "run", given, "--out", name, "--keep", ", ".join(names)]) == 0
    assert f"predictions {name}: big, id, age, note, half, day, mean, mean_low" in capsys.readouterr().out
    found = pd.read_csv(name, dtype={"id": str}) if name.endswith("csv") else pd.read_parquet(name)
    assert list(found)[: len(names)] == names
    assert found["id"].tolist() == frame["id"].tolist()
    assert [int(x) for x in found["big"]] == frame["big"].tolist()
    np.testing.assert_array_equal(found["age"].astype(float), frame["age"])
    np.testing.assert_array_equal(found["half"].astype(float), frame["half"])
    assert found["note"][0] == ("'=1" if name.endswith("csv") else "=1")  # no formula for a spreadsheet
    assert found["note"].isna().tolist() == frame["note"].isna().tolist()
    assert found["note"][2] == "a,b"
    assert pd.to_datetime(found["day"]).eq(frame["day"]).all()
    exact = forecast(iso.load("run/draws.iso"), NEW).columns["mean"]
    np.testing.assert_allclose(found["mean"], exact, rtol=1e-6)


def test_columns_that_cannot_be_kept_are_refused(folder, capsys):
    pd.DataFrame(NEW | {"low": 1.0}).to_csv("new.csv", index=False)
    for names, message in (
        ("ages", "`keep` must be a column of the table; got 'ages'. Did you mean `age`?"),
        ("low", "`keep` must be columns that are not named like a prediction; got 'low'"),
        ("age,age", "`keep` must be different columns; got 'age'"),
    ):
        assert main(["predict", "run", "new.csv", "--keep", names]) == 2
        assert message in capsys.readouterr().err
    assert not (folder / "predictions.csv").exists()


def test_a_cost_or_a_threshold_decides(folder, capsys):
    save(made_forecast("logistic"))
    pd.DataFrame(NEW | {"y": target("logistic", ROWS)}).to_csv("new.csv", index=False)
    assert main(["predict", "run", "new.csv", "--cost", "false_negative=3,false_positive=1"]) == 0
    out = capsys.readouterr().out
    assert "b is predicted where its probability is above 0.25\n" in out
    assert "rows with b" in out
    found = read()
    assert found["predicted"].tolist() == ["b" if p > 0.25 else "a" for p in found["probability"]]
    assert main(["predict", "run", "new.csv", "--threshold", "0.9", "--force", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["rows_predicted"]["b"] == (found["probability"] > 0.9).sum()
    assert record["rows_expected"]["b"] == pytest.approx(found["probability"].sum(), rel=1e-4)
    assert sum(sum(row.values()) for row in record["confusion"].values()) == ROWS
    with pytest.raises(SystemExit):
        main(["predict", "run", "new.csv", "--cost", "yes"])
    assert "must be costs by class, such as yes=10,no=1; got yes" in capsys.readouterr().err


def test_json_is_one_object_and_nothing_else(folder, capsys):
    assert main(["predict", "run", "new.csv", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["exit_code"] == 0
    assert record["ok"] is True
    assert (record["rows"], record["rows_without_prediction"], record["interval"]) == (20, 0, 0.9)
    assert record["columns"] == ["mean", "mean_low", "mean_high", "low", "high"]
    assert record["scores"] is None
    assert record["files"] == ["predictions.csv"]
    assert main(["predict", "nowhere", "new.csv", "--json", "--force"]) == 2
    record = json.loads(capsys.readouterr().out)
    assert (record["exit_code"], record["ok"]) == (2, False)
    assert "it has no draws.iso" in record["error"]
    one = pd.DataFrame(NEW | {"y": target("linear", ROWS)})[:1]  # one row has no standard error
    one.to_csv("new.csv", index=False)
    assert main(["predict", "run", "new.csv", "--json", "--force"]) == 0
    out = capsys.readouterr().out
    assert "NaN" not in out
    assert json.loads(out)["scores"]["log_likelihood_error"] is None


def test_the_exit_code_is_the_verdict_on_the_run(folder, capsys, monkeypatch):
    """The verdict of the diagnosis, if there is one, decides. The predictions are written in any case."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # no figures
    draws = save(made_forecast("linear", shift=3.0))
    assert main(["predict", "run", "new.csv"]) == 1
    assert capsys.readouterr().err.startswith("isotherm: Do not trust these draws yet: ")
    assert len(read()) == ROWS
    good = save(made_forecast("linear"))
    write_run(folder / "run", good, good.summary(), made_diagnosis(draws))
    assert main(["predict", "run", "new.csv", "--force", "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("isotherm: Do not trust these draws yet: ")
    assert json.loads(printed.out)["problems"]
    write_run(folder / "run", good, good.summary(), made_diagnosis(good))
    assert main(["predict", "run", "new.csv", "--force"]) == 0
    assert capsys.readouterr().err == ""


def test_rows_with_a_missing_value_are_refused_or_left_empty(folder, capsys):
    frame = pd.DataFrame(NEW)
    frame.loc[4, "age"], frame.loc[9, "sex"] = np.nan, None
    frame.to_csv("new.csv", index=False)
    assert main(["predict", "run", "new.csv"]) == 2
    assert (
        "column `age` must have a value in every row; the value in row 5 is missing (1 of 20 rows)"
        in capsys.readouterr().err
    )
    assert main(["predict", "run", "new.csv", "--missing", "empty"]) == 0
    assert "2 rows have a missing value; their predictions are empty" in capsys.readouterr().out
    lines = (folder / "predictions.csv").read_text().splitlines()[1:]
    assert [i for i, line in enumerate(lines) if line == ",,,,"] == [4, 9]
    assert main(["predict", "run", "new.csv", "--missing", "empty", "--json", "--force"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_without_prediction"] == 2


def test_a_users_model_is_refused_with_the_repair(folder, capsys):
    draws = dataclasses.replace(made_draws(), about=About(model={"function": "own.py:make"}))
    save(draws)
    assert main(["predict", "run", "absent.csv"]) == 2
    err = capsys.readouterr().err
    assert "got 'own.py:make'" in err
    assert "`isotherm predict --function`" in err
    assert "`iso.predict(draws, function, rows)` in Python" in err


OWN = """
import numpy as np
import jax.numpy as jnp

def line(columns):
    return (lambda p, x: p["coefficients"][0] + x * p["coefficients"][1]), np.log(columns["dose"])

def both(columns):
    return (lambda p, x: jnp.stack([x, p["sigma"] + 0 * x], axis=1)), columns["dose"]

def wrong(columns):
    return 3

def fails(columns):
    return 1 / 0
"""


def test_a_users_model_is_predicted_by_a_function(folder, capsys):
    draws = dataclasses.replace(made_draws(), about=About("Own", model={"function": "own.py:make"}))
    save(draws)
    (folder / "own.py").write_text(OWN)
    dose = np.array([0.5, 1.0, 3.0])
    pd.DataFrame({"dose": dose}).to_csv("own.csv", index=False)
    assert main(["predict", "run", "own.csv", "--function", "own.py:line", "--interval", "0.8"]) == 0
    out, err = capsys.readouterr()
    assert "Own: 3 rows" in out
    assert "running code of own.py:line" in err
    b = draws.posterior["coefficients"].reshape(-1, draws.posterior["coefficients"].shape[-1])
    values = b[:, :1] + b[:, 1:2] * np.log(dose)
    found = pd.read_csv("predictions.csv")
    np.testing.assert_allclose(found["mean"], values.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found["low"], np.quantile(values, 0.1, axis=0), atol=1e-5)
    arguments = ["predict", "run", "own.csv", "--force", "--function"]
    assert main([*arguments, "own.py:both", "--json", "--out", "p.parquet"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["columns"] == ["mean_0", "low_0", "high_0", "mean_1", "low_1", "high_1"]
    assert list(pd.read_parquet("p.parquet")["mean_0"]) == list(dose)


@pytest.mark.parametrize(
    ("name", "words", "traced"),
    [
        ("own.py:lin", "Did you mean `line`?", False),
        ("own.py:wrong", "`--function` must be a function of the columns that returns (f, rows)", False),
        ("own.py:fails", "division by zero", True),
    ],
)
def test_a_function_that_cannot_predict_is_refused(name, words, traced, folder, capsys):
    save(made_draws())
    (folder / "own.py").write_text(OWN)
    pd.DataFrame({"dose": [1.0]}).to_csv("own.csv", index=False)
    assert main(["predict", "run", "own.csv", "--function", name]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert ("Traceback" in err) == traced
    assert not (folder / "predictions.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.csv"], "there is no file absent.csv"),
        (
            ["run", "new.csv", "--out", "p.txt"],
            "--out must end in .csv or .parquet; got p.txt",
        ),
        (
            ["run", "new.csv", "--function", "own.py:f", "--keep", "age"],
            "--keep must be left out with --function",
        ),
        (["new.csv", "new.csv"], "new.csv is not the folder of a run"),
        (
            ["run", "new.csv", "--out", "./new.csv", "--force"],
            "new.csv is the input table; use --out to write elsewhere",
        ),
        (["run", "other.csv"], "`features` must be a column of the table; got 'dose'"),
        (["run", "level.csv"], "got 'x'. It is in row 1 (20 of 20 rows have unknown levels)."),
    ],
)
def test_bad_input_is_refused_before_anything_is_computed(arguments, message, folder, capsys, monkeypatch):
    monkeypatch.setattr(module, "_predicted", None)
    pd.DataFrame(NEW).drop(columns="dose").to_csv("other.csv", index=False)
    pd.DataFrame(NEW | {"sex": "x"}).to_csv("level.csv", index=False)
    before = {path.name for path in folder.iterdir()}
    assert main(["predict", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.parametrize("value", ["0", "1", "90", "nan", "x"])
def test_an_interval_is_a_probability(value, folder, capsys):
    with pytest.raises(SystemExit) as done:
        main(["predict", "run", "new.csv", "--interval", value])
    assert done.value.code == 2
    assert "--interval" in capsys.readouterr().err


def test_a_file_is_replaced_only_with_force(folder, capsys):
    (folder / "predictions.csv").write_text("mine")
    assert main(["predict", "run", "new.csv"]) == 2
    assert "predictions.csv already exists; use --force to replace it" in capsys.readouterr().err
    assert (folder / "predictions.csv").read_text() == "mine"
    assert main(["predict", "run", "new.csv", "--force"]) == 0
    assert len(read()) == ROWS


@pytest.mark.parametrize(("error", "code"), [(OSError("disk full"), 2), (KeyboardInterrupt(), 130)])
def test_a_file_is_written_whole_or_not_at_all(error, code, folder, monkeypatch, capsys):
    def half(file):
        def write(_):
            file.write(b"mean,low")
            raise error

        return write, lambda: None

    (folder / "predictions.csv").write_text("mine")
    before = {path.name for path in folder.iterdir()}
    monkeypatch.setattr("isotherm.cli.written._csv", half)
    assert main(["predict", "run", "new.csv", "--force"]) == code
    assert (folder / "predictions.csv").read_text() == "mine"
    assert {path.name for path in folder.iterdir()} == before
    assert capsys.readouterr().out == ""


def test_new_rows_are_read_by_the_keys_of_the_spec_unless_others_are_given(folder, capsys):
    draws = made_forecast("linear")
    draws.about.model["csv"] = {"separator": ";", "decimal": ",", "encoding": "cp1252"}
    save(draws, "german")
    new = pd.DataFrame(table(20))
    new.to_csv("german.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    new.to_csv("other.csv", index=False)
    assert main(["predict", "german", "german.csv", "--out", "a.csv"]) == 0
    assert main(["predict", "german", "other.csv", "--out", "b.csv"]) == 2
    assert "`features` must be a column of the table" in capsys.readouterr().err
    given = ["--separator", ",", "--decimal", ".", "--encoding", "utf-8"]
    assert main(["predict", "german", "other.csv", "--out", "b.csv", *given]) == 0
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    assert main(["predict", "german", "other.csv", "--out", "c.csv", "--separator", ";;"]) == 2
    assert "`separator` must be one character" in capsys.readouterr().err
    new.to_parquet("new.parquet")
    assert main(["predict", "german", "new.parquet", "--out", "d.csv"]) == 0
