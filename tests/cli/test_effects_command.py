"""`isotherm effects` and `isotherm priors`: tables, files, exit codes and refusals."""

import json

import numpy as np
import pandas as pd
import pytest

import isotherm as iso
from isotherm.cli import main
from support.made_effects import MIXED, drawn, rows

pytestmark = pytest.mark.usefixtures("quick_compilation")
ROWS = rows(60)
SPEC = """
formula = "claims ~ km + sex"
model = "poisson"
[data]
path = "data.csv"
[prior]
coefficients = {scale}
intercept = 0.5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a run and a table, which is the working directory of the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    drawn(MIXED, ROWS, "poisson").save("run/draws.iso")
    pd.DataFrame(ROWS).to_csv("data.csv", index=False)
    return tmp_path


def test_all_tables_fit_the_terminal_and_are_written(folder, capsys):
    assert main(["effects", "run", "data.csv", "--out", "out"]) == 1
    printed, complaint = capsys.readouterr()
    assert "Do not trust these draws yet" in complaint  # 200 made-up draws are too few
    assert max(map(len, printed.splitlines()[1:])) <= 80  # the title is longer, which a terminal wraps
    for text in (
        "mean of claims along age",
        "mean of claims along region",
        "per unit of a column",
        "km by region: 6 levels",
        "s(age), zero at the mean",
    ):
        assert text in printed
    along = pd.read_csv("out/along_sex.csv")
    exact = iso.tables.effects(iso.load("run/draws.iso"), ROWS, "sex")
    np.testing.assert_allclose(along["mean"], exact.mean, rtol=1e-5)
    assert pd.read_csv("out/group_region_km.csv")["rows"].sum() == 60
    names = {path.name for path in (folder / "out").iterdir()}
    pictures = {"along_age.png", "group_region.png", "group_broker.png", "curve_age.png"}
    assert {"effects.html", "slopes.csv", "curve_age.csv", *pictures} <= names
    page = (folder / "out" / "effects.html").read_text()
    assert page.count("<figure") == len([name for name in names if name.endswith(".png")])
    assert "http" not in page


def test_one_column_is_compared_and_a_single_object_is_printed(folder, capsys):
    arguments = ["effects", "run", "data.csv", "--column", "km", "--compare", "2", "4", "--typical", "--json"]
    code = main(arguments)
    record = json.loads(capsys.readouterr().out)
    assert record["exit_code"] == code
    found = record["along"]["km"]
    assert found["km"] == [2.0, 4.0]
    exact = iso.tables.effects(
        iso.load("run/draws.iso"), ROWS, "km", compare=(2, 4), others="typical"
    ).contrasts[0]
    assert found["contrasts"][0]["ratio"]["mean"] == pytest.approx(exact.ratio.mean, rel=1e-4)
    assert record["groups"] == {}
    assert main(["effects", "run", "data.csv", "--group", "broker", "--json"]) == code
    assert list(json.loads(capsys.readouterr().out)["groups"]) == ["Intercept by broker"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--compare", "f", "m"], "--compare must be given with one --column"),
        (["--column", "ages"], "Did you mean `age`?"),
        (["--group", "age"], "a group of the model: region, broker"),
        (["--column", "sex", "--compare", "f", "x"], "levels of `sex`: f, m"),
        (["--out", "run"], "run already exists; use --force"),
    ],
)
def test_what_cannot_be_shown_is_named(options, sentence, folder, capsys):
    assert main(["effects", "run", "data.csv", *options]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_priors_are_shown_and_absurd_ones_are_warned_of(folder, capsys):
    (folder / "spec.toml").write_text(SPEC.format(scale=0.2))
    assert main(["priors", "spec.toml", "--out", "priors"]) == 0
    printed = capsys.readouterr().out
    assert "Under the priors, 9 of 10 counts of `claims` lie between" in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 80
    assert {path.name for path in (folder / "priors").iterdir()} == {"priors.png", "priors.html"}
    assert "ordinary" in (folder / "priors" / "priors.html").read_text()
    (folder / "wide.toml").write_text(SPEC.format(scale=20))
    assert main(["priors", "wide.toml", "--json", "--draws", "200"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert "1,000 times the largest" in record["warnings"][0]
    assert record["statistics"]["mean"]["data"] == pytest.approx(ROWS["claims"].mean())
    assert main(["priors", "spec.toml", "--out", "priors"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["priors", "module:function"]) == 2
    assert "one with a `model` or a `formula`" in capsys.readouterr().err
