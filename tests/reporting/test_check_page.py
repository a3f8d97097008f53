"""The page of a checked table: what it says, and how a browser shows it."""

from pathlib import Path

import pytest

from isotherm.cli import main
from support.browser import look
from test_text import HOSTILE, is_shown_safely

CLINIC = Path(__file__).parents[2] / "docs" / "examples" / "clinic.csv"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    path = tmp_path_factory.mktemp("check") / "check.html"
    assert main(["check", str(CLINIC), "--target", "readmitted", "--html", str(path)]) == 0
    return path


def test_the_page_has_every_fault_and_the_spec(clinic, capsys):
    html = clinic.read_text(encoding="utf-8")
    for words in (
        "uses 292 rows",
        "Numbers of rows, from 1 to 300.",
        "rows 17 and 122",
        "<code>numbers</code>",
        "&quot;%d.%m.%Y&quot;",
        "To be repaired first",
    ):
        assert (words in html) == (words != "To be repaired first"), words
    capsys.readouterr()
    assert main(["check", str(CLINIC), "--html", str(clinic)]) == 2
    assert "already exists; use --force" in capsys.readouterr().err


def test_what_must_be_repaired_comes_first_and_names_are_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "<script>"
    lines = [f"{name},{name},y", *(f"{i},{i % 7},{HOSTILE[1]}" for i in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert main(["check", "t.csv", "--target", "y", "--html", "p.html"]) == 1
    html = (tmp_path / "p.html").read_text()
    assert (
        html.index("To be repaired first") < html.index("2 columns have this name.") < html.index("<h2>Found")
    )
    assert "<script" not in html
    assert is_shown_safely(html.replace("\t", ""))


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_the_page_on_a_phone_and_a_desktop(dark, clinic, tmp_path):
    screens, console = look(clinic, tmp_path, dark=dark)
    assert console == []
    assert [screen["width"] for screen in screens] == [400, 1200]
    for screen in screens:
        assert screen["scroll"] <= screen["width"]
        assert screen["contrast"] >= 4.5  # WCAG AA
