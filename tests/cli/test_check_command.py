"""`isotherm check`: what it prints and writes, and its exit codes."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from isotherm.cli import main
from isotherm.cli.spec import make_problem, read_spec
from test_text import HOSTILE, is_shown_safely

N = 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the working directory of the command, with a table that has a few faults."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": np.arange(N),
            "age": rng.normal(50, 12, N).round(2),
            "price": [f"${1000 + 31 * i:,}" for i in rng.permutation(N)],
            "day": (pd.to_datetime("2024-03-01") + pd.to_timedelta(rng.integers(0, 90, N), "D")).strftime(
                "%Y-%m-%d"
            ),
            "y": rng.integers(0, 2, N),
        }
    )
    frame.to_csv("t.csv", index=False)
    return tmp_path


def test_the_faults_and_the_spec_are_printed(folder, capsys):
    assert main(["check", "t.csv"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for words in (
        "t.csv: 60 rows, 5 columns",
        "id     Numbers of rows, from 0 to 59. The spec leaves the column out.",
        "(rows 1, 2, 3, 4, 5 and",
        "The target is taken to be `y`",
        'exclude = ["id"]',
        'numbers = ["price"]',
        "Tried: it uses all rows, and has 3 coefficients besides the intercept.",
    ):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80
    spec = out[out.index("# y:") : out.index("\nTried")]
    assert tomllib.loads(spec)["model"] == "logistic"


def test_the_spec_is_written_and_names_the_table_from_its_own_folder(folder, capsys):
    assert main(["check", "t.csv", "--target", "age", "--write", "specs/s.toml"]) == 0
    assert "Next: isotherm sample specs/s.toml" in capsys.readouterr().out
    spec = read_spec("specs/s.toml")
    assert spec.data["path"] == "../t.csv"
    assert make_problem(spec).labels == {"coefficients": [["intercept", "price", "day", "y"]]}
    assert main(["check", "t.csv", "--write", "specs/s.toml"]) == 2
    assert "already exists; use --force" in capsys.readouterr().err
    assert main(["check", "t.csv", "--write", "specs/s.toml", "--force"]) == 0
    assert read_spec("specs/s.toml").data["target"] == "y"


def test_one_json_object_is_printed(folder, capsys):
    assert main(["check", "t.csv", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["ok"], record["target"], record["model"], record["rows_used"]) == (
        True,
        "y",
        "logistic",
        N,
    )
    assert {f["kind"] for f in record["findings"]} == {"identifier", "numbers", "dates"}
    assert tomllib.loads(record["spec"])["data"]["numbers"] == ["price"]


def test_what_must_be_repaired_ends_with_1_and_comes_first(folder, capsys):
    text = (folder / "t.csv").read_text().replace("id,age", "age,age", 1)
    (folder / "t.csv").write_text(text)
    assert main(["check", "t.csv", "--write", "s.toml"]) == 1
    out, err = capsys.readouterr()
    assert out.index("To be repaired before") < out.index("2 columns have this name.") < out.index("Found")
    assert "must be repaired before it can be sampled" in err
    assert (folder / "s.toml").exists()
    assert main(["check", "t.csv", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["exit_code"] == 1
    pd.DataFrame({"x": range(N), "y": np.ones(N)}).to_csv("none.csv", index=False)
    assert main(["check", "none.csv", "--write", "none.toml"]) == 1
    assert "no spec is proposed" in capsys.readouterr().err
    assert not (folder / "none.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.csv"], "there is no file absent.csv"),
        (
            ["t.csv", "--target", "agee"],
            "`--target` must be a column of the table; got 'agee'. Did you mean `age`?",
        ),
        (["t.csv", "--write", "s.json"], "--write must end in .toml"),
        (["t.txt"], "`path` must be a folder, or a file that ends in"),
    ],
)
def test_bad_input_ends_with_2(folder, arguments, words, capsys):
    (folder / "t.txt").write_text("a\n1\n")
    assert main(["check", *arguments]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_parquet_folders_are_read(folder, capsys):
    (folder / "parts").mkdir()
    for i in range(2):
        part = pd.read_csv("t.csv")[i * 30 : i * 30 + 30]
        part.to_parquet(folder / "parts" / f"{i}.parquet", index=False)
    assert main(["check", "parts", "--write", "s.toml"]) == 0
    out = capsys.readouterr().out
    assert "parts: 60 rows, 5 columns" in out
    assert make_problem(read_spec("s.toml")).labels == {
        "coefficients": [["intercept", "age", "price", "day"]]
    }


def test_hostile_names_are_text(folder, capsys):
    rng = np.random.default_rng(0)
    names = [name for name in HOSTILE if name.strip() == name and name not in ("", "\ud800")]
    frame = pd.DataFrame({name: rng.normal(size=N) for name in names})
    frame[names[::2]] = 1.0
    frame["\x1b[2Jclass"] = rng.choice(HOSTILE[:3], N)
    frame.to_parquet("t.parquet", index=False)
    assert main(["check", "t.parquet", "--write", "s.toml"]) == 0
    assert is_shown_safely(capsys.readouterr().out)
    spec = read_spec("s.toml")
    assert spec.data["exclude"] == names[::2]
    make_problem(spec)


def test_a_table_that_a_spec_cannot_use_is_sent_to_the_check(folder, capsys):
    pd.read_csv("t.csv").assign(site=1).to_csv("t.csv", index=False)
    (folder / "specs").mkdir()
    (folder / "specs" / "s.toml").write_text('model = "linear"\n[data]\npath = "../t.csv"\ntarget = "age"\n')
    assert main(["sample", "specs/s.toml", "--out", "run"]) == 2
    assert "isotherm check t.csv --target age" in capsys.readouterr().err
