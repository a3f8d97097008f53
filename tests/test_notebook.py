"""What a notebook shows: draws and records as tables in HTML, with all text escaped, figures, and progress."""

import dataclasses
import io
import time
from html.parser import HTMLParser

import jax.numpy as jnp
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from IPython.core.pylabtools import print_figure
from matplotlib import pyplot
from matplotlib.figure import Figure

import isotherm as iso
from isotherm.notebook import html
from isotherm.prediction.record import over_draws
from isotherm.progress import Progress
from isotherm.terminal import Table, new_console
from isotherm.text import visible_lines
from support.made_run import made_diagnosis, made_draws
from test_text import HOSTILE


class Page(HTMLParser):
    """The texts of paragraphs and rows of a page. Tags must be balanced and hold no script."""

    def __init__(self, html):
        super().__init__()
        self.open, self.lines, self.rows, self.styles = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in ("div", "p", "table", "thead", "tbody", "tr", "th", "td")
        assert [name for name, _ in attrs] in ([], ["style"])
        self.styles += [value for _, value in attrs]
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag == "p":
            self.lines.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "p":
            self.lines[-1] += data
        else:
            self.rows[-1][-1] += data


def shown(record):
    return Page(record._repr_html_())


def test_a_summary_shows_its_rows_and_its_verdict():
    summary = made_draws(3).summary()
    page = shown(summary)
    assert page.rows[0][:3] == ["parameter", "mean", "sd"]
    assert [row[0] for row in page.rows[1:]] == [row.name for row in summary.rows]
    assert page.rows[1][7] == f"{summary.rows[0].r_hat:.3f}"
    assert page.lines[-1] == summary.verdict


def test_draws_show_their_parameters():
    draws = made_draws(3)
    page = shown(draws)
    assert page.rows == [["parameter", "shape"], ["coefficients", "4"], ["sigma", "scalar"]]
    assert page.lines == ["Draws: CCAdL, 4 chains x 200 draws"]
    leaf = np.ones((4, 200, 2, 3))
    many = dataclasses.replace(draws, posterior=[leaf] * 30, labels={})
    assert shown(many).rows[1] == ["0", "2 x 3"]
    assert len(shown(many).rows) == 21
    assert shown(many).lines[-1] == "... and 10 more"


def test_setups_diagnoses_predictions_and_records_show_what_they_print():
    draws = made_draws(3)
    posterior = iso.Posterior(lambda p, row: -0.5 * jnp.sum((row - p) ** 2))
    data = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    records = (
        iso.setup(posterior, data, jnp.zeros(2), sampler=iso.SGLD(0.001), batch_size=20),
        made_diagnosis(draws),
        over_draws(np.random.default_rng(0).normal(size=(50, 12)), (0.05, 0.95)),
        draws.record,
        iso.scores.classification(np.linspace(0, 1, 50), np.arange(50) > 25),
    )
    for record in records:
        page, text = shown(record), " ".join(str(record).split())
        assert page.rows
        for cell in (cell for row in page.rows for cell in row):
            assert all(word in text for word in cell.split())
        assert all(" ".join(line.split()) in text for line in page.lines)


def test_colours_are_those_of_the_theme():
    page = shown(made_draws().summary())
    declared = {part.split(":")[0] for style in page.styles for part in style.split(";")}
    assert not declared & {"color", "background", "background-color"}
    numbers = [style for style in page.styles if "text-align:right" in style]
    assert len(numbers) == 8 * 9


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text(name):
    draws = dataclasses.replace(made_draws(2), labels={"coefficients": [["intercept", name, "b"]]})
    assert shown(draws.summary()).rows[2][0] == visible_lines(name).replace("\n", r"\n").replace("\t", r"\t")
    shown(made_diagnosis(draws))
    named = dataclasses.replace(draws, posterior={name: draws.posterior["sigma"]}, labels={})
    assert len(shown(named).rows) == 2
    table = Table(name)
    table.add_row(name)
    assert Page(html([name, table])).lines == [visible_lines(name)]


def images(value, **registered):
    """Return the names of the images that a notebook shows for the value of a cell."""
    formatter = DisplayFormatter()
    for kind, function in registered.values():
        formatter.formatters["image/png"].for_type(kind, function)
    data, metadata = formatter.format(value)
    return {name: metadata.get(name) for name in data if name.startswith("image/")}


def test_a_figure_is_shown_once_with_and_without_the_inline_backend():
    figure = iso.plots.traces(made_draws(2), ["sigma"])
    assert list(images(figure)) == ["image/png"]
    assert images(figure)["image/png"]["width"] == 900
    assert figure._repr_png_()[0].startswith(b"\x89PNG")
    assert pyplot.get_fignums() == []  # else the inline backend would show it at the end of a cell, again
    inline = (Figure, lambda figure: print_figure(figure, fmt="png", base64=True))
    assert images(figure, inline=inline) == {"image/png": None}


class Outputs:
    """The outputs of a cell: what `display` was given, and what replaced it."""

    def __init__(self):
        self.shown = []

    def display(self, bundle, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append([bundle])
        return self

    def update(self, bundle, *, raw):
        assert raw
        self.shown[-1].append(bundle)


@pytest.fixture
def outputs(monkeypatch):
    cell = Outputs()
    monkeypatch.setattr("IPython.display.display", cell.display)
    monkeypatch.setattr("isotherm.notebook._SECONDS", 0.0)
    return cell


def test_progress_is_html_that_is_replaced_in_its_place(outputs):
    console = new_console(file=io.StringIO(), force_jupyter=True)
    with Progress("<sampling>", 200, console=console) as bar:
        assert bar.visible
        bar.say("T \x1b[2J")
        bar.advance(50)
        bar.advance(150)
    (steps,) = outputs.shown
    assert len(steps) == 5
    assert steps[0]["text/plain"] == "<sampling> · 0%"
    assert steps[2]["text/plain"].startswith(r"<sampling> · 25% · T \x1b[2J · 0 s left")
    assert 'value="0.250"' in steps[2]["text/html"]
    assert "&lt;sampling&gt; · 100%" in steps[4]["text/html"]
    assert steps[4]["text/plain"].endswith("0.0 s")
    assert console.file.getvalue() == ""


def test_times_go_on_while_nothing_happens(outputs, monkeypatch):
    monkeypatch.setattr("isotherm.notebook._TICK", 0.01)
    with Progress("warm-up", console=new_console(force_jupyter=True)) as bar:
        bar.say("compiling")
        deadline = time.monotonic() + 10.0
        while len(outputs.shown[0]) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(outputs.shown[0]) >= 6
    assert {x["text/plain"] for x in outputs.shown[0][1:-1]} == {"warm-up · compiling · 0 s"}
    assert not bar.bar.clock.is_alive()


def test_what_is_said_is_shown_at_once(outputs, monkeypatch):
    """It may be the last word for a while."""
    monkeypatch.setattr("isotherm.notebook._SECONDS", 1e9)
    with Progress("sampling", 10, console=new_console(force_jupyter=True)) as bar:
        bar.say("compiling")
    assert "compiling" in outputs.shown[0][1]["text/plain"]
    with Progress("warm-up", console=new_console(force_jupyter=True)) as bar:
        for stage in ("mode", "noise"):
            bar.say(stage)
            assert stage in outputs.shown[1][-1]["text/plain"]


def test_the_elapsed_time_disappears_at_the_end(outputs):
    with Progress("warm-up", console=new_console(force_jupyter=True)) as bar:
        bar.say("Newton's method")
    (steps,) = outputs.shown
    assert steps[1]["text/plain"] == "warm-up · Newton's method · 0 s"
    assert steps[-1] == {"text/plain": "", "text/html": ""}


def test_progress_that_ends_early_says_how_long_it_ran(outputs):
    with Progress("sampling", 10, console=new_console(force_jupyter=True)) as bar:
        bar.advance(5)
    assert outputs.shown[0][-1]["text/plain"] == "sampling · 50% · 0.0 s"
