"""Tables and sentences fit the terminal: tables that are too wide are shown in parts, with all their digits."""

import io
import re

import pytest

from isotherm.cli.messages import complain
from isotherm.progress import StepProgress
from isotherm.terminal import Table, new_console
from support.made_run import made_diagnosis, made_draws


@pytest.mark.parametrize("width", [50, 80, 110])
def test_records_are_as_wide_as_the_terminal(width, monkeypatch):
    draws = made_draws(2)
    printed = (draws.summary(), made_diagnosis(draws), draws.record)
    monkeypatch.setenv("COLUMNS", "200")
    wide = [set(re.findall(r"\d[\d.,]*", str(x))) for x in printed]
    monkeypatch.setenv("COLUMNS", str(width))
    for record, numbers in zip(printed, wide, strict=True):
        text = str(record)
        assert max(map(len, text.splitlines())) <= width
        assert numbers <= set(re.findall(r"\d[\d.,]*", text))


def shown(table, width):
    file = io.StringIO()
    new_console(file=file, width=width).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_wide_table_is_shown_in_parts_with_its_first_column():
    table = Table(box=None, pad_edge=False)
    table.add_column("name", overflow="fold")
    for title in ("first", "second", "third"):
        table.add_column(title, no_wrap=True, justify="right")
    table.add_row("a", "1.00000", "2.00000", "3.00000")
    assert shown(table, 40) == ["name    first   second    third", "a     1.00000  2.00000  3.00000"]
    assert shown(table, 25) == [
        *("name    first   second", "a     1.00000  2.00000"),
        *("name    third", "a     3.00000"),
    ]
    assert len(shown(table, 3)) >= 6


def test_sentences_of_commands_fit_a_terminal_and_words_stay_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    path = "/a/long/path/that/no/line/may/break/in/two/table.csv"
    text = f"the table must have a value in every row\n  {path} is the file"
    complain(text)
    assert capsys.readouterr().err == f"isotherm: {text}\n"  # no terminal: one line each, for other programs
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    complain(text)
    lines = capsys.readouterr().err.splitlines()
    assert path in "".join(lines)
    assert all(len(line) <= 40 for line in lines if path not in line)
    assert " ".join(" ".join(lines).split()) == " ".join(f"isotherm: {text}".split())


@pytest.mark.parametrize("width", [80, 120])
def test_the_bar_says_whether_chains_burn_in(width):
    file = io.StringIO()
    with StepProgress(100, 0.5, show=True, title="CCAdL", before=40) as bar:
        assert not bar.visible  # no terminal
    bar = StepProgress(100, 0.5, show=True, title="CCAdL", before=40)
    bar.progress.console = new_console(file=file, width=width, force_terminal=True, color_system=None)
    with bar:
        bar.update(20, 1.0)
        bar.progress.bar._bar.refresh()
        assert "burn-in" in file.getvalue()
        assert "drawing" not in file.getvalue()
        bar.update(60, 1.0)
        bar.progress.bar._bar.refresh()
    assert "drawing" in file.getvalue()
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= width
    assert ("passes" in file.getvalue()) == (width > 100)
