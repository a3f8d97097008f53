"""The report of a run: the content of the page, and how a browser shows it."""

import dataclasses
import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import isotherm as iso
from isotherm.reporting import citation, page
from isotherm.reporting import report as report_module
from isotherm.reporting.to_json import diagnosis_from_json, diagnosis_to_json, summary_to_json
from support.browser import look
from support.made_run import made_diagnosis, made_draws

pytest.importorskip("matplotlib")


def text_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.replace("<wbr>", "")))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Draws of 82 parameters, and the report on them."""
    draws = made_draws(columns=80)
    path = tmp_path_factory.mktemp("report") / "deep" / "page.html"
    return draws, iso.report(draws, path, diagnosis=made_diagnosis(draws), title="A <title>")


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_a_page_has_the_verdict_first_and_everything_after_it(whole):
    draws, path = whole
    html = path.read_text()
    headings = (
        "Effects",
        "Rows",
        "How well the model describes the data",
        "Columns that depend on each other",
    )
    headings += (
        "Effects in numbers",
        "What to do",
        "What the chains did",
        "Parameters",
        "Diagnosis",
        "Model and data",
    )
    headings += ("Settings of the run", "What the warm-up chose", "Versions", "To cite")
    order = ["A &lt;title&gt;", "passed", "No fault found", *(f"<h2>{words}" for words in headings)]
    body = html[html.index("<body>") :]
    places = [body.index(words) for words in order]
    assert places == sorted(places)
    assert html.count("<img ") == 4
    text = text_of(html)
    for words in ("A note &lt;about&gt; xi.", "patients.csv", "0f" * 32, "12,345", "sex=f", "shang2015ccadl"):
        assert words in text
    assert not re.search(r"(?:src|href)\s*=\s*\"?(?!\"?data:)", body)  # no external resources
    row = draws.summary()["intercept"]
    assert re.search(rf"intercept +{row.mean:z.1f} +{row.sd:.1f} ", text)


@pytest.mark.usefixtures("no_figures")
def test_the_first_sentence_of_the_verdict_is_at_the_top_and_the_rest_with_the_evidence(tmp_path):
    draws = made_draws()
    found = dataclasses.replace(
        made_diagnosis(draws), verdict="No fault found: all agree. Variances are right to 2 %."
    )
    text = text_of(iso.report(draws, tmp_path / "page.html", diagnosis=found).read_text())
    assert "passed No fault found: all agree. Effects " in text
    assert "Diagnosis Variances are right to 2 %." in text
    assert text.count("No fault found") == 1


@pytest.mark.usefixtures("no_figures")
def test_a_bad_run_says_what_to_do(tmp_path):
    draws = made_draws(shift=3.0)
    text = text_of(iso.report(draws, tmp_path / "page.html").read_text())
    assert text.index("What to do") < text.index("Effects in numbers")
    assert "not passed Do not trust these draws yet: R-hat of" in text
    assert re.search(r"before you use the draws, in this order: R-hat of \w+ is \d", text)
    assert "iso.diagnose was not run" in text


def test_figures_fit_a_phone_and_show_the_parameters_of_the_summary(monkeypatch):
    """Selected by position: here a coefficient has the same label as the scale."""
    draws = made_draws(columns=2)
    draws.labels["coefficients"][0][1] = "sigma"
    drawn = []
    monkeypatch.setattr(report_module, "to_png", lambda figure: drawn.append(figure) or b"")
    assert list(report_module.images(draws, draws.summary())) == [
        "effects",
        "traces",
        "marginals",
        "temperatures",
    ]
    assert {figure.get_figwidth() for figure in drawn} == {5.4}
    values = {"intercept": 0, "sigma": 1, "a_rather_long_name_of_a_column_1": 2}
    titles = [ax.get_title(loc="left") for ax in drawn[2].axes]
    assert titles == ["intercept", "sigma", "a_rather_long_name_of_a_column_1", "sigma"]
    for ax, column in zip(drawn[2].axes, values.values(), strict=False):
        low, high = np.quantile(draws.posterior["coefficients"][..., column], [0.05, 0.95])
        x = ax.collections[1].get_paths()[0].vertices[:, 0]  # the filled middle 90 %
        np.testing.assert_allclose([x.min(), x.max()], [low, high])
    without = dataclasses.replace(draws, stats={"configurational_temperature": np.ones(4)})
    assert list(report_module.images(without, draws.summary())) == ["effects", "traces", "marginals"]


def test_of_many_parameters_the_worst_and_the_first_are_shown(whole):
    draws, path = whole
    html = path.read_text()
    rows = draws.summary().rows
    worst = sorted(range(82), key=lambda i: -rows[i].r_hat)[:30]
    shown = [*worst, *(i for i in range(20) if i not in worst)]
    html = html[html.index("<h2>Parameters") :]
    table = html[html.index('<table class="numbers">') :]
    names = re.findall(r'<th scope="row">(.*?)</th>', table[: table.index("</table>")])
    assert [name.replace("<wbr>", "") for name in names] == [rows[i].name for i in shown]
    assert f"{len(shown)} of 82 parameters" in text_of(html)
    assert f"The other {82 - len(shown)} are" in text_of(html)


def test_long_names_may_be_broken_between_their_words_and_numbers_may_not():
    found = page.paragraph("patient.mean_pressure=high at 1.25e-3 <script> &amp_x")
    assert found == (
        "<p>patient.<wbr>mean_<wbr>pressure=<wbr>high at 1.25e-3 &lt;script&gt; &amp;amp_<wbr>x</p>"
    )
    assert "<wbr>" not in page.verbatim("a_b.c") + page.figure(b"", alt="a_b.c", caption="")
    assert "<title>a_b</title>" in page.page("a_b", "", [])


@pytest.mark.usefixtures("no_figures")
def test_the_data_file_is_identified_by_its_fingerprint(tmp_path):
    file = tmp_path / "table.csv"
    file.write_bytes(b"a,b\n1,2\n")
    text = text_of(iso.report(made_draws(), tmp_path / "page.html", data=file).read_text())
    assert hashlib.sha256(b"a,b\n1,2\n").hexdigest() in text
    assert "table.csv" in text


@pytest.mark.usefixtures("no_figures")
def test_without_matplotlib_the_page_says_so(tmp_path):
    html = iso.report(made_draws(), tmp_path / "page.html").read_text()
    assert "<img" not in html
    assert "pip install &#x27;isotherm[plots]&#x27;" in html


def test_records_come_back_from_json():
    draws = made_draws()
    diagnosis = made_diagnosis(draws)
    record = json.loads(json.dumps(diagnosis_to_json(diagnosis), allow_nan=False))
    again = diagnosis_from_json(record, diagnosis.summary)
    assert diagnosis_to_json(again) == record
    assert (again.verdict, again.notes, again.thermostat) == (
        diagnosis.verdict,
        diagnosis.notes,
        diagnosis.thermostat,
    )
    assert again.blocks[0].ess_tail != again.blocks[0].ess_tail  # NaN
    assert again.blocks[0].kinetic_temperature is None
    rows = json.loads(json.dumps(summary_to_json(diagnosis.summary), allow_nan=False))["rows"]
    assert rows[0]["name"] == "intercept"


def test_what_to_cite_is_what_the_repository_says():
    cff = (Path(__file__).parents[2] / "CITATION.cff").read_text()
    plain = citation.PAPER.replace("{", "").replace("}", "")
    for title in re.findall(r'^\s*title: "(.*)"$', cff, re.MULTILINE):
        assert title in plain or title in citation.software("0").replace("{", "").replace("}", "")
    for family in re.findall(r"family-names: (\w+)", cff):
        assert family in plain
    assert re.search(r"^    year: 2015$", cff, re.MULTILINE)
    assert "2015" in plain


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_all_of_it(dark, whole, tmp_path):
    """On a phone and a desktop nothing overflows, all figures are shown, and text has enough contrast."""
    screens, console = look(whole[1], tmp_path, dark=dark)
    assert console == []
    assert [screen["width"] for screen in screens] == [400, 1200]
    for screen in screens:
        assert screen["scroll"] <= screen["width"]
        assert len(screen["figures"]) == 4
        for figure in screen["figures"]:
            assert figure["natural"] > 0
            assert figure["inside"]
            assert figure["width"] > 300
            assert figure["height"] > 100
            assert figure["alt"]
        assert screen["contrast"] >= 4.5  # WCAG AA
    assert (screens[0]["ground"] == "rgb(253, 253, 252)") is not dark


@pytest.mark.slow
def test_a_browser_sees_what_is_wrong(tmp_path):
    """A page with every fault that the test above looks for: the measurements must find them."""
    bad = page.page("Wide", "pale", [])
    bad = bad.replace("<main>", '<main><figure><img src="data:image/png;base64,AAAA" alt=""></figure>')
    bad = bad.replace("</main>", '<div style="width: 900px">.</div><p style="color: #ddd">pale</p></main>')
    bad += "<script>console.error('a fault')</script>"
    path = tmp_path / "bad.html"
    path.write_text(bad)
    (screen,), console = look(path, tmp_path, widths=(400,))
    assert screen["scroll"] >= 900
    assert screen["figures"][0]["natural"] == 0
    assert screen["contrast"] < 2
    assert any("a fault" in line for line in console)
