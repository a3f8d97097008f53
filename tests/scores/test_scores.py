"""Scores against hand calculation, scikit-learn and scipy, and on forecasts that are calibrated by construction."""

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn import metrics
from sklearn.calibration import calibration_curve

from isotherm import scores
from isotherm.prediction.record import over_draws
from support.monte_carlo import LIMIT, assert_chi_square, assert_mean


@pytest.fixture
def rng():
    """A generator for one test: with a shared one, the numbers would depend on the tests that ran before."""
    return np.random.default_rng(0)


def binary(rng, n):
    """Calibrated forecasts: each event comes true with its predicted probability."""
    p = rng.beta(0.7, 0.7, size=n)
    return p, (rng.random(n) < p).astype(int)


def several(rng, n, classes=4):
    p = rng.dirichlet(np.full(classes, 0.6), size=n)
    return p, (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)


def test_two_classes_by_scikit_learn(rng):
    p, y = binary(rng, 500)
    found = scores.classification(p, y)
    assert found.accuracy == scores.accuracy(p, y) == pytest.approx(metrics.accuracy_score(y, p > 0.5))
    assert found.negative_log_likelihood == pytest.approx(metrics.log_loss(y, p))
    assert found.brier == scores.brier(p, y) == pytest.approx(metrics.brier_score_loss(y, p))
    observed, predicted = calibration_curve(y, p, n_bins=10)
    np.testing.assert_allclose(found.curve.observed, observed)
    np.testing.assert_allclose(found.curve.predicted, predicted)
    other = scores.classification(p, 2 * y - 1)
    assert (other.brier, other.calibration_error) == (found.brier, found.calibration_error)
    equal = scores.calibration(p, y, bins=5, equal_mass=True)
    observed, predicted = calibration_curve(y, p, n_bins=5, strategy="quantile")
    np.testing.assert_allclose(equal.observed, observed)
    np.testing.assert_allclose(equal.predicted, predicted)
    assert equal.count.tolist() == [100] * 5


def test_several_classes_by_scikit_learn(rng):
    p, y = several(rng, 400)
    found = scores.classification(p, y)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, p.argmax(axis=1)))
    assert found.negative_log_likelihood == pytest.approx(metrics.log_loss(y, p, labels=range(4)))
    assert found.brier == pytest.approx(metrics.brier_score_loss(y, p, labels=range(4), scale_by_half=False))
    assert "most probable" in found.curve.predicted_as
    two, labels = binary(rng, 50)
    columns = np.column_stack([1 - two, two])
    assert scores.brier(columns, labels) == pytest.approx(2 * scores.brier(two, labels))
    assert scores.negative_log_likelihood(columns, labels) == pytest.approx(
        scores.negative_log_likelihood(two, labels)
    )


def test_a_calibration_curve_by_hand():
    p = np.array([0.1, 0.1, 0.3, 0.9, 0.9, 0.8, 1.0])
    y = np.array([0, 1, 0, 1, 1, 0, 1])
    curve = scores.calibration(p, y, bins=2)
    np.testing.assert_allclose(curve.predicted, [0.5 / 3, 3.6 / 4])
    np.testing.assert_allclose(curve.observed, [1 / 3, 3 / 4])
    np.testing.assert_allclose(curve.error, [np.sqrt(0.09 * 2 + 0.21) / 3, np.sqrt(0.09 * 2 + 0.16) / 4])
    assert curve.calibration_error == pytest.approx((3 * (1 / 3 - 0.5 / 3) + 4 * (0.9 - 0.75)) / 7)
    assert curve.count.tolist() == [3, 4]
    together = scores.calibration(np.array([0.2] * 8 + [0.7] * 2), np.zeros(10), bins=5, equal_mass=True)
    assert together.count.tolist() == [8, 2]
    assert "cases" in str(curve)


@pytest.mark.parametrize("make", [binary, several], ids=["two classes", "several"])
def test_calibrated_forecasts_are_found_calibrated_and_others_not(make, rng):
    """z of each bin is standard normal; the sum of squares is chi-square with one degree of freedom per bin."""
    p, y = make(rng, 20_000)
    curve = scores.calibration(p, y, bins=20, equal_mass=True)
    z = (curve.observed - curve.predicted) / curve.error
    assert_chi_square(float(np.sum(z**2)), len(z))
    sharper = (
        np.clip(1.5 * (p - 0.5) + 0.5, 0, 1) if p.ndim == 1 else p**2 / (p**2).sum(axis=1, keepdims=True)
    )
    found = scores.classification(sharper, y)
    assert found.calibration_error > 0.05 > 5 * found.curve.by_chance


def test_calibration_error_by_chance(rng):
    """The mean error of correct probabilities, over 400 sets of 500 forecasts."""
    found = [scores.calibration(*binary(rng, 500), equal_mass=True) for _ in range(400)]
    assert_mean([curve.calibration_error - curve.by_chance for curve in found], 0.0)


def normal_forecasts(rng, rows, m, spread=1.0):
    """Draws from N(centre, spread^2), and outcomes from N(centre, 1)."""
    centre = rng.normal(size=rows) * 3
    return centre + spread * rng.normal(size=(m, rows)), centre + rng.normal(size=rows)


def test_crps_by_hand_by_integration_and_without_bias(rng):
    values, y = np.array([[0.0], [1.0], [4.0]]), np.array([2.0])
    assert scores.crps(values, y)[0] == pytest.approx((2 + 1 + 2) / 3 - (1 + 4 + 3) / 6)
    x = rng.normal(size=200)
    pairs = np.abs(x[:, None] - x[None]).sum() / (200 * 199)
    assert scores.crps(x[:, None], np.array([0.3]))[0] == pytest.approx(np.abs(x - 0.3).mean() - pairs / 2)
    exact = integrate.quad(lambda t: (stats.norm.cdf(t) - (t >= 0.3)) ** 2, -12, 12, points=[0.3])[0]
    # Five draws per forecast are enough because the score is unbiased.
    few = rng.normal(size=(5, 20_000))
    assert_mean(scores.crps(few, np.full(20_000, 0.3)), exact)


@pytest.mark.parametrize(("m", "intervals"), [(7, (1 / 3, 2 / 3)), (101, (0.5, 0.8))])
def test_calibrated_draws_have_their_coverage_and_ranks(m, intervals, rng):
    """If the quantiles p and q of m draws are draws, the interval between them covers (m - 1) (q - p) / (m + 1)."""
    rows = 20_000
    values, y = normal_forecasts(rng, rows, m)
    found = scores.regression(values, y, intervals=intervals)
    for interval in found.intervals:
        expected = interval.probability * (m - 1) / (m + 1)
        assert abs(interval.coverage - expected) < LIMIT * np.sqrt(expected * (1 - expected) / rows)
    assert np.all(np.abs(found.curve.observed - found.curve.predicted) < LIMIT * found.curve.error)
    ranks = scores.pit(values, y) * (m + 1) - 0.5
    counts = np.bincount(np.round(ranks).astype(int), minlength=m + 1)
    assert_chi_square(float(np.sum((counts - rows / (m + 1)) ** 2) / (rows / (m + 1))), m)
    # The variances, about the centre, of the outcome and of the mean of m draws.
    assert abs(found.rmse**2 / (1 + 1 / m) - 1) < LIMIT * np.sqrt(2 / rows)


def test_draws_that_are_too_narrow_are_found_out(rng):
    values, y = normal_forecasts(rng, 5000, 400, spread=0.5)
    found = scores.regression(values, y)
    for interval in found.intervals:
        reach = stats.norm.ppf((1 + interval.probability) / 2)
        exact = 2 * stats.norm.cdf(reach / 2) - 1
        # In each row, the quantiles of 400 draws are known to one or two hundredths of a standard deviation.
        assert interval.coverage == pytest.approx(exact, abs=LIMIT * interval.error + 0.01)
        assert interval.width == pytest.approx(reach, rel=0.02)
    assert found.curve.calibration_error > 10 * found.curve.by_chance
    assert "90 % intervals cover" in str(found)


def test_a_prediction_is_judged_as_its_draws_are(rng):
    """Bit for bit if the levels are equal as floats. (1 - 0.9) / 2 is 0.04999999999999999, not 0.05."""
    values, y = normal_forecasts(rng, 50, 200)
    whole = scores.regression(values, y, intervals=(0.5, 0.9))
    levels = ((1 - 0.9) / 2, (1 - 0.5) / 2, 0.5, (1 + 0.5) / 2, (1 + 0.9) / 2)
    made = scores.regression(over_draws(values, levels, y), y)
    assert (made.rmse, made.crps, made.intervals) == (whole.rmse, whole.crps, whole.intervals)
    np.testing.assert_array_equal(made.curve.observed, whole.curve.observed)
    # Levels as a user writes them: a quantile at 0.05 differs from one at 0.04999999999999999 by rounding alone.
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    written = scores.regression(over_draws(values, levels, y), y)
    assert (written.rmse, written.crps) == (whole.rmse, whole.crps)
    for a, b in zip(written.intervals, whole.intervals, strict=True):
        assert (a.probability, a.coverage, a.error) == (b.probability, b.coverage, b.error)
        assert a.width == pytest.approx(b.width, rel=1e-13)
    blind = scores.regression(over_draws(values, levels), y)
    assert blind.crps is blind.curve is None
    assert "crps" not in str(blind)


def test_ties_count_half(rng):
    """Counts, which often tie with the outcome: the mean transform is still 1/2."""
    rows, m = 5000, 50
    rate = rng.gamma(2.0, size=rows)
    assert_mean(scores.pit(rng.poisson(rate, size=(m, rows)), rng.poisson(rate)), 0.5)


def test_bad_input_is_refused(rng):
    p, y = binary(rng, 10)
    with pytest.raises(ValueError, match=r"`probabilities` must be between 0 and 1; got 1.5. Predict prob"):
        scores.classification(np.r_[p[:-1], 1.5], y)
    with pytest.raises(ValueError, match=r"`probabilities` must be between 0 and 1; got nan"):
        scores.classification(np.r_[p[:-1], np.nan], y)
    with pytest.raises(ValueError, match=r"`y` must be 0 or 1, or -1 or 1, for two classes; got \[0, 1, 2\]"):
        scores.accuracy(p, np.r_[y[:-3], 0, 1, 2])
    with pytest.raises(ValueError, match=r"of sum 1 in each row; got 0.5"):
        scores.brier(np.full((10, 2), 0.25), y)
    with pytest.raises(ValueError, match="an integer from 0 to 1"):
        scores.brier(np.full((10, 2), 0.5), y + 1)
    with pytest.raises(ValueError, match="`y` must be one label for each of 10 rows"):
        scores.brier(p, y[:4])
    with pytest.raises(ValueError, match=r"`forecast` must be draws of shape \(draw, 10\)"):
        scores.regression(p, p)
    with pytest.raises(ValueError, match=r"`pit` must be .* between 0 and 1"):
        scores.pit_calibration(np.array([0.5, 2.0]))


def test_auc_is_the_share_of_pairs_in_the_right_order():
    """By definition over all pairs, ties counted half; its error beside the spread over 2,000 data sets."""
    rng = np.random.default_rng(0)

    def sample(n):
        y = rng.random(n) < 0.3
        return np.round(1 / (1 + np.exp(-rng.normal(size=n) - y)), 2), y.astype(int)

    p, y = sample(300)
    second, first = p[y == 1][:, None], p[y == 0]
    value, error = scores.auc(p, y)
    assert value == pytest.approx(np.mean((second > first) + 0.5 * (second == first)))
    values = [scores.auc(*sample(300))[0] for _ in range(2000)]
    assert error == pytest.approx(np.std(values), rel=0.15)
    with pytest.raises(ValueError, match="`y` must be labels of both classes"):
        scores.auc(p, np.ones(300, int))
    with pytest.raises(ValueError, match="`probabilities` must be of shape"):
        scores.auc(np.full((2, 2), 0.5), np.array([0, 1]))
