"""docs/check.md: its commands run on its table, and print what it shows."""

import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from isotherm.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "check.md"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copy(DOCS / "examples" / "clinic.csv", tmp_path)
    return tmp_path


def run(line):
    name, *arguments = shlex.split(line)
    assert name == "isotherm"
    return main(arguments)


def test_the_page_shows_what_the_command_prints(folder, capsys):
    (command, *_), (shown,) = blocks("sh"), blocks("text")
    assert run(command.strip()) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == shown.splitlines()
    (head,) = blocks("none")
    assert (folder / "clinic.csv").read_text(encoding="cp1252").startswith(head.removesuffix("...\n"))


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_the_spec_samples_and_predicts(folder, capsys):
    """The rows are those with a value in every column; the outcome was made with effects of age and smoking."""
    for line in "".join(blocks("sh")).splitlines():
        assert run(f"{line} --quick" if "sample" in line else line) == 0, line
    frame, new = pd.read_csv("clinic.csv", sep=";", encoding="cp1252"), pd.read_csv("again.csv")
    gaps = (frame["age"] == "?") | frame["cost"].isna() | frame["lactate"].isna()
    assert (new["probability"].isna() == gaps).all()
    rate = frame["readmitted"][~gaps].mean()
    assert abs(new["probability"].mean() - rate) < 0.02  # the intercept fits the rate
