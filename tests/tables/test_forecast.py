"""Predictions of regressions for new rows, against direct computation in 64 bits and SciPy's distributions."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from isotherm.prediction import blocks as module
from isotherm.tables.families import MODELS, family_of
from isotherm.tables.families.classes import mean_sigmoid
from isotherm.tables.fitted import fitted
from isotherm.tables.forecasting import forecast, outcomes
from support.made_forecast import CLASSES, expected, family, is_count, made_forecast, table, target
from support.made_run import CHAINS, LENGTH
from support.monte_carlo import LIMIT
from support.table import slow_unless

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUMBERS = tuple(m for m in MODELS if not family_of(m).has_classes)
BINARY, CLASSED = ("logistic", "probit"), ("softmax", "ordinal")
DRAWS, ROWS = CHAINS * LENGTH, 200
NEW = table(ROWS, seed=1)


@pytest.mark.parametrize("model", NUMBERS)
def test_the_expected_response_is_that_of_the_draws(model):
    draws = made_forecast(model)
    found = forecast(draws, NEW, interval=0.8)
    by_hand = expected(model, draws, NEW)
    assert list(found.columns) == ["mean", "mean_low", "mean_high", "low", "high"]
    scale = np.abs(by_hand).mean()
    for name, value in (
        ("mean", by_hand.mean(axis=0)),
        ("mean_low", np.quantile(by_hand, 0.1, axis=0)),
        ("mean_high", np.quantile(by_hand, 0.9, axis=0)),
    ):
        np.testing.assert_allclose(found.columns[name], value, rtol=1e-5, atol=1e-5 * scale)
    assert found.expected.num_draws == DRAWS


@pytest.mark.parametrize("model", BINARY)
def test_two_classes_have_the_probability_of_the_second(model):
    draws = made_forecast(model)
    found, by_hand = forecast(draws, NEW).columns, expected(model, draws, NEW)
    assert list(found) == ["probability", "low", "high", "predicted"]
    np.testing.assert_allclose(found["probability"], by_hand.mean(axis=0), rtol=1e-5)
    for name, level in (("low", 0.05), ("high", 0.95)):
        np.testing.assert_allclose(found[name], np.quantile(by_hand, level, axis=0), rtol=1e-5)
    assert found["predicted"].tolist() == ["b" if p > 0.5 else "a" for p in by_hand.mean(axis=0)]
    assert {*found["predicted"]} == {"a", "b"}
    other = forecast(made_forecast(model, positive="a"), NEW).columns  # the same draws, for the other class
    np.testing.assert_array_equal(other["probability"], found["probability"])
    assert other["predicted"].tolist() == ["a" if p == "b" else "b" for p in found["predicted"]]


@pytest.mark.parametrize("model", CLASSED)
def test_three_classes_have_a_probability_each(model):
    draws = made_forecast(model)
    found, by_hand = forecast(draws, NEW).columns, expected(model, draws, NEW).mean(axis=0)
    assert list(found) == ["probability_a", "probability_b", "probability_c", "predicted"]
    for i, name in enumerate(CLASSES):
        np.testing.assert_allclose(found[f"probability_{name}"], by_hand[:, i], rtol=2e-5)
    assert found["predicted"].tolist() == [CLASSES[i] for i in by_hand.argmax(axis=1)]


@pytest.mark.parametrize("model", NUMBERS)
def test_intervals_are_those_of_the_mixture_over_the_draws(model):
    """The probability of the mixture below each end, exact from SciPy, is the level of that end.

    Given the draws, the noise of the rows is independent. The probability below a quantile of m outcomes has variance
    at most p (1 - p) / m and bias at most 1/m. For numbers, the mean over rows is tested. For counts, every row is:
    the probability up to an end is at least the level, and the probability below it at most the level. With 5
    standard errors this fails with probability 6e-7 per row.
    """
    draws = made_forecast(model)
    found = forecast(draws, NEW, interval=0.9, seed=3).columns
    shares = lambda x: family(model, draws, NEW).cdf(x).mean(axis=0)
    for name, level in (("low", 0.05), ("high", 0.95)):
        error = LIMIT * (level * (1 - level) / DRAWS) ** 0.5
        if not is_count(model):
            assert abs(shares(found[name]).mean() - level) < error / ROWS**0.5 + 1 / DRAWS
            continue
        assert np.array_equal(found[name], np.round(found[name]))
        assert (shares(found[name]) > level - error).all()
        assert (shares(found[name] - 1) < level + error).all()


@pytest.mark.parametrize("model", NUMBERS)
def test_intervals_are_quantiles_of_new_observations_and_of_counts_rounded_outwards(model):
    draws = made_forecast(model)
    found = forecast(draws, NEW, interval=0.5, seed=3).columns
    params = {name: x.reshape(DRAWS, *x.shape[2:]) for name, x in draws.posterior.items()}
    values, rows = expected(model, draws, NEW).astype(np.float32), {"trials": NEW["trials"].astype(float)}
    low, high = np.quantile(
        outcomes(fitted(draws), values, params, rows, [(3, i) for i in range(ROWS)]), (0.25, 0.75), axis=0
    )
    if is_count(model):
        assert not np.array_equal(low, np.round(low))  # between two draws that differ
        low, high = np.floor(low), np.ceil(high)
    np.testing.assert_allclose(found["low"], low, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["high"], high, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", NUMBERS)
def test_intervals_cover_what_the_mixture_brings(model):
    """Each outcome comes from a random draw. Coverage is 0.9 (m - 1)/(m + 1) with binomial error; more for counts."""
    rows = 2000
    draws, new, rng = made_forecast(model), table(rows, seed=2), np.random.default_rng(7)
    chosen = (rng.integers(DRAWS, size=rows), np.arange(rows))
    y = family(model, draws, new).rvs(random_state=rng, size=(DRAWS, rows))[chosen]
    found = forecast(draws, new | {"y": y})
    (interval,) = found.scores.intervals
    inside = (found.columns["low"] <= y) & (y <= found.columns["high"])
    assert interval.coverage == inside.mean()
    error = LIMIT * (0.9 * 0.1 / rows) ** 0.5 + 2 / DRAWS
    assert interval.coverage > 0.9 - error
    assert is_count(model) or interval.coverage < 0.9 + error
    assert found.scores.rmse == pytest.approx(np.sqrt(np.mean((found.columns["mean"] - y) ** 2)), rel=1e-5)
    assert (found.scores.curve is None) is is_count(model)


@pytest.mark.parametrize("model", MODELS)
def test_targets_in_the_table_are_scored(model):
    """Rows with a known target are scored, and their log predictive densities are those of SciPy."""
    draws, y = made_forecast(model), target(model, ROWS, seed=4).astype(object)
    y[[5, 60]] = None
    if model in NUMBERS:
        y = y.astype(float)
    found = forecast(draws, NEW | {"y": y})
    known = np.delete(np.arange(ROWS), [5, 60])
    if model in NUMBERS:
        law = family(model, draws, NEW)
        log_p = (law.logpmf if is_count(model) else law.logpdf)(y)[:, known]
        by_hand = scipy.special.logsumexp(log_p, axis=0) - np.log(DRAWS)
    else:
        p = expected(model, draws, NEW).mean(axis=0)
        p = np.stack([1 - p, p], axis=1) if model in BINARY else p
        codes = [CLASSES.index(c) for c in y[known]]
        by_hand = np.log(p[known, codes])
        assert found.scores.accuracy == np.mean(p[known].argmax(axis=1) == codes)
    np.testing.assert_allclose(found.log_likelihood.rows, by_hand, rtol=2e-4, atol=1e-4)
    assert found.scores.num_rows == len(known)
    without = forecast(draws, NEW | {"y": np.full(ROWS, np.nan)})
    assert without.scores is None
    assert without.log_likelihood is None
    for name, values in forecast(draws, NEW).columns.items():
        np.testing.assert_array_equal(found.columns[name], values)
        np.testing.assert_array_equal(without.columns[name], values)


@pytest.mark.parametrize("model", slow_unless(list(MODELS)[:2], MODELS))
def test_blocks_of_rows_give_what_all_rows_at_once_give(model):
    draws, y = made_forecast(model), target(model, ROWS)
    whole, parts = (forecast(draws, NEW | {"y": y}, rows_at_once=n) for n in (None, 33))
    for name, values in whole.columns.items():
        if name == "predicted":
            assert parts.columns[name].tolist() == values.tolist()
        else:
            np.testing.assert_allclose(parts.columns[name], values, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(parts.log_likelihood.rows, whole.log_likelihood.rows, rtol=1e-5, atol=1e-5)


def test_draws_that_do_not_fit_on_the_device_are_used_in_pieces(monkeypatch):
    draws, new = made_forecast("logistic"), NEW | {"y": target("logistic", ROWS)}
    whole = forecast(draws, new)
    monkeypatch.setattr(module, "_PARAMETERS", 1000)
    pieces = forecast(draws, new)
    np.testing.assert_allclose(pieces.columns["low"], whole.columns["low"], rtol=1e-5)
    np.testing.assert_allclose(pieces.expected.sd, whole.expected.sd, rtol=1e-5)
    np.testing.assert_allclose(pieces.log_likelihood.rows, whole.log_likelihood.rows, rtol=1e-5)


def test_the_density_of_an_improbable_class_does_not_underflow():
    z = np.array([[-900.0, -901.0, -905.0], [-90.0, -59.0, -61.0], [-3.0, 0.5, 80.0]])
    level, mean, _ = mean_sigmoid(jnp.asarray(z, jnp.float32), jnp.ones((3, 1)))
    exact = scipy.special.logsumexp(scipy.special.log_expit(z), axis=1) - np.log(3)
    np.testing.assert_allclose(level + np.log(mean), exact, rtol=1e-6)


def test_every_row_has_its_own_noise():
    """The noise of a row does not depend on later rows; it differs between seeds and between rows."""
    draws = made_forecast("poisson")
    few = {name: x[:7] for name, x in NEW.items()}
    whole, part = forecast(draws, NEW).columns, forecast(draws, few).columns
    np.testing.assert_array_equal(part["high"], whole["high"][:7])
    linear = made_forecast("linear")
    low = lambda seed: forecast(linear, {name: x[[0, 0]] for name, x in NEW.items()}, seed=seed).columns[
        "low"
    ]
    assert len({*low(0), *low(1)}) == 4
    np.testing.assert_array_equal(low(0), low(0))


def test_columns_far_from_zero_keep_their_digits():
    """In a column such as a year, rows differ by a thousandth of the value, and 32 bits hold seven digits."""
    far = table(100) | {"age": 2e4 + table(100)["age"]}
    draws = made_forecast("linear", columns=far)
    draws.posterior["coefficients"][..., 0] -= 2e4 * draws.posterior["coefficients"][..., 1]
    new = NEW | {"age": 2e4 + NEW["age"]}
    rounded = {"coefficients": draws.posterior["coefficients"].astype(np.float32).astype(float)}
    draws.posterior.update(rounded)  # as a run would have stored them
    found = forecast(draws, new).columns["mean"]
    by_hand = expected("linear", draws, new).mean(axis=0)
    slopes = np.diff(found[:50]) - np.diff(by_hand[:50])
    assert np.abs(slopes).max() < 1e-5


def test_an_absurd_count_is_not_an_error():
    draws = made_forecast("poisson")
    found = forecast(draws, NEW | {"dose": np.where(np.arange(ROWS) == 3, 500.0, NEW["dose"])}).columns
    assert found["high"][3] > 1e18  # too large for a 64-bit integer
    assert np.isfinite(found["low"]).all()


def test_chains_that_failed_are_left_out():
    draws = made_forecast("linear")
    draws.complete[1] = False
    draws.posterior["coefficients"][1, 50:] = np.nan
    complete = {name: x[[0, 2, 3]] for name, x in draws.posterior.items()}
    by_hand = expected("linear", dataclasses.replace(draws, posterior=complete), NEW)
    np.testing.assert_allclose(
        forecast(draws, NEW).columns["mean"], by_hand.mean(axis=0), rtol=1e-4, atol=1e-5
    )
