"""Figures of predictions along columns, of groups, curves and priors: what is drawn, and names as they are."""

import matplotlib
import numpy as np
import pytest

import isotherm as iso
from support.made_effects import MIXED, TIGHT, drawn, rows
from support.made_forecast import made_forecast, table

matplotlib.use("agg")
pytestmark = pytest.mark.usefixtures("quick_compilation")
T, plots = iso.tables, iso.plots
NEW = table(30, seed=3)
ROWS = rows(60)


def test_a_column_of_numbers_is_a_line_with_its_band():
    found = T.effects(made_forecast("logistic"), NEW, "age")
    (ax,) = plots.effects_along(found).axes
    np.testing.assert_allclose(ax.lines[0].get_ydata(), found.mean)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((found.low.min(), found.high.max()))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "probability that y is b")


def test_levels_are_points_and_classes_have_a_legend():
    found = T.effects(made_forecast("softmax"), NEW, "sex")
    figure = plots.effects_along(found)
    (ax,) = figure.axes
    assert [x.get_text() for x in ax.get_yticklabels()] == ["f", "m"]
    assert [x.get_text() for x in figure.legends[0].get_texts()] == ["a", "b", "c"]
    np.testing.assert_allclose([line.get_xdata() for line in ax.lines], found.mean.T)


def test_groups_and_curves():
    draws = drawn(MIXED, ROWS, "poisson")
    levels = T.group_effects(draws, "region")
    (ax,) = plots.group_levels(levels).axes
    assert [x.get_text() for x in ax.get_yticklabels()] == list(levels.levels)
    curve = T.curve(draws, "age")
    (ax,) = plots.smooth(curve).axes
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), curve.mean)


def test_priors_beside_the_data_and_names_that_look_like_formulas():
    columns = {"$a_b^c$": ROWS["km"], "sex": ROWS["sex"], "claims": ROWS["claims"]}
    prior = T.families.Prior(**TIGHT)
    model = T.regression("poisson", columns, "claims", prior=prior, progress=False)
    found = T.prior_predictive(model, columns, num_draws=50)
    figure = plots.prior_predictive(found)
    figure.savefig("/dev/null", format="png")
    labels = [ax.get_xlabel() for ax in figure.axes]
    names = [f"{x} of claims" for x in ("mean", "standard deviation")]
    assert labels == [*names, "share of zeros", "largest of claims", "$a_b^c$", "sex"]
    assert figure.axes[0].lines[0].get_xdata()[0] == pytest.approx(ROWS["claims"].mean())
    wide = T.regression("poisson", columns, "claims", progress=False)
    figure = plots.prior_predictive(T.prior_predictive(wide, columns, num_draws=50))
    assert figure.axes[0].get_xscale() == "asinh"
    figure.savefig("/dev/null", format="png")
