"""What priors say of a target: distributions by hand, sentences, and warnings where they are absurd."""

import numpy as np
import pytest
from scipy import stats

import isotherm as iso
from isotherm.tables.families import Prior
from support.made_effects import MIXED, TIGHT, rows

pytestmark = pytest.mark.usefixtures("quick_compilation")
T = iso.tables
ROWS = rows(120)


def shown(formula, family, **scales):
    model = T.regression(formula, ROWS, family=family, prior=Prior(**scales), progress=False)
    return T.prior_predictive(model, num_draws=1000)


def test_expected_responses_have_the_sd_of_the_prior():
    """Of a normal regression: sqrt(5^2 + 2.5^2 z^2) sd of the target around its mean, 5 standard errors each."""
    found = shown("cost ~ km", "linear")
    z = (ROWS["km"] - ROWS["km"].mean()) / ROWS["km"].std()
    sd = ROWS["cost"].std() * np.sqrt(25 + 6.25 * z**2)
    assert np.all(np.abs(found.response.std(axis=0) / sd - 1) < 5 * 2000**-0.5)
    assert np.all(np.abs(found.response.mean(axis=0) - ROWS["cost"].mean()) < 5 * sd * 1000**-0.5)
    np.testing.assert_allclose(found.data, ROWS["cost"], rtol=1e-5)
    sigma = found.params["sigma"] / ROWS["cost"].std()
    assert stats.kstest(sigma, "expon").statistic < (np.log(2 / 1e-6) / 2000) ** 0.5
    noise = (found.target - found.response) / found.params["sigma"][:, None]
    assert abs(noise.std() - 1) < 5 * (2 * noise.size) ** -0.5 + 1e-3


def test_counts_that_no_one_expects_are_warned_of():
    wide = shown(MIXED, "poisson")
    low, high = np.quantile(wide.target, (0.05, 0.95))
    assert f"9 of 10 counts of `claims` lie between {low:.3g} and {high:.3g}" in wide.sentences[0]
    assert "more than 1,000 times the largest of the data" in wide.warnings[0]
    tight = shown(MIXED, "poisson", **TIGHT)
    assert tight.warnings == ()
    assert "warning" not in str(tight)
    data = {x.name: x.data for x in tight.statistics}
    assert data["share of zeros"] == pytest.approx(np.mean(ROWS["claims"] == 0))


def test_probabilities_near_zero_and_one_are_warned_of():
    wide = shown("ill ~ km + age", "logistic", coefficients=25.0, intercept=20.0)
    share = np.mean((wide.response < 0.01) | (wide.response > 0.99))
    assert f"below 1 % or above 99 % in {100 * share:.0f} % of the rows" in wide.sentences[0]
    assert "all but certain before the data are seen" in wide.warnings[0]
    assert shown("ill ~ km + age", "logistic", coefficients=0.5, intercept=1.0).warnings == ()


def test_classes_and_wide_numbers():
    grades = shown("grade ~ km", "ordinal", coefficients=0.3, intercept=1.0)
    assert "the most probable class of `grade` has a probability above 99 %" in grades.sentences[0]
    assert [x.name for x in grades.statistics] == ["share of 0", "share of 1", "share of 2"]
    wide = shown("cost ~ km", "linear", intercept=500.0)
    assert "times as wide as the data are" in wide.warnings[0]


def test_predictions_along_the_columns_of_the_table():
    model = T.regression(MIXED, ROWS, family="poisson", prior=Prior(**TIGHT), progress=False)
    found = T.prior_predictive(model, ROWS, num_draws=50)
    assert [x.column for x in found.lines] == ["sex", "km", "region", "broker", "age"]
    km = next(x for x in found.lines if x.column == "km")
    assert km.draws.shape == (40, len(km.values))
    # With the other columns fixed, the log of the mean is a straight line in km, as there is no other term of km.
    log = np.log(km.draws)
    slope = np.diff(log, axis=1) / np.diff(km.values)
    np.testing.assert_allclose(slope, slope[:, :1] + 0 * slope, atol=1e-4)


def test_what_cannot_be_drawn_is_named():
    model = T.regression("cost ~ km", ROWS, progress=False)
    with pytest.raises(ValueError, match="`num_draws` must be an integer of at least 10"):
        T.prior_predictive(model, num_draws=3)
