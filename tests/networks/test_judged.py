"""What held-out rows show about a network."""

import numpy as np
import pytest
from scipy.special import softmax

from isotherm.networks.judged import averaged, judged, of_classes, predictive, recalibrated, score, sharpest

RNG = np.random.default_rng(0)


def outcomes(p):
    return (p.cumsum(axis=1) > RNG.random((len(p), 1))).argmax(axis=1)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_power_undoes_a_power(power):
    """Outcomes are drawn from p. If predictions are p to the power 1/a, then a is found within its standard error."""
    p = softmax(1.5 * RNG.normal(size=(20_000, 4)), axis=1)
    y = outcomes(p)
    flat = recalibrated(p, 1 / power)
    found = sharpest(flat, y)
    # The curvature of the loss in log a is that of the variance of the log-probabilities.
    logs = np.log(p)
    information = np.sum(p * logs**2, axis=1) - np.sum(p * logs, axis=1) ** 2
    error = 1 / np.sqrt(information.sum())
    assert abs(np.log(found / power)) < 4.5 * error + 1e-3
    np.testing.assert_allclose(recalibrated(flat, power), p, rtol=1e-9)


def test_two_classes_may_be_given_by_one_probability():
    p = RNG.random((50, 2))
    p /= p.sum(axis=1, keepdims=True)
    y = RNG.integers(0, 2, 50)
    np.testing.assert_allclose(recalibrated(p[:, 1], 1.7), recalibrated(p, 1.7)[:, 1])
    np.testing.assert_allclose(of_classes(p[:, 1], y), of_classes(p, y))


def test_probabilities_of_zero_and_one_stay_finite():
    p = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert np.all(np.isfinite(recalibrated(p, 3.0)))
    assert np.all(np.isfinite(of_classes(p, np.array([1, 0]))))


def test_the_predictive_loss_is_that_of_the_mean_likelihood():
    values = RNG.normal(-800, 3, (3, 5, 7))  # whose exponentials underflow
    want = -np.log(np.mean(np.exp(values.reshape(15, 7) + 800), axis=0)) + 800
    np.testing.assert_allclose(predictive(values), want)


def test_scores_of_several_networks_are_averaged():
    p, q, y = (
        softmax(RNG.normal(size=(3, 30, 3)), axis=-1)[0],
        softmax(RNG.normal(size=(30, 3)), axis=-1),
        RNG.integers(0, 3, 30),
    )
    each = [score("", of_classes(x, y), x, y) for x in (p, q)]
    both = averaged("both", each)
    assert both.loss == pytest.approx(np.mean([x.loss for x in each]))
    assert both.accuracy == pytest.approx(np.mean([x.accuracy for x in each]))
    assert repr(both).startswith(f"Score(both: loss {both.loss:.4f} ± ")
    assert averaged("none", [score("", np.ones(3), None, y)] * 2).accuracy is None


def test_chains_that_still_improve_are_a_fault():
    values = RNG.normal(-0.5, 0.1, (4, 20, 300))
    assert not list(judged(values))
    values[:, :10] -= 0.1
    ((fault, text),) = judged(values)
    assert fault
    assert "lower" in text
    values[:, :10] += 0.2
    assert "higher" in next(judged(values))[1]


def test_chains_that_disagree_gain_from_more_of_them():
    """The errors of a chain are those of all its draws, so that only other chains average them out."""
    own = RNG.normal(0, 2, (3, 1, 400))
    values = -1 + own + RNG.normal(0, 0.01, (3, 30, 400))
    ((fault, text),) = judged(values)
    assert not fault
    assert "more chains" in text
