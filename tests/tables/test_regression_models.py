"""Regressions by name: densities against SciPy's in the units of the columns, priors, names, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import isotherm as iso
from isotherm.tables.design import DesignPass
from isotherm.tables.families import MODELS, Likelihood, Prior, family_of
from isotherm.tables.regressions import regression
from isotherm.tables.standardized import Standardized
from isotherm.tables.table import MemoryTable
from support import laws

pytestmark = pytest.mark.usefixtures("quick_compilation")

N = 200
RNG = np.random.default_rng(0)
AGE, DOSE = RNG.normal(50, 12, N), RNG.gamma(2, 3, N)
SEX = RNG.choice(["f", "m"], N).astype(object)
YEARS, KNOWN, WEIGHT = RNG.uniform(0.5, 2, N), RNG.normal(size=N), RNG.uniform(0.5, 2, N)
CENSORED, TRIALS = RNG.random(N) < 0.3, RNG.integers(20, 30, N)
TARGETS = {
    model: RNG.choice(["no", "yes"], N).astype(object)
    if family_of(model).is_binary
    else laws.target(model, N)
    for model in MODELS
}
COLUMNS = {"age": AGE, "dose": DOSE, "sex": SEX, "years": YEARS, "known": KNOWN, "weight": WEIGHT}
COLUMNS |= {"trials": TRIALS, "censored": CENSORED}
SPECIAL = {"exposure": "years", "trials": "trials", "censored": "censored"}
AUXILIARIES = {"sigma": 3.0, "dispersion": 0.5, "zero_inflation": 0.3, "shape": 1.7, "precision": 20.0}
THRESHOLDS = np.array([1.2])  # the second of two; the first is zero
PARAMS = np.array([-1.0, 0.02, 0.1, -0.5])
X = np.stack([np.ones(N), AGE, DOSE, SEX == "m"], axis=1).astype(float)


def made(model, **options):
    columns = COLUMNS | {"y": TARGETS[model]}
    return regression(model, columns, "y", ["age", "dose", "sex"], **options)


def design(columns, features, *, categorical=(), standardize=True):
    table = MemoryTable(columns)
    reading = DesignPass(table, features, categorical)
    reading.see(columns, np.arange(table.num_rows))
    return reading.finish(standardize=standardize)


def encoded(design, columns):
    x = np.empty((len(next(iter(columns.values()))), len(design.names)), np.float32)
    design.matrix(columns, x)
    return x


def on_device(rows):
    return {name: jnp.asarray(x) for name, x in rows.items()}


def by_scipy(model, eta, aux):
    """Return the log-likelihood of each row; the 0.3-quantile is modelled."""
    y = TARGETS[model]
    if family_of(model).has_classes:
        p = laws.response(model, eta, aux, {})
        return np.log(np.where(y == "yes", p, 1 - p) if p.ndim == 1 else p[range(N), [*map("abc".index, y)]])
    law = laws.law(model, eta, aux, {"trials": TRIALS}, freedom=4, quantile=0.3)
    value = law.logpmf(y) if family_of(model).target.is_whole else law.logpdf(y)
    return np.where(CENSORED, law.logsf(y), value) if "censored" in family_of(model).roles else value


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("model", [m for m in MODELS if m != "softmax"])
def test_likelihoods_are_those_of_scipy_in_the_units_of_the_columns(model, standardize):
    roles, quantile = family_of(model).roles, {"quantile": 0.3} if model == "quantile" else {}
    given = {role: name for role, name in SPECIAL.items() if role in roles} | quantile
    given |= {"order": laws.CLASSES} if "order" in roles else {}
    posterior, rows, init = made(model, offset="known", weights="weight", standardize=standardize, **given)
    aux = {name: np.float64(x) for name, x in AUXILIARIES.items() if name in init}
    params = {"coefficients": PARAMS} | aux | ({"thresholds": THRESHOLDS} if model == "ordinal" else {})
    eta = X @ PARAMS + KNOWN + (np.log(YEARS) if "exposure" in roles else 0.0)
    expected = WEIGHT * by_scipy(model, eta, {**aux, "thresholds": THRESHOLDS})
    found = posterior.row_log_likelihoods(on_device(params), on_device(rows))
    # To the rounding of 32 bits, for numbers up to the largest log-density.
    assert np.allclose(found, expected, rtol=2e-5, atol=2e-4)


def test_softmax_compares_each_class_with_the_first():
    result = made("softmax")
    W = np.stack([PARAMS, -2 * PARAMS])
    scores = np.concatenate([np.zeros((N, 1)), X @ W.T], axis=1)
    log_p = scores - scipy.special.logsumexp(scores, axis=1, keepdims=True)
    expected = log_p[np.arange(N), ["abc".index(c) for c in TARGETS["softmax"]]]
    found = result.posterior.row_log_likelihoods({"coefficients": jnp.asarray(W)}, on_device(result.data))
    assert np.allclose(found, expected, rtol=2e-5, atol=2e-5)
    assert result.labels == {"coefficients": [["b", "c"], ["intercept", "age", "dose", "sex=m"]]}
    assert result.init["coefficients"].shape == (2, 4)


@pytest.mark.parametrize("dispersion", [10.0, 0.051, 0.049, 1e-3, 1e-6])
def test_the_negative_binomial_is_exact_up_to_the_poisson_limit(dispersion):
    standard = Standardized(jnp.zeros(1), jnp.ones(1))
    likelihood = Likelihood(standard, family_of("negative-binomial"))
    y = np.array([0.0, 1.0, 7.0, 300.0], np.float32)
    eta = np.array([0.5, -1.0, 2.0, 5.5])
    rows = {"x": jnp.asarray(eta[:, None], jnp.float32), "y": jnp.asarray(y)}
    params = {"coefficients": jnp.asarray([0.0, 1.0]), "dispersion": jnp.asarray(dispersion)}
    r = 1 / dispersion
    expected = scipy.stats.nbinom.logpmf(y, r, r / (r + np.exp(eta)))
    assert np.allclose(likelihood(params, rows), expected, rtol=1e-5, atol=1e-3)
    slope = jax.grad(lambda b: jnp.sum(likelihood(params | {"coefficients": b}, rows)))(
        params["coefficients"]
    )
    weight = (y - np.exp(eta)) / (1 + dispersion * np.exp(eta))
    assert np.allclose(slope, [weight.sum(), (weight * eta).sum()], rtol=1e-3)


def test_coefficients_are_transformed_there_and_back_and_their_volume_is_known():
    standard = Standardized(jnp.asarray([50.0, 6.0]), jnp.asarray([12.0, 0.1]), 100.0, 5.0)
    x = jnp.asarray([[0.3, -1.0, 2.0], [1.0, 0.5, 0.0]])
    y = standard(x)
    assert np.allclose(standard.inv(y), x, atol=1e-4)
    volume = np.linalg.slogdet(np.asarray(jax.jacobian(standard)(x[0])))[1]
    assert np.allclose(standard.log_abs_det_jacobian(x, y), volume, rtol=1e-5)


def test_priors_do_not_depend_on_units():
    """With age in months instead of years, and the target in other units, the regression has the same density."""
    prior = lambda result, b, sigma: float(
        result.posterior.log_prior({"coefficients": jnp.asarray(b), "sigma": jnp.asarray(sigma)})
    )
    original = made("linear")
    rescaled = regression(
        "linear", COLUMNS | {"age": 12 * AGE, "y": 7 * TARGETS["linear"] + 3}, "y", ["age", "dose", "sex"]
    )
    moved = 7 * PARAMS * [1, 1 / 12, 1, 1] + [3, 0, 0, 0]
    assert prior(original, PARAMS, 3.0) == pytest.approx(prior(rescaled, moved, 21.0), rel=1e-4)
    sd = np.array([1, AGE.std(), DOSE.std(), (SEX == "m").std()])
    b = PARAMS * sd / TARGETS["linear"].std()
    b[0] = (X.mean(axis=0) @ PARAMS - TARGETS["linear"].mean()) / TARGETS["linear"].std()
    scales = np.array([5.0, 2.5, 2.5, 2.5])
    expected = -0.5 * np.sum((b / scales) ** 2) - 3.0 / TARGETS["linear"].std()
    assert prior(original, PARAMS, 3.0) == pytest.approx(expected, rel=1e-4)


def test_categories_are_compared_with_their_first_level():
    columns = {"c": np.array([3, 1, 2, 1])}
    found = design(columns, ["c"], categorical=["c"], standardize=False)
    assert found.names == ("c=2", "c=3")
    assert found.levels == {"c": ["1", "2", "3"]}
    assert encoded(found, columns).tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]
    matrix = {"x": np.array([[1.0, 2.0], [3.0, 5.0], [5.0, 2.0], [3.0, 3.0]])}
    flat = design(matrix, ["x"])
    assert flat.names == ("x.0", "x.1")
    assert flat.center.tolist() == [3.0, 3.0]
    assert np.allclose(
        encoded(flat, matrix), np.array([[-2, -1], [0, 2], [2, -1], [0, 0]]) / np.sqrt([2, 1.5])
    )


def test_the_probability_is_that_of_the_positive_level():
    assert made("logistic").data["y"].tolist() == [float(y == "yes") for y in TARGETS["logistic"]]
    assert made("logistic", positive="no").data["y"].tolist() == [
        float(y == "no") for y in TARGETS["logistic"]
    ]
    coded = regression("logistic", {"a": AGE, "y": np.where(SEX == "m", 1, -1)}, "y", positive=-1)
    assert coded.data["y"].tolist() == [float(s != "m") for s in SEX]


def gap(row, value=np.nan):
    age = AGE.copy()
    age[row] = value
    return age


def is_column(value):
    return isinstance(value, np.ndarray)


CODES = np.array([str(i) for i in range(N - 1)] + ["12O"], dtype=object)


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        ("linear", {"target": "z"}, r"`target` must be a column of the table; got 'z'"),
        ("linear", {"features": ["agee"]}, r"Did you mean `age`\?"),
        ("linear", {"features": ["age", "y"]}, "`features` must be columns other than target"),
        ("linear", {"features": []}, "at least one column"),
        (
            "linear",
            {"age": gap(16)},
            r"column `age` must have a value in every row; the value in row 17 is missing \(1 of 200",
        ),
        ("linear", {"sex": np.where(AGE > 50, SEX, None)}, "column `sex` must have a value in every row"),
        ("linear", {"age": CODES}, r"`age` must be a column of numbers, or of text .* got '12O'. .* row 200"),
        ("linear", {"age": np.ones(N)}, r"`age` must be a column that varies; got 1.0"),
        ("linear", {"age": 1e6 + AGE / 1000}, "Subtract a round number"),
        ("linear", {"y": np.ones(N)}, "`target` must be a column that varies"),
        ("linear", {"y": SEX}, r"`y` must be a column of numbers; got '[fm]'"),
        ("linear", {"sigma": AGE, "features": ["sigma"]}, "Rename the column"),
        ("linear", {"exposure": "years"}, "`exposure` must be left out"),
        ("logistic", {"y": np.arange(N) % 3}, 'Use model = "softmax"'),
        ("logistic", {"positive": "maybe"}, "`positive` must be one of no and yes"),
        ("softmax", {"offset": "known"}, "`offset` must be left out"),
        ("poisson", {"y": AGE}, r"`y` must be a column of counts: .* It is in row 1"),
        ("poisson", {"exposure": "known"}, "`known` must be a column of positive numbers"),
        ("linear", {"weights": "known"}, "`known` must be a column of positive numbers"),
        ("linear", {"missing": "skip"}, '`missing` must be "refuse" or "drop"'),
        (
            "linear",
            {"age": gap(0, value=np.inf), "missing": "drop"},
            "row 1 is infinite .* Correct the table",
        ),
        ("linear", {"age": np.full(N, np.nan), "missing": "drop"}, "`age` lacks 200 values"),
        ("linear", {"exclude": ["known"]}, "`exclude` must be left out if `features` is given"),
        ("linear", {"features": None, "exclude": ["nown"]}, r"Did you mean `known`\?"),
        ("cauchit", {}, "`model` must be one of linear"),
    ],
)
def test_bad_arguments_are_refused(model, change, message):
    columns = COLUMNS | {"y": TARGETS.get(model, AGE)} | {k: v for k, v in change.items() if is_column(v)}
    options = {"target": "y", "features": ["age", "dose", "sex"]}
    options |= {k: v for k, v in change.items() if not is_column(v)}
    with pytest.raises(ValueError, match=message):
        regression(model, columns, **options)


def test_rows_with_a_missing_value_are_left_out_on_request():
    """A missing value in an unused column does not cost a row."""
    gaps = np.array([3, 50, 51])
    columns = COLUMNS | {"y": np.where(np.arange(N) == 3, np.nan, TARGETS["linear"])}
    columns |= {"sex": np.where(np.isin(np.arange(N), gaps[1:]), None, SEX), "known": np.full(N, np.nan)}
    unused = ["known", "years", "weight", "trials", "censored"]
    found = regression("linear", columns, "y", exclude=unused, missing="drop")
    assert found.description["features"] == ["age", "dose", "sex"]
    assert found.description["rows dropped"] == 3
    whole = {name: np.delete(values, gaps) for name, values in columns.items()}
    for name, values in regression("linear", whole, "y", ["age", "dose", "sex"]).data.items():
        np.testing.assert_array_equal(found.data[name], values)


def test_linearly_dependent_columns_are_reported():
    columns = COLUMNS | {"y": TARGETS["linear"], "known": 1 - 2 * AGE + 3 * DOSE}
    with pytest.warns(
        iso.IsothermWarning, match=r"The columns `known`, `age`, `dose` are linearly dependent"
    ):
        regression("linear", columns, target="y", features=["known", "years", "age", "dose"])


def test_a_rare_level_has_the_prior_of_a_common_one():
    """Two rows of 200 are one: a prior per standard deviation would be ten times as wide."""
    columns = COLUMNS | {"y": TARGETS["linear"], "rare": (np.arange(N) < 2).astype(float)}
    made = design(columns, ["age", "rare", "sex"])
    np.testing.assert_allclose(made.scale, [AGE.std(), 1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(made.center[1], 2 / N)
    assert design(columns, ["rare"], standardize=False).scale == 1


def test_scales_of_priors_must_be_positive():
    with pytest.raises(ValueError, match="`sigma` must be a positive number; got -1"):
        Prior(sigma=-1)


def test_classes_are_named_as_the_file_shows_them():
    columns = {"a": AGE, "y": SEX == "m"}
    for given in ("true", True, "True"):
        assert (
            regression("logistic", columns, "y", positive=given).data["y"].tolist() == (SEX == "m").tolist()
        )
    assert regression("logistic", {"a": AGE, "y": (SEX == "m") * 1}, "y", positive=0.0).data["y"][0] == (
        SEX[0] != "m"
    )
    cases = {"a": AGE, "y": np.where(SEX == "m", "a", "A").astype(object)}
    assert regression("logistic", cases, "y", positive="a").data["y"].tolist() == (SEX == "m").tolist()
    assert regression("logistic", cases, "y", positive="A").data["y"].tolist() == (SEX != "m").tolist()
    large = design({"c": np.array([1234567.0, 1234568.0])}, ["c"], categorical=["c"])
    assert large.names == ("c=1234568.0",)
    assert design({"c": np.array([5.0, 1234567.0])}, ["c"], categorical=["c"]).names == ("c=1234567.0",)
    assert design({"c": np.array(["a", "b", "a"])}, ["c"]).names == ("c=b",)


def test_a_target_far_from_zero_is_refused():
    with pytest.raises(ValueError, match=r"`target` must be within 10000 standard deviations of zero"):
        regression("linear", {"a": AGE, "y": 101325 + AGE / 100}, "y")
