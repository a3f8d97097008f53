"""Names of users are text: in tables, errors, progress bars, figures and pages."""

import ast
import dataclasses
import io
from pathlib import Path

import matplotlib.text
import numpy as np
import pytest
import rich.console
from hypothesis import given
from hypothesis import strategies as st

import isotherm as iso
from isotherm import plots
from isotherm.errors import must
from isotherm.files import damaged
from isotherm.plots.style import to_png
from isotherm.progress import Progress
from isotherm.reporting import page
from isotherm.reporting.report import run_page
from isotherm.tables.regressions import regression
from isotherm.terminal import Table, literal, new_console
from isotherm.text import visible, visible_lines
from support.made_run import made_diagnosis, made_draws

SOURCES = sorted(Path(iso.__file__).parent.rglob("*.py"))
HOSTILE = (
    *("dose[mg]", "[/b]", "[red]x[/red]", ":warning:", r"\[b]", "[link=file:///etc]a[/link]"),
    *("\x1b[2J", "\x1b]0;title\x07", "a\rb", "a\nb", "a\tb", "\x00", "\x7f", "\x9b31m", "\ud800"),
    *("\u202etxt.exe", "\u2066a\u2069", "\u200fa", "\u2028", "\u061c"),
    *("$x$", r"$\frac{", "$", "_a", "<script>", "'\"&", "%s {0}", "=1+1", ""),
)
MARKS = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def is_shown_safely(text, *, lines=True):
    allowed = "\n" if lines else ""
    return all((c.isprintable() and c not in MARKS) or c in allowed + "  " for c in text)


@given(st.text(st.characters(exclude_categories=())))
def test_text_on_one_line_has_nothing_that_a_terminal_acts_on(text):
    shown = visible(text)
    assert not set(shown) & {*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), *MARKS}
    shown.encode("utf-8")
    assert visible(shown) == shown
    assert visible_lines(text).replace("\n", "\\n").replace("\t", "\\t") == shown


def test_escapes_are_those_of_python():
    assert visible("a\x1b[2J\r\n\t\x00\u202eé漢\ud800") == r"a\x1b[2J\r\n\t\x00\u202eé漢\ud800"
    assert visible_lines("a\n\tb\x07") == "a\n\tb\\x07"


@pytest.mark.parametrize("name", HOSTILE)
def test_tables_and_verdicts_show_names_as_they_are(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")  # a narrow table breaks long names
    draws = made_draws(2, shift=3.0)
    draws = dataclasses.replace(draws, labels={"coefficients": [["intercept", name, "b"]]})
    summary = draws.summary()
    assert summary[name].name == name
    for printed in (summary, made_diagnosis(draws)):
        assert visible(name) in str(summary)
        assert is_shown_safely(str(printed))
        file = io.StringIO()  # a console of the user, which reads markup
        rich.console.Console(file=file, width=200, color_system="truecolor", force_terminal=True).print(
            summary
        )
        assert visible(name) in file.getvalue()
    named = dataclasses.replace(draws, posterior={name: draws.posterior["sigma"]})
    assert visible(name) in repr(named)


def test_problems_name_parameters_visibly():
    draws = made_draws(0, shift=3.0)
    draws = dataclasses.replace(draws, labels={"coefficients": [["a\n\x1b[2J`"]]})
    assert r"R-hat of `a\n\x1b[2J``" in draws.summary().verdict


@pytest.mark.parametrize("name", HOSTILE)
def test_progress_and_consoles_show_text(name):
    file = io.StringIO()
    console = rich.console.Console(file=file, width=200, force_terminal=True, color_system=None)
    with Progress(name, 10, console=console) as bar:
        bar.say(name)
        bar.advance(1)
    assert visible(name) in file.getvalue()
    file = io.StringIO()
    console = new_console(file=file, width=200)
    table = Table(name)
    table.add_row(name)
    for shown in (table, literal(name)):
        console.print(shown)
    assert visible(name) in file.getvalue()
    assert is_shown_safely(file.getvalue())


def test_lines_of_progress_show_text():
    file = io.StringIO()
    console = rich.console.Console(file=file, width=200)
    with Progress("[b]\x1b[2J", 10, console=console, lines=True) as bar:
        bar.milestone("[/b]")
    assert file.getvalue().startswith(r"[b]\x1b[2J: [/b], 0%")


@pytest.mark.parametrize("name", HOSTILE)
def test_errors_show_names_on_one_line(name):
    assert is_shown_safely(str(must(name, f"a column other than {name}", name, name)), lines=False)
    assert is_shown_safely(str(damaged(name or ".", name or "x")), lines=False)


def test_errors_of_tables_show_names_on_one_line():
    name = "a\n\x1b[2J"
    columns = {name: np.array([1.0, np.nan, 2.0]), "y": np.array([1.0, 2.0, 3.0])}
    for target, features in (("y", [name]), (name, ["y"]), ("absent", None), ("y", ["absent"])):
        with pytest.raises(ValueError, match=r"must be|must have") as caught:
            regression("linear", columns, target, features)
        assert is_shown_safely(str(caught.value), lines=False)
        assert target == "absent" or features == ["absent"] or r"`a\n\x1b[2J`" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [plots.traces, plots.marginals, plots.pairs, plots.convergence])
def test_figures_draw_names_as_they_are(draw):
    draws = made_draws(len(HOSTILE))
    draws = dataclasses.replace(draws, labels={"coefficients": [["intercept", *HOSTILE]]})
    for i in range(0, len(HOSTILE), 6):
        names = HOSTILE[i : i + 6]
        figure = draw(draws, names)
        to_png(figure)  # a formula that cannot be drawn raises here
        texts = figure.findobj(matplotlib.text.Text)
        named = {x.get_text(): x for x in texts}
        for name in names:
            assert visible(name) in named
            assert not name or not named[visible(name)].get_parse_math()


@pytest.mark.parametrize("name", HOSTILE)
def test_pages_show_names_as_they_are(name):
    draws = made_draws(1)
    draws = dataclasses.replace(
        draws,
        labels={"coefficients": [["intercept", name]]},
        about=dataclasses.replace(draws.about, title=name, model={name: name, "features": [name]}),
    )
    html = run_page(
        draws, draws.summary(), {}, diagnosis=made_diagnosis(draws), data={name: name}, title=name
    )
    assert is_shown_safely(html.replace("\t", ""))
    assert "<script" not in html
    assert f"<title>{page._escaped(name)}</title>" in html
    for part in (
        page.figure(b"", alt=name, caption=name),
        page.table((name, name), [(name, name)], caption=name),
        page.numbers((name, name), [(name, name)], caption=name),
    ):
        assert is_shown_safely(part.replace("\t", ""))
        assert part.count('"') % 2 == 0


def _uses(path):
    """Return what a file imports of Rich while it runs, and whether it prints."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rich"):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= {node.func.id} & {"print", "Console"}
    return found


def test_only_one_file_makes_consoles_and_tables_of_rich():
    """Others would read markup in names. Studies name the class `Console` in annotations."""
    for path in SOURCES:
        name = path.relative_to(SOURCES[0].parents[0]).as_posix()
        uses = _uses(path)
        assert name.endswith("terminal.py") or not uses & {"Table", "Text"}, path
        assert "Console" not in uses or "Console(" not in path.read_text() or name.endswith("terminal.py"), (
            path
        )


def test_commands_print_in_one_file():
    for path in SOURCES:
        if "cli" in path.parts and path.name != "messages.py":
            assert "print" not in _uses(path), path
