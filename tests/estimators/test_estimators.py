"""Estimators with scikit-learn's interface: input and output, the same numbers as a forecast, and what is refused.

The fast tests sample from the normal approximation at the mode (`support.laplace`) in place of chains.
"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import isotherm as iso
from isotherm.estimators import fitting
from support import laplace

NAMES = ["age", "dose"]
# So few draws are not to be trusted. One test is about this warning.
UNTRUSTED = "ignore::sklearn.exceptions.ConvergenceWarning"


@pytest.fixture
def quick(monkeypatch):
    """Sample from the normal approximation."""
    monkeypatch.setattr(fitting.sampling, "sample", laplace.sample)


def rows(n=60, seed=0):
    """Return two columns, and a target that depends on the first."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) * [12.0, 0.5] + [50.0, 3.0]
    return x, x[:, 0] / 12 + 0.5 * rng.normal(size=n)


@pytest.mark.filterwarnings(UNTRUSTED)
def test_a_regressor_predicts_what_a_forecast_does(quick):
    x, y = rows()
    frame = pd.DataFrame(x, columns=NAMES, index=np.arange(60) + 100)
    model = iso.estimators.BayesianRegressor(num_draws=100).fit(frame, y)
    found = iso.tables.forecast(model.draws_, dict(zip(NAMES, x.T, strict=True)), interval=0.8)
    mean, sd = model.predict(frame, return_std=True)
    interval = model.predict_interval(frame, level=0.8)
    np.testing.assert_array_equal(mean, found.columns["mean"])
    np.testing.assert_array_equal(model.predict(frame), mean)
    np.testing.assert_array_equal(sd, found.outcome.sd)
    np.testing.assert_array_equal(interval["low"], found.columns["low"])
    assert list(interval.index) == list(frame.index)
    assert list(model.feature_names_in_) == list(model.coef_names_) == NAMES
    np.testing.assert_allclose(mean, x @ model.coef_ + model.intercept_, atol=1e-4)
    assert model.sample_predictive(frame, n=7).shape == (7, 60)
    assert list(model.sample_posterior(5).columns) == ["intercept", *NAMES, "sigma"]
    assert model.verdict_ == model.summary_.verdict


@pytest.mark.filterwarnings(UNTRUSTED)
@pytest.mark.parametrize("classes", [["no", "yes"], [2, 10, 30]])
def test_a_classifier_predicts_what_a_forecast_does(quick, classes):
    x, y = rows(90)
    codes = np.digitize(y, np.quantile(y, [0.5] if len(classes) == 2 else [0.3, 0.6]))
    model = iso.estimators.BayesianClassifier(num_draws=100).fit(x, np.array(classes)[codes])
    found = iso.tables.forecast(model.draws_, {"x0": x[:, 0], "x1": x[:, 1]})
    p, low_high = model.predict_proba(x), model.predict_interval(x)
    if len(classes) == 2:
        np.testing.assert_array_equal(p[:, 1], found.columns["probability"])
        np.testing.assert_array_equal(
            low_high, np.stack([found.columns["low"], found.columns["high"]], axis=1)
        )
    else:
        for i, name in enumerate(classes):
            np.testing.assert_array_equal(p[:, i], found.columns[f"probability_{name}"])
        assert low_high.shape == (90, 3, 2)
    assert list(model.classes_) == classes
    assert [str(label) for label in model.predict(x)] == found.columns["predicted"].tolist()
    scores = x @ model.coef_.T + model.intercept_
    assert scores.shape == (90, 1 if len(classes) == 2 else 3)
    assert np.isin(model.sample_predictive(x, n=3), classes).all()
    named = model.set_output(transform="pandas").predict_proba(x)
    assert list(named.columns) == [str(label) for label in classes]


@pytest.mark.filterwarnings(UNTRUSTED)
def test_frames_of_all_kinds_give_the_same_and_categories_are_levels(quick):
    x, y = rows()
    frame = pd.DataFrame({"age": x[:, 0], "group": np.array(["b", "a", "c"])[np.arange(60) % 3]})
    model = iso.estimators.BayesianRegressor(num_draws=20).fit(frame, y)
    assert list(model.coef_names_) == ["age", "group=b", "group=c"]
    assert model.coef_.shape == (3,)
    assert model.n_features_in_ == 2
    pa = pytest.importorskip("pyarrow")
    table = pa.table(frame)
    same = iso.estimators.BayesianRegressor(num_draws=20).fit(table, y)
    np.testing.assert_array_equal(same.predict(table), model.predict(frame))
    assert same.predict_interval(table).column_names == ["low", "high"]
    pl = pytest.importorskip("polars")
    polars = iso.estimators.BayesianRegressor(num_draws=20).fit(pl.DataFrame(table), y)
    np.testing.assert_array_equal(polars.predict(pl.DataFrame(table)), model.predict(frame))
    assert isinstance(polars.predict_interval(pl.DataFrame(table)), pl.DataFrame)


@pytest.mark.filterwarnings(UNTRUSTED)
def test_constant_columns_and_rows_of_weight_zero_do_not_count(quick):
    x, y = rows()
    wide = np.column_stack([np.ones(60), x])
    with pytest.warns(iso.IsothermWarning, match="`x0`"):
        model = iso.estimators.BayesianRegressor(num_draws=20).fit(wide, y, sample_weight=np.arange(60) % 2)
    other = iso.estimators.BayesianRegressor(num_draws=20).fit(x[1::2], y[1::2])
    assert model.coef_[0] == 0
    np.testing.assert_array_equal(model.coef_[1:], other.coef_)
    np.testing.assert_array_equal(model.predict(wide), other.predict(x))


@pytest.mark.filterwarnings(UNTRUSTED)
def test_it_is_cloned_pickled_searched_and_piped(quick):
    x, y = rows()
    grid = {"bayesianregressor__prior": [{"coefficients": 0.01}, iso.tables.families.Prior()]}
    piped = make_pipeline(StandardScaler(), iso.estimators.BayesianRegressor(num_draws=20))
    search = GridSearchCV(piped, grid, cv=3).fit(x, y)
    assert search.best_index_ == 1
    best = search.best_estimator_[-1]
    again = pickle.loads(pickle.dumps(best))
    z = search.best_estimator_[0].transform(x)
    np.testing.assert_array_equal(again.predict(z), best.predict(z))
    assert again.draws_.setup is None
    assert clone(best).get_params()["prior"] == best.prior
    assert not hasattr(clone(best), "draws_")


@pytest.mark.filterwarnings(UNTRUSTED)
def test_bad_input_is_refused_in_a_sentence(quick):
    x, y = rows()
    regressor, classifier = iso.estimators.BayesianRegressor, iso.estimators.BayesianClassifier
    with pytest.raises(ValueError, match="`family` must be one for a target of numbers"):
        regressor("logistic").fit(x, y)
    with pytest.raises(ValueError, match="`family` must be one for a target of classes"):
        classifier("poisson").fit(x, y > 4)
    with pytest.raises(ValueError, match="Only binary classification"):
        classifier("probit").fit(x, np.arange(60) % 3)
    with pytest.raises(ValueError, match="at least two classes"):
        classifier().fit(x, np.ones(60, int))
    with pytest.raises(ValueError, match="column that varies"):
        regressor().fit(np.ones((60, 2)), y)
    with pytest.raises(ValueError, match="`sample_weight` must be"):
        regressor().fit(x, y, sample_weight=-np.ones(60))
    fitted = regressor(num_draws=20).fit(x, y)
    with pytest.raises(ValueError, match="`level` must be a probability"):
        fitted.predict_interval(x, level=90.0)
    with pytest.raises(ValueError, match="`n` must be an integer below 81"):
        fitted.sample_posterior(100)


def test_an_untrusted_fit_warns_with_the_verdict(quick):
    x, y = rows()
    with pytest.warns(ConvergenceWarning, match="Do not trust") as caught:
        model = iso.estimators.BayesianRegressor(num_draws=4, num_chains=2).fit(x, y)
    assert [str(w.message) for w in caught] == [model.verdict_]


def _tall(seed=1, n=20_000):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    return rng, x, x @ [0.5, -0.3, 0.2, 0.0] + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("family", ["linear", "poisson", "logistic"])
def test_posterior_means_are_those_of_penalised_fits(family):
    """On tall data the posterior is normal: its mean is the mode, that of scikit-learn at the same prior.

    The prior is N(0, 1) per sd of the column. Means have a Monte Carlo error: with at least 1600 effective draws, and
    means refined by the gradient, 0.1 sd is four errors or more, a false alarm in 10^4 for each of 4 numbers.
    """
    rng, x, eta = _tall()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    given = {"prior": {"coefficients": 1.0}, "num_draws": 2000, "random_state": 3}
    if family == "linear":
        y = eta + rng.normal(size=len(eta))
        model = iso.estimators.BayesianRegressor(**given).fit(x, y)
        other = Ridge(alpha=1.0 / y.var(), fit_intercept=True).fit(x, y)
    elif family == "poisson":
        y = rng.poisson(np.exp(eta))
        model = iso.estimators.BayesianRegressor("poisson", **given).fit(x, y)
        other = PoissonRegressor(alpha=1 / len(y), tol=1e-10, max_iter=1000).fit(x, y)
    else:
        y = rng.random(len(eta)) < 1 / (1 + np.exp(-eta))
        model = iso.estimators.BayesianClassifier(**given).fit(x, y)
        other = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(x, y)
    sd = np.array([model.summary_[name].sd for name in model.coef_names_])
    assert (np.abs(np.ravel(model.coef_) - np.ravel(other.coef_)) / sd).max() < 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a fit of the same shape, trusted too
        again = clone(model).fit(x, y[::-1])
    before, after = (m.draws_.record.setup_seconds for m in (model, again))
    assert after < before / 2  # nothing was compiled again
