"""Observed targets beside replicated ones, by level: calibrated where the model is right, far off where it is not."""

import numpy as np
import pytest

import isotherm as iso
from support.made_effects import drawn, rows

pytestmark = pytest.mark.usefixtures("quick_compilation")
T = iso.tables


def fixed(draws, **values):
    """Return the draws with each parameter at its value."""
    for name, x in draws.posterior.items():
        x[...] = values[name]
    return draws


def made_up(levels, each, *, shift=0.0):
    """Return rows of `levels` levels from a normal model with the mean 1 + 0.1 km; one level is shifted."""
    columns, rng = rows(levels * each, regions=levels), np.random.default_rng(5)
    columns["cost"] = 1 + 0.1 * columns["km"] + 0.5 * rng.normal(size=levels * each)
    columns["cost"] += shift * (columns["region"] == "r00003")
    draws = fixed(drawn("cost ~ km", columns, "linear"), coefficients=np.array([1, 0.1]), sigma=0.5)
    return draws, columns


def test_a_tenth_lies_outside_of_90_percent_if_the_model_is_right():
    """Of 300 levels, 10 % and a little for the ends of intervals from 200 data sets: 4.5 standard errors, 1e-5."""
    draws, columns = made_up(300, 4)
    found = T.checks_by(draws, columns, "region")
    share = found.outside / 300
    assert abs(share - 0.105) < 4.5 * (0.1 * 0.9 / 300) ** 0.5
    assert len(found.checks) == 300
    assert f"{found.outside} of 300 lie outside 90 %" in str(found)
    assert "by chance about 30 would" in str(found)


def test_replicated_means_have_the_moments_of_the_model():
    """A mean of n rows is normal with sd 0.5 / sqrt(n); from 200 data sets, 5 standard errors each."""
    draws, columns = made_up(5, 40)
    for check in T.checks_by(draws, columns, "region").checks:
        which = columns["region"] == check.level
        mean, sd = np.mean(1 + 0.1 * columns["km"][which]), 0.5 / 40**0.5
        assert check.observed == pytest.approx(columns["cost"][which].mean(), rel=1e-6)
        assert abs(check.mean - mean) < 5 * sd / 200**0.5
        # The 5 % quantile of 200 normal variables has a standard error of 0.15 sd.
        assert abs(check.low - (mean - 1.645 * sd)) < 5 * 0.15 * sd
        assert check.rows == 40
        assert check.distance == pytest.approx((check.observed - mean) / sd, abs=0.6 + 0.25 * abs(check.distance))


def test_a_level_that_the_model_does_not_know_of_is_first():
    draws, columns = made_up(20, 30, shift=1.0)
    first = T.checks_by(draws, columns, "region").checks[0]
    assert first.level == "r00003"
    assert first.distance > 5
    assert not first.holds


def test_counts_have_a_share_of_zeros_and_classes_their_shares():
    columns = rows(80)
    counts = T.checks_by(drawn("claims ~ km", columns, "poisson"), columns, "sex")
    assert {(x.level, x.statistic) for x in counts.checks} == {
        (level, name) for level in "fm" for name in ("mean", "share of zeros")
    }
    f = next(x for x in counts.checks if (x.level, x.statistic) == ("f", "share of zeros"))
    assert f.observed == pytest.approx(np.mean(columns["claims"][columns["sex"] == "f"] == 0))
    shares = T.checks_by(drawn("ill ~ km", columns, "logistic"), columns, "sex")
    assert {x.statistic for x in shares.checks} == {"share of yes"}
    grades = T.checks_by(drawn("grade ~ km", columns, "ordinal"), columns, "broker")
    own = [x for x in grades.checks if x.level == "2"]
    assert {x.statistic for x in own} == {"share of 0", "share of 1", "share of 2"}
    assert sum(x.observed for x in own) == pytest.approx(1)


def test_numbers_are_cut_into_ten_groups():
    draws, columns = made_up(5, 40)
    found = T.checks_by(draws, columns, "age")
    assert len(found.checks) == 10
    assert {x.rows for x in found.checks} == {20}
    assert found.to_pandas().shape == (10, 9)


def test_censored_times_are_refused():
    columns = rows(60)
    columns["time"], columns["lost"] = columns["years"], (np.arange(60) % 9 == 0).astype(float)
    draws = drawn("time | cens(lost) ~ km", columns, "weibull")
    with pytest.raises(ValueError, match="without censored rows"):
        T.checks_by(draws, columns, "sex")
