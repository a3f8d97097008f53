"""Families of regressions: priors, ordered classes, censored times, families of others, and refusals."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from scipy import stats

from isotherm.tables.families import MODELS, Auxiliary, Family, Prior, Target, family_of, register, registry
from isotherm.tables.families.laws import LOG_NORMAL
from isotherm.tables.families.ordinal import THRESHOLDS
from isotherm.tables.forecasting import forecast
from isotherm.tables.regressions import regression
from isotherm.transforms import Positive
from support import family_table, laws
from support.made_forecast import family, made_forecast, table

pytestmark = pytest.mark.usefixtures("quick_compilation")

N = 60
RNG = np.random.default_rng(0)
GRADES = ["low", "middle", "high"]  # which are in another order in the alphabet
COLUMNS = {
    "a": RNG.normal(size=N),
    "n": np.full(N, 9.0),
    "lost": np.arange(N) % 2.0,
    "time": RNG.gamma(2, 1, N),
    "count": RNG.poisson(2, N),
    "share": RNG.beta(2, 2, N),
    "grade": np.resize(GRADES, N).astype(object),
}
PRIORS = {  # log-densities up to a constant, for the scales below
    "sigma": lambda x, unit: stats.expon(scale=2 * unit).logpdf(x),
    "dispersion": lambda x, _: stats.halfnorm(scale=3).logpdf(np.sqrt(x)) - 0.5 * np.log(x),
    "zero_inflation": lambda x, _: stats.uniform.logpdf(x),
    "shape": lambda x, _: stats.lognorm(s=1.5).logpdf(x),
    "precision": lambda x, _: stats.lognorm(s=2.5).logpdf(x),
    "thresholds": lambda x, _: stats.expon(scale=4).logpdf(np.diff(x, prepend=0)).sum(),
}
SCALES = {"shape": 1.5, "precision": 2.5, "thresholds": 4.0}
VALUES = {"zero_inflation": (0.2, 0.7), "thresholds": (np.array([0.5]), np.array([3.0]))}


def columns_for(model):
    return table(N) | {"y": laws.target(model, N)}


def made(model, **options):
    found = family_of(model)
    options |= {"trials": "trials"} if "trials" in found.needs else {}
    options |= {"order": laws.CLASSES} if model == "ordinal" else {}
    return regression(model, columns_for(model), "y", ["age", "dose"], **options)


@pytest.mark.parametrize("model", [m for m in MODELS if family_of(m).auxiliaries])
def test_priors_are_those_that_the_description_names(model):
    others = {x.name: SCALES[x.name] for x in family_of(model).auxiliaries if x.name in SCALES}
    result = made(model, prior=Prior(sigma=2.0, dispersion=3.0, others=others))
    unit = np.std(columns_for(model)["y"]) if "sigma" in result.init else 1.0
    start = {name: jnp.asarray(x) for name, x in result.init.items()}
    for name in start.keys() - {"coefficients"}:
        first, second = VALUES.get(name, (0.4, 7.0))
        at = lambda x, name=name: float(result.posterior.log_prior(start | {name: jnp.asarray(x)}))
        expected = PRIORS[name](second, unit) - PRIORS[name](first, unit)
        assert at(second) - at(first) == pytest.approx(expected, rel=1e-4), name
        scale = {"sigma": 2.0, "dispersion": 3.0, **SCALES}.get(name)
        assert scale is None or f" {scale:g}" in result.description["prior"][name]


def test_a_scale_for_another_family_is_refused():
    with pytest.raises(
        ValueError, match=r"`shape` must be left out for linear; got 2\. Its parameters are sigma"
    ):
        made("linear", prior=Prior(others={"shape": 2}))


def test_thresholds_are_transformed_there_and_back_and_their_volume_is_known():
    transform, x = THRESHOLDS.transform, jnp.asarray([-1.0, 0.3, 1.2])
    y = transform(x)
    assert np.all(np.diff(y, prepend=0) > 0)
    np.testing.assert_allclose(transform.inv(y), x, atol=1e-5)
    volume = np.linalg.slogdet(np.asarray(jax.jacobian(transform)(x)))[1]
    assert float(transform.log_abs_det_jacobian(x, y)) == pytest.approx(volume, rel=1e-5)


def test_ordered_classes_are_in_the_order_that_was_given():
    """Chains start where the classes are as frequent as in the data."""
    columns = COLUMNS | {"grade": np.repeat(GRADES, [10, 20, 30]).astype(object)}
    found = regression("ordinal", columns, "grade", ["a"], order=GRADES)
    assert found.data["y"].tolist() == [0] * 10 + [1] * 20 + [2] * 30
    assert found.description["classes"] == GRADES
    assert found.description["class counts"] == [10, 20, 30]
    assert found.labels["thresholds"] == [["middle|high"]]
    # P(lowest) = sigmoid(-eta)
    p = family_of("ordinal").response(jnp.asarray(-scipy.special.logit(1 / 6)), found.init, {})
    np.testing.assert_allclose(p, np.array([10, 20, 30]) / 60, rtol=1e-5)
    by_number = regression("ordinal", columns | {"grade": np.repeat([10, 9, 2], 20)}, "grade", ["a"])
    assert by_number.data["y"].tolist() == [2] * 20 + [1] * 20 + [0] * 20
    assert by_number.labels["thresholds"] == [["9|10"]]


@pytest.mark.parametrize("model", ["exponential", "weibull"])
def test_censored_times_are_not_scored_and_their_density_is_that_of_a_later_event(model):
    columns, new = table(100, seed=3) | {"lost": np.arange(100) % 3 == 0}, table(50, seed=4)
    draws = made_forecast(model, columns=columns, censored="lost")
    y, lost = laws.target(model, 50, seed=5), np.arange(50) % 4 == 0
    found = forecast(draws, new | {"y": y, "lost": lost})
    law = family(model, draws, new)
    log_p = np.where(lost, law.logsf(y), law.logpdf(y))
    by_hand = scipy.special.logsumexp(log_p, axis=0) - np.log(len(log_p))
    np.testing.assert_allclose(found.log_likelihood.rows, by_hand, rtol=2e-4, atol=1e-4)
    assert found.scores.num_rows == (~lost).sum()
    error = (found.columns["mean"] - y)[~lost]
    assert found.scores.rmse == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
    for name, values in forecast(draws, new).columns.items():  # which does not need the column
        np.testing.assert_array_equal(found.columns[name], values)


@dataclasses.dataclass(frozen=True)
class LogNormal(Family):
    """Positive numbers whose logarithm is normal around eta: a family of a user."""

    shift: float = 0.0

    name = "log-normal"
    target = Target("a positive number")
    auxiliaries = (Auxiliary("spread", Positive(), lambda facts: 1.0, LOG_NORMAL),)

    def log_density(self, eta, y, aux, rows):
        z = (jnp.log(y + self.shift) - eta) / aux["spread"]
        return -0.5 * z**2 - jnp.log(aux["spread"] * (y + self.shift)) - 0.5 * np.log(2 * np.pi)

    def response(self, eta, aux, rows):
        return jnp.exp(eta + 0.5 * aux["spread"] ** 2) - self.shift

    def random(self, rng, response, aux, rows):
        log_mean = np.log(response + self.shift) - 0.5 * aux["spread"] ** 2
        return np.exp(log_mean + aux["spread"] * rng.standard_normal(response.shape)) - self.shift


@pytest.fixture(params=["given", "installed"])
def own(request, monkeypatch):
    """Return a family of a user, as an object and by the name that a package offers it under."""
    monkeypatch.setattr(registry, "_given", {})
    if request.param == "given":
        return LogNormal(shift=0.5)
    entry = dataclasses.make_dataclass("Entry", ["name", "load"])("log-normal", lambda: LogNormal(shift=0.5))
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry] if group == registry.GROUP else [])
    return "log-normal"


def test_a_family_of_a_user_is_like_those_of_the_library(own):
    posterior, rows, init = made_own = regression(own, COLUMNS, "time", ["a"])
    assert set(init) == {"coefficients", "spread"}
    assert made_own.description["model"] == "log-normal"
    assert made_own.description["shift"] == 0.5
    params = {"coefficients": jnp.asarray([0.3, -0.2]), "spread": jnp.asarray(0.7)}
    found = posterior.row_log_likelihoods(params, {name: jnp.asarray(x) for name, x in rows.items()})
    law = stats.lognorm(0.7, loc=-0.5, scale=np.exp(0.3 - 0.2 * COLUMNS["a"]))
    np.testing.assert_allclose(found, law.logpdf(COLUMNS["time"]), rtol=1e-5, atol=1e-5)
    assert family_of("log-normal", {"shift": 0.25}) == LogNormal(shift=0.25)


def test_what_is_not_a_family_is_refused(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Mine(LogNormal):
        name = "linear"

    with pytest.raises(ValueError, match="must be another than those of the library; got 'linear'"):
        register(Mine())
    entry = dataclasses.make_dataclass("Entry", ["name", "load"])("mine", lambda: dict)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry])
    with pytest.raises(TypeError, match="must be a `Family` of that name, or a class of these"):
        family_of("mine")


def test_the_table_of_the_docs_is_that_of_the_families():
    page = (Path(__file__).parents[2] / "docs" / "families.md").read_text()
    assert "\n".join(family_table.rows()) in page
    formulas = page[page.index("| `model` | distribution") : page.index("## What differs")]
    assert all(f"`{m}`" in formulas or "zero-inflated" in m for m in MODELS)
    assert [m for m in MODELS if "offset" not in family_of(m).roles] == ["softmax"]
    assert [m for m in MODELS if "weights" not in family_of(m).roles] == []


def put(name, value, row=16):
    x = COLUMNS[name].astype(float)
    x[row] = value
    return {name: x}


@pytest.mark.parametrize(
    ("model", "target", "change", "given", "message"),
    [
        ("binomial", "count", {}, {}, "`trials` must be the name of a column for binomial"),
        ("binomial", "count", put("count", 12), {"trials": "n"}, r"`count` must be at most the number of trials in `n`; got 12.0. It is in row 17, where `n` is 9"),
        ("binomial", "count", put("n", 0), {"trials": "n"}, r"`n` must be a column of whole numbers of at least 1; got 0\.0"),
        ("binomial", "count", put("n", 9.5), {"trials": "n"}, r"`n` must be a column of whole numbers of at least 1; got 9\.5"),
        ("poisson", "count", {}, {"trials": "n"}, "`trials` must be left out except for binomial"),
        ("zero-inflated-poisson", "count", put("count", 0.5), {}, "`count` must be a column of counts"),
        ("beta", "share", put("share", 1.0), {}, r"`share` must be a column of numbers above 0 and below 1, .* got 1\.0\. It is in row 17"),
        ("beta", "share", put("share", 0.0), {}, r"got 0\.0\. It is in row 17"),
        ("beta", "share", {"share": np.full(N, 0.5)}, {}, "`target` must be a column that varies"),
        ("gamma", "time", put("time", 0.0), {}, "`time` must be a column of positive numbers"),
        ("gamma", "time", {}, {"censored": "lost"}, "`censored` must be left out except for exponential and weibull"),
        ("weibull", "time", put("time", -1.0), {}, r"`time` must be a column of positive numbers .* got -1\.0\. It is in row 17"),
        ("weibull", "time", put("lost", 2), {"censored": "lost"}, r"`lost` must be a column of 0 or 1, or true or false; got 2\.0\. It is in row 17"),
        ("ordinal", "grade", {}, {}, r"`order` must be the classes of `grade`, high, low, middle, from the lowest; got \[\]"),
        ("ordinal", "grade", {}, {"order": GRADES[:2]}, "`order` must be the classes of `grade`"),
        ("ordinal", "lost", {}, {}, r"`lost` must be a target of at least 3 values; .* Use model = \"logistic\" for two"),
        ("softmax", "grade", {}, {"order": GRADES}, "`order` must be left out except for ordinal"),
        ("probit", "grade", {}, {}, "`grade` must be a target of two values"),
        ("quantile", "time", {}, {"quantile": 1.0}, "`quantile` must be a number between 0 and 1; got 1.0"),
        ("linear", "time", {}, {"quantile": 0.5}, "`quantile` must be left out except for quantile"),
        ("gamm", "time", {}, {}, "Did you mean `gamma`"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_family_is_refused(model, target, change, given, message):
    with pytest.raises(ValueError, match=message):
        regression(model, COLUMNS | change, target, ["a"], **given)
