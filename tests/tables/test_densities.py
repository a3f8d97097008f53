"""The densities of the families against SciPy's, and their derivatives and random numbers at extreme values."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.special
from scipy import stats

from isotherm.tables.families import MODELS, family_of
from isotherm.tables.families.classes import random_class
from support import laws
from support.monte_carlo import LIMIT

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUMBERS = tuple(m for m in MODELS if not family_of(m).has_classes)
FIRST = ("linear", "student-t", "logistic", "softmax", "poisson", "negative-binomial")
NEW = tuple(m for m in MODELS if m not in FIRST)
COUNTS = np.array([0, 1, 2, 3, 7, 15, 16, 17, 40, 300, 5000, 1e5, 1e6])
TARGETS = {
    "linear": np.array([-1e3, -3, -0.1, 0, 0.5, 4, 1e3]),
    "gamma": np.logspace(-6, 6, 25),
    "beta": np.array([1e-20, 1e-6, 0.01, 0.2, 0.5, 0.7, 0.99, 1 - 1e-6]),
}
AUXILIARIES = {  # from the nearly Poisson, exponential or wide to the concentrated
    "sigma": [0.01, 1.0, 300.0],
    "dispersion": [1e-6, 0.01, 0.5, 5.0, 100.0],
    "zero_inflation": [1e-6, 0.3, 0.99],
    "shape": [0.05, 0.7, 1.0, 8.0, 500.0],
    "precision": [0.1, 2.0, 30.0, 1e4],
}
EXTREME = {
    "sigma": [1e-6, 1e6],
    "dispersion": [1e-8, 1e6],
    "zero_inflation": [1e-12, 1 - 1e-6],
    "shape": [1e-3, 1e4],
    "precision": [1e-4, 1e8],
}


def targets(model):
    """Return targets of a wide range, rounded to 32 bits."""
    alike = {"exponential": "gamma", "weibull": "gamma", "student-t": "linear", "quantile": "linear"}
    y = COUNTS if family_of(model).target.is_whole else TARGETS[alike.get(model, model)]
    return y.astype(np.float32).astype(np.float64)


def auxiliaries(model, values):
    """Yield all combinations of values of the parameters beside the coefficients."""
    names = [x.name for x in family_of(model).auxiliaries]
    for found in itertools.product(*(np.asarray(values[name], np.float32).tolist() for name in names)):
        yield dict(zip(names, found, strict=True))


def predictors(model, y, aux):
    """Return linear predictors (y, eta) from far below to far above each target, rounded to 32 bits."""
    family = family_of(model)
    if model == "binomial":
        center = np.log((y + 0.5) / (TRIALS[model] - y + 0.5))
    elif model == "beta":
        center = np.log(y) - np.log1p(-y)
    else:
        center = y if family.link.origin is None else np.log(np.maximum(y, 0.3))
    width = aux.get("sigma", 1.0)
    steps = np.array([-8, -3, -1, -0.3, -0.01, 0, 1e-4, 0.1, 0.6, 1, 2, 5])
    return (center[:, None] + width * steps).astype(np.float32).astype(np.float64)


TRIALS = {"binomial": 1.5e6}


def density(model, eta, y, aux, rows, dtype):
    convert = lambda values: {name: jnp.asarray(x, dtype) for name, x in values.items()}
    return family_of(model).log_density(
        jnp.asarray(eta, dtype), jnp.asarray(y, dtype), convert(aux), convert(rows)
    )


@pytest.mark.parametrize("model", [m for m in NEW if m in NUMBERS])
def test_densities_are_those_of_scipy_over_wide_ranges(model):
    """In 64 bits to seven digits, and in 32 to five, and to the rounding of the linear predictor."""
    y = targets(model)
    rows = {"trials": TRIALS[model]} if model in TRIALS else {}
    for aux in auxiliaries(model, AUXILIARIES):
        eta = predictors(model, y, aux)
        law = laws.law(model, eta, aux, rows)
        with np.errstate(all="ignore"):
            exact = (law.logpmf if family_of(model).target.is_whole else law.logpdf)(y[:, None])
        known = np.isfinite(exact) & (np.abs(exact) < 1e6)
        assert known.mean() > 0.4
        with jax.enable_x64(True):
            f = lambda x, aux=aux: density(model, x, y[:, None], aux, rows, jnp.float64)
            wide, slope = map(np.asarray, (f(eta), jax.grad(lambda x, f=f: jnp.sum(f(x)))(jnp.asarray(eta))))
        np.testing.assert_allclose(wide[known], exact[known], rtol=1e-7, atol=1e-7, err_msg=str(aux))
        narrow = np.asarray(density(model, eta, y[:, None], aux, rows, jnp.float32))
        rounding = 2e-7 * np.abs(slope) * (1 + np.abs(eta))
        error = np.abs(narrow[known] - exact[known]) - 2e-5 * np.abs(exact[known]) - rounding[known]
        assert np.all(error < 2e-5), (aux, error.max())


@pytest.mark.parametrize("model", ["exponential", "weibull"])
def test_a_censored_time_has_the_probability_of_a_later_event(model):
    y = targets(model)
    for aux in auxiliaries(model, AUXILIARIES):
        eta = predictors(model, y, aux)
        with np.errstate(all="ignore"):
            exact = laws.law(model, eta, aux, {}).logsf(y[:, None])
        found = density(model, eta, y[:, None], aux, {"censored": np.ones((len(y), 1))}, jnp.float32)
        known = exact > -1e6
        np.testing.assert_allclose(np.asarray(found)[known], exact[known], rtol=5e-4, atol=1e-5)


def test_probits_and_ordered_classes_are_exact_where_probabilities_underflow():
    eta = np.array([-80.0, -30, -5, -0.3, 0, 2, 6, 40, 90], np.float32).astype(float)
    for y in (0.0, 1.0):
        exact = stats.norm.logcdf((2 * y - 1) * eta)
        np.testing.assert_allclose(
            density("probit", eta, np.full(9, y), {}, {}, jnp.float32), exact, rtol=1e-5, atol=1e-7
        )
    c = np.array([1e-3, 2.0, 30.0], np.float32).astype(float)
    edges = np.concatenate([[-np.inf, 0], c, [np.inf]])
    for k in range(5):
        exact = log_difference(edges[k + 1] - eta, edges[k] - eta)
        found = density("ordinal", eta, np.full(9, float(k)), {"thresholds": c}, {}, jnp.float32)
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)


def log_difference(a, b):
    """Return log(sigmoid(a) - sigmoid(b)) by 50 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        one = lambda x: mpmath.mpf(1) if x == np.inf else 1 / (1 + mpmath.exp(-mpmath.mpf(float(x))))
        value = lambda x: mpmath.mpf(0) if x == -np.inf else one(x)
        return np.array([float(mpmath.log(value(p) - value(q))) for p, q in np.broadcast(a, b)])


@pytest.mark.parametrize("model", NEW)
@pytest.mark.parametrize("x64", [False, True])
def test_derivatives_are_finite_at_extremes(model, x64):
    """Log-density, gradient and second derivatives by predictor and parameters."""
    family = family_of(model)
    if family.has_classes:
        y = np.arange(2.0 if family.is_binary else 4.0)
        extreme = [{}] if family.is_binary else [{"thresholds": [1e-6, 1e3]}]
    else:
        y, extreme = targets(model), list(auxiliaries(model, EXTREME))
    eta, y = (x.ravel() for x in np.meshgrid([-300.0, -80, -20, 0, 20, 80, 300], y))
    rows = {"trials": TRIALS[model]} if model in TRIALS else {}
    if "censored" in family.roles:
        rows = {"censored": np.arange(len(y)) % 2}
    with jax.enable_x64(x64):
        dtype = jnp.float64 if x64 else jnp.float32
        cast = lambda values: {k: jnp.asarray(v, dtype) for k, v in values.items()}
        of_row = {k: jnp.broadcast_to(v, eta.shape) for k, v in cast(rows).items()}
        one = lambda at, y, rows: family.log_density(at["eta"], y, at["aux"], rows)
        all_rows = jax.jit(jax.vmap(jax.value_and_grad(one), ({"eta": 0, "aux": None}, 0, 0)))
        second = jax.jit(jax.vmap(jax.hessian(one), ({"eta": 0, "aux": None}, 0, 0)))
        for aux in extreme:
            at = {"eta": jnp.asarray(eta, dtype), "aux": cast(aux)}
            for found in (all_rows, second):
                for leaf in jax.tree.leaves(found(at, jnp.asarray(y, dtype), of_row)):
                    assert np.isfinite(leaf).all(), aux


@pytest.mark.parametrize("model", [m for m in NEW if m in NUMBERS])
def test_random_numbers_follow_the_density(model):
    """The shares of 100,000 observations below three quantiles are those of SciPy, to 5 standard errors."""
    rng, count = np.random.default_rng(5), 100_000
    for aux, eta in itertools.product(auxiliaries(model, AUXILIARIES), (-1.0, 1.5)):
        rows = {"trials": np.full(count, 25.0)} if model in TRIALS else {}
        law = laws.law(model, np.float64(eta), aux, {"trials": 25})
        center = laws.response(model, np.float64(eta), aux, {"trials": 25.0})
        drawn = family_of(model).random(rng, np.full(count, center), aux, rows)
        for level in (0.1, 0.5, 0.9):
            edge = float(_quantile(law, level))
            if model == "beta" and not 1e-6 < edge < 1 - 1e-6:
                continue  # where 32 bits hold few digits
            p = float(law.cdf(edge))
            error = LIMIT * np.sqrt(p * (1 - p) / count) + 1e-6
            assert abs(np.mean(drawn <= edge) - p) < error, (aux, eta, level)


def _quantile(law, level):
    if isinstance(law, laws.ZeroInflated):
        y = np.arange(0, 4000)
        return y[np.searchsorted(law.cdf(y), level)]
    return law.ppf(level)


@pytest.mark.parametrize("model", [m for m in NEW if m in NUMBERS])
def test_random_numbers_are_numbers_at_extremes(model):
    rng, family = np.random.default_rng(0), family_of(model)
    largest = 1.0 if model == "beta" else 1e6 if model in TRIALS else 1e30
    center = np.array([1e-30, 1e-3, largest])
    for aux in auxiliaries(model, {**EXTREME, "zero_inflation": [0.0, 1.0], "precision": [1e-30, 1e30]}):
        for _ in range(20):
            y = family.random(rng, center, aux, {"trials": np.full(3, 1e6)})
            assert np.isfinite(y).all(), aux
            if family.target.rule is not None:
                assert family.target.rule.holds(y).all(), (aux, y)


def test_random_classes_follow_their_probabilities():
    rng, p = np.random.default_rng(1), np.array([0.5, 0.0, 0.2, 0.3])
    drawn = random_class(rng, np.tile(p, (40_000, 1)))
    counts = np.bincount(drawn.astype(int), minlength=4)
    assert counts[1] == 0
    assert np.all(np.abs(counts - 40_000 * p) <= LIMIT * np.sqrt(40_000 * p * (1 - p)))


@pytest.mark.parametrize("model", [m for m in NEW if m in NUMBERS and not family_of(m).target.is_whole])
def test_densities_have_the_integral_one(model):
    aux = next(itertools.islice(auxiliaries(model, {**AUXILIARIES, "shape": [1.7], "precision": [5.0]}), 1))
    ends = (
        (0, 1)
        if model == "beta"
        else (-np.inf, np.inf)
        if family_of(model).link.origin is None
        else (0, np.inf)
    )
    with jax.enable_x64(True):
        f = jax.jit(lambda y: jnp.exp(density(model, 0.3, y, aux, {}, jnp.float64)))
        total = scipy.integrate.quad(lambda y: float(f(y)), *ends, limit=200)[0]
    assert total == pytest.approx(1.0, abs=1e-5)
