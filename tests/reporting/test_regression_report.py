"""The report of a regression answers first: effects, rows, fit, dependence; and a browser shows it."""

import dataclasses
import re
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm as iso
from isotherm.draws.record import About
from isotherm.reporting.regression import figures, with_fit
from isotherm.tables import fit as fit_module
from isotherm.tables.coefficients import correlations, effects
from isotherm.tables.fit import Fit, fit_of
from isotherm.tables.regressions import regression
from isotherm.typed_json import typed
from support.browser import look
from support.made import made

pytest.importorskip("matplotlib")
ROWS = 4000


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def draws_of(model, columns, coefficients, *, sd=0.01, correlated=None, **scale):
    """Draws around `coefficients` for a regression of the column `y`, which hold its rows as those of a run do."""
    found = regression(model, columns, "y", progress=False)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4, 100, *coefficients.shape))
    if correlated is not None:
        noise[..., correlated[1]] = -0.99 * noise[..., correlated[0]] + 0.1 * noise[..., correlated[1]]
    posterior = {"coefficients": coefficients + sd * noise}
    posterior |= {name: np.full((4, 100), value) for name, value in scale.items()}
    draws = made(posterior, num_data=ROWS, num_parameters=coefficients.size)
    problem = SimpleNamespace(
        posterior=found.posterior, data=jax.tree.map(jnp.asarray, found.data), num_data=ROWS
    )
    about = About(f"Regression of y: {model}", found.description, {"file": "table.csv", "rows": ROWS})
    return dataclasses.replace(
        draws, about=about, labels=found.labels, setup=SimpleNamespace(problem=problem)
    )


def logistic(names=("slope", "weak"), scales=(10.0, 1.0)):
    """Two columns and a category. The first column has the smaller coefficient and the larger effect."""
    rng = np.random.default_rng(1)
    columns = {name: scale * rng.normal(size=ROWS) for name, scale in zip(names, scales, strict=True)}
    columns["region"] = rng.choice(np.array(["east", "south"], object), ROWS)
    eta = -2 + 0.1 * columns[names[0]] + 0.2 * columns[names[1]]
    columns["y"] = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-eta)), "yes", "no").astype(object)
    return columns, np.array([-2, 0.1, 0.2, 0.0])


def text_of(path):
    html = path.read_text().replace("<wbr>", "")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html[html.index("<body>") :])).replace(" .", ".")


def test_effects_are_per_unit_and_per_standard_deviation_and_the_largest_is_first():
    columns, coefficients = logistic()
    draws = draws_of("logistic", columns, coefficients)
    found = effects(draws, draws.summary())
    assert [effect.name for effect in found] == ["slope", "weak", "region=south"]
    sd = columns["slope"].std()
    assert found[0].mean == pytest.approx(0.1, abs=0.003)
    assert found[0].column_sd == pytest.approx(sd)
    scaled = found[0].per_sd()
    assert (scaled.mean, scaled.low, scaled.high) == pytest.approx(
        (sd * found[0].mean, sd * found[0].low, sd * found[0].high)
    )
    assert [effect.clear for effect in found] == [True, True, False]


def test_dependent_columns_are_named():
    columns, coefficients = logistic()
    (first, *_) = correlations(draws_of("logistic", columns, coefficients, correlated=(1, 2)))
    assert first[:2] == ("slope", "weak")
    assert first[2] == pytest.approx(-0.99, abs=0.01)


@pytest.mark.usefixtures("no_figures")
def test_the_page_of_a_classification_answers_before_it_shows_chains(tmp_path):
    columns, coefficients = logistic()
    draws = draws_of("logistic", columns, coefficients, correlated=(1, 2))
    path = iso.report(draws, tmp_path / "page.html")
    text, html = text_of(path), path.read_text()
    headings = re.findall(r"<h2>(.*?)</h2>", html)
    answers = [
        "Effects",
        "Rows",
        "How well the model describes the data",
        "Columns that depend on each other",
    ]
    begin = headings.index("Effects")
    assert headings[begin : begin + 5] == [*answers, "Effects in numbers"]
    assert begin < headings.index("What the chains did")
    ratio = np.exp(draws["slope"].mean() * columns["slope"].std())
    assert f"One standard deviation more of slope multiplies the odds of y = yes by {ratio:.1f}" in text
    assert "The 90 % intervals of 2 of 3 effects exclude" in text
    count = np.sum(columns["y"] == "yes")
    assert f"The base rate: y is yes in {100 * count / ROWS:.1f} % of them ({count:,} rows)." in text
    fit = fit_of(draws)
    assert f"AUC {fit.auc:.3f} ± {fit.auc_error:.3f}, on all rows" in text
    assert "slope and weak (-0.99)" in text
    assert "odds ratio per unit" in text
    assert "Levels of a category are compared with the first: region = east." in text
    assert "column sd" not in text
    assert f"rows used {ROWS:,}" in text


def test_the_figure_of_effects_has_the_largest_first_as_ratios_on_a_logarithmic_axis():
    columns, coefficients = logistic()
    draws = draws_of("logistic", columns, coefficients)
    figure = figures(draws, draws.summary())["effects"]
    ax, found = figure.axes[0], effects(draws, draws.summary())
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [effect.name for effect in found]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    none, interval, mean = ax.lines[:3]
    per_sd = found[0].per_sd()
    assert list(none.get_xdata()) == [1.0, 1.0]
    np.testing.assert_allclose(interval.get_xdata(), np.exp([per_sd.low, per_sd.high]))
    np.testing.assert_allclose(mean.get_xdata(), np.exp(per_sd.mean))
    assert ax.get_xscale() == "log"
    assert ax.lines[-1].get_alpha() < 1  # no effect
    assert len(ax.get_xticks()) >= 3


@pytest.mark.usefixtures("no_figures")
def test_the_fit_is_stored_and_a_page_from_a_file_has_it(tmp_path):
    columns, coefficients = logistic()
    draws = draws_of("logistic", columns, coefficients)
    with_fit(draws).save(tmp_path / "draws.iso")
    again = iso.load(tmp_path / "draws.iso")
    assert typed(Fit, again.about.fit, "fit") == fit_of(draws)
    assert "AUC" in text_of(iso.report(again, tmp_path / "page.html"))
    draws.save(tmp_path / "draws.iso")
    assert "It was not measured" in text_of(
        iso.report(iso.load(tmp_path / "draws.iso"), tmp_path / "page.html")
    )


@pytest.mark.parametrize("model", ["linear", "student-t", "poisson", "negative-binomial"])
def test_data_from_the_model_are_inside_the_intervals_of_replicated_data(model):
    """Each of the four intervals holds 99 %, so that 4 % of seeds have one outside; this seed has none."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=ROWS)
    rate = np.exp(0.5 + 0.3 * x)
    y = {
        "linear": lambda: 100 + 0.3 * x + 2 * rng.normal(size=ROWS),
        "student-t": lambda: 100 + 0.3 * x + 2 * rng.standard_t(4, size=ROWS),
        "poisson": lambda: rng.poisson(rate),
        "negative-binomial": lambda: rng.poisson(rate * 0.8 * rng.gamma(1 / 0.8, size=ROWS)),
    }[model]()
    center = 0.5 if "o" in model and model[0] in "pn" else 100.0
    scale = {"linear": {"sigma": 2.0}, "student-t": {"sigma": 2.0}, "negative-binomial": {"dispersion": 0.8}}
    columns = {"x": x, "y": np.asarray(y, float)}
    draws = draws_of(model, columns, np.array([center, 0.3]), sd=1e-3, **scale.get(model, {}))
    fit = fit_of(draws)
    assert [check.statistic for check in fit.checks if not check.holds] == []
    assert fit.checks[0].data == pytest.approx(columns["y"].mean(), rel=1e-5)


@pytest.mark.usefixtures("no_figures")
def test_counts_that_vary_too_much_for_the_model_are_outside(tmp_path):
    rng = np.random.default_rng(4)
    x = rng.normal(size=ROWS)
    columns = {"x": x, "y": rng.poisson(np.exp(0.3 * x) * rng.gamma(1, size=ROWS)).astype(float)}
    draws = draws_of("poisson", columns, np.array([0.0, 0.3]))
    text = text_of(iso.report(draws, tmp_path / "page.html"))
    assert "They differ in: " in text
    assert re.search(r"share of zeros 0\.\d+ 0\.\d+ 0\.\d+ to 0\.\d+ no", text)
    assert "multiplies the mean of y by 1.3" in text


@pytest.mark.usefixtures("no_figures")
def test_of_several_classes_each_is_compared_with_the_first_and_the_largest_effects_are_listed(tmp_path):
    rng = np.random.default_rng(5)
    columns = {"u": rng.normal(size=ROWS), "v": 5 * rng.normal(size=ROWS)}
    columns["y"] = rng.choice(np.array(["apple", "fig", "kiwi"], object), ROWS, p=[0.5, 0.3, 0.2])
    draws = draws_of("softmax", columns, np.array([[-0.5, 0.1, 0.0], [-0.9, 0.0, 0.2]]), correlated=None)
    assert [effect.name for effect in effects(draws, draws.summary())][:2] == ["kiwi: v", "fig: u"]
    assert {tuple(name.split(": ")[0] for name in pair[:2]) for pair in correlations(draws)} == {
        ("fig", "fig"),
        ("kiwi", "kiwi"),
    }
    text = text_of(iso.report(draws, tmp_path / "page.html"))
    assert "One standard deviation more of v multiplies the odds of kiwi against apple by 2.7" in text
    shares = [100 * int(np.sum(columns["y"] == name)) / ROWS for name in ("apple", "fig", "kiwi")]
    assert f"apple {shares[0]:.1f} %, fig {shares[1]:.1f} %, kiwi {shares[2]:.1f} %" in re.sub(
        " +", " ", text
    )
    assert "The calibration error, on all rows, is 0." in text
    assert "AUC" not in text


def test_of_many_rows_evenly_spaced_ones_are_compared_and_the_page_says_how_many(
    monkeypatch, no_figures, tmp_path
):
    columns, coefficients = logistic()
    monkeypatch.setattr(fit_module, "_MOST_ROWS", 500)
    draws = draws_of("logistic", columns, coefficients)
    assert fit_of(draws).num_rows == 500
    assert "on 500 of the rows that the model was fitted to" in text_of(
        iso.report(draws, tmp_path / "page.html")
    )


def test_names_of_columns_are_text_in_figures_and_on_the_page(tmp_path):
    names = ("$x$ <script>", "a\u202eb\n" + "long_" * 20)
    columns, coefficients = logistic(names)
    html = iso.report(draws_of("logistic", columns, coefficients), tmp_path / "page.html").read_text()
    assert "<script>" not in html
    assert "\u202e" not in html


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_the_answers_on_a_phone_and_a_desktop(dark, tmp_path):
    names = ("income_in_thousands_of_euros_per_year_before_tax", "temperature.of.the:door=open_in_kelvin")
    columns, coefficients = logistic(names)
    path = iso.report(draws_of("logistic", columns, coefficients), tmp_path / "page.html")
    screens, console = look(path, tmp_path, widths=(390, 1280), dark=dark)
    assert console == []
    for screen in screens:
        assert screen["scroll"] <= screen["width"]
        shown = {figure["alt"]: figure for figure in screen["figures"]}
        effects_figure = shown["Effects of the columns with their intervals, sorted by size"]
        for figure in (effects_figure, shown["Observed shares against predicted probabilities"]):
            assert figure["natural"] > 0
            assert figure["inside"]
            assert figure["width"] > 300
        assert screen["contrast"] >= 4.5
