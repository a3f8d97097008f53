"""The report of a regression by formula: groups, curves, and sentences on names of formulas."""

import re

import numpy as np
import pytest

import isotherm as iso
from isotherm.reporting.effects import _largest
from isotherm.reporting.groups import correlations, scales, term_figures
from isotherm.tables.coefficient_names import is_alone, is_interaction, level_of
from isotherm.tables.coefficients import effects
from isotherm.tables.fitted import fitted
from support.made_effects import MIXED, drawn, rows

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("quick_compilation")
ROWS = rows(80)


def text_of(path):
    html = path.read_text().replace("<wbr>", "")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html[html.index("<body>") :]))


def with_effects(draws, **values):
    """Return the draws with coefficients moved to these means, by name."""
    for name, value in values.items():
        draws.posterior["coefficients"][..., draws.labels["coefficients"][0].index(name)] += value
    return draws


def sentence(formula, **values):
    draws = with_effects(drawn(formula, ROWS, "linear"), **values)
    return _largest(fitted(draws), effects(draws, draws.summary()))


def test_the_page_has_sections_on_groups_and_curves(tmp_path):
    draws = drawn(MIXED, ROWS, "poisson")
    path = iso.report(draws, tmp_path / "page.html")
    headings = re.findall(r"<h2>(.*?)</h2>", path.read_text())
    begin = headings.index("Effects")
    assert headings[begin : begin + 4] == ["Effects", "Groups", "Curves", "Rows"]
    text = text_of(path)
    assert "Intercept by region : The effects of the 6 levels have a standard deviation of" in text
    assert "correlation of Intercept, km by region" in text
    assert "s(age) : The standard deviation of the curve around a straight line is" in text
    assert "s(age).linear" not in text[: text.index("What the chains did")]  # the curve is read as a whole


def test_scales_and_correlations_are_those_of_the_draws():
    draws = drawn(MIXED, ROWS, "poisson")
    found = scales(draws)
    assert list(found) == ["Intercept by region", "km by region", "Intercept by broker", "s(age)"]
    assert found["km by region"].mean == pytest.approx(draws.posterior["sd_region"][..., 1].mean())
    (own,) = correlations(draws).values()
    assert own.low == pytest.approx(np.quantile(draws.posterior["cor_region"], 0.05))


def test_of_many_levels_forty_are_drawn():
    draws = drawn("cost ~ km + (1 | region)", rows(400, regions=400), "linear")
    figures = term_figures(draws)
    assert list(figures) == ["scales", "group_1_region_intercept"]
    axes = figures["group_1_region_intercept"].axes[0]
    assert len(axes.get_yticks()) == 40
    assert "the 40 most extreme of 400 levels" in figures["group_1_region_intercept"].get_suptitle()


def test_a_model_of_groups_alone_has_a_page(tmp_path):
    path = iso.report(drawn("ill ~ 1 + (1 | region)", ROWS, "logistic"), tmp_path / "page.html")
    headings = re.findall(r"<h2>(.*?)</h2>", path.read_text())
    assert "Groups" in headings
    assert "Effects" not in headings


def test_the_sentence_names_levels_columns_and_interactions():
    assert sentence("cost ~ sex + age", **{"sex[T.m]": 5.0}).startswith("`sex` = `m` instead of `f` changes")
    assert sentence("cost ~ C(broker) + age", **{"C(broker)[T.2]": 5.0}).startswith(
        "`broker` = `2` instead of `0` changes `cost`"
    )
    assert sentence("cost ~ sex + km", km=9.0).startswith("One standard deviation more of `km` changes")
    assert sentence("cost ~ log(km)", **{"log(km)": 5.0}).startswith(
        "One standard deviation more of `log(km)`"
    )
    crossed = sentence("cost ~ sex * km", **{"sex[T.m]:km": 90.0, "km": 5.0})
    assert crossed.startswith("One standard deviation more of `km`")
    assert "the largest effect of a column alone" in crossed
    assert "takes part in an interaction, `sex[T.m]:km`" in crossed
    poly = sentence("cost ~ poly(age, 2) + km", **{"poly(age, 2)[1]": 90.0})
    assert poly.startswith("One standard deviation more of `km`")


def test_names_of_coefficients_are_read():
    model = fitted(drawn("cost ~ sex * km + poly(age, 2) + C(broker)", ROWS, "linear"))
    assert level_of("sex[T.m]", model) == ("sex", "m", "`f`")
    assert level_of("C(broker)[T.3]", model) == ("broker", "3", "`0`")
    assert (
        level_of("C(broker, contr.treatment(2))[T.3]", model).reference
        == "the level that it is compared with"
    )
    assert level_of("km", model) is None
    assert is_interaction("sex[T.m]:km", model)
    assert not is_interaction("sex[T.a:b]", model)
    assert not is_alone("poly(age, 2)[2]", model)
    assert is_alone("C(broker)[T.3]", model)
