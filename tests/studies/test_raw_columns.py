"""The reference and the judge of `benchmarks/raw_columns`, compared with independent answers.

Rational arithmetic gives the exact moments for normal errors. Two groups of rows have closed forms for logistic and
Poisson regression: posterior odds and rates are ratios and products of gamma variables.
"""

import importlib
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.special import digamma, polygamma

FOLDER = Path(__file__).parents[2] / "benchmarks" / "raw_columns"
pytestmark = pytest.mark.slow  # the benchmark is not part of the library
ERRORS = 5  # standard errors from 20 groups of draws: one false alarm in 10,000 comparisons


@pytest.fixture(scope="module")
def benchmark():
    """Return a function that imports a file of the benchmark, whose files import each other by name."""
    names = ("exact", "designs", "judge")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module
        for name in names:
            sys.modules.pop(name, None)


def hard_columns(dtype, rows=300):
    """Return 1, x = 1e5 ± 1, x^2 in large units and a near-copy of x in small units."""
    rng = np.random.default_rng(0)
    x = rng.normal(1e5, 1, rows)
    copy = 1e-6 * (x + 1e-2 * rng.normal(size=rows))
    return np.stack([np.ones(rows), x, 1e3 * x**2, copy], axis=1).astype(dtype), rng.normal(size=rows).astype(
        dtype
    )


def rational_moments(x, y, prior_scale):
    """Return mean and sd by the normal equations in rational arithmetic, which has no rounding."""
    rows = [[Fraction(float(v)) for v in row] for row in x]
    outcomes = [Fraction(float(v)) for v in y]
    d = len(rows[0])
    a = [[sum(r[i] * r[j] for r in rows) for j in range(d)] for i in range(d)]
    b = [sum(r[i] * v for r, v in zip(rows, outcomes, strict=True)) for i in range(d)]
    if prior_scale is not None:
        for i, scale in enumerate(prior_scale):
            a[i][i] += 1 / Fraction(float(scale)) ** 2
    # Gauss-Jordan on [A, b, I].
    table = [[*a[i], b[i], *(Fraction(int(i == j)) for j in range(d))] for i in range(d)]
    for k in range(d):
        table[k] = [v / table[k][k] for v in table[k]]
        for i in set(range(d)) - {k}:
            table[i] = [v - table[i][k] * p for v, p in zip(table[i], table[k], strict=True)]
    mean = np.array([float(row[d]) for row in table])
    return mean, np.sqrt([float(table[i][d + 1 + i]) for i in range(d)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("prior_scale", [None, np.array([1e7, 100.0, 1e-6, 1e8])])
def test_normal_errors_agree_with_rational_arithmetic(benchmark, dtype, prior_scale):
    x, y = hard_columns(dtype)
    exact = benchmark("exact").moments(x, y, "normal", prior_scale)
    mean, sd = rational_moments(x, y, prior_scale)
    assert np.all(np.abs(exact.mean - mean) < 1e-6 * sd)
    np.testing.assert_allclose(exact.sd, sd, rtol=1e-6)


def test_unknown_scale_agrees_with_the_closed_form(benchmark):
    x, y = hard_columns(np.float64)
    exact = benchmark("exact").moments(x, y, "normal, log sigma")
    mean, sd = rational_moments(x, y, None)
    k = len(y) - x.shape[1]
    centered = (x[:, 1:] - x[:, 1:].mean(axis=0)) / x[:, 1:].std(axis=0)
    # The square differs from a line by 1e-5 sd, so least squares in float64 still have ten digits here.
    rss = np.linalg.lstsq(np.column_stack([np.ones(len(y)), centered]), y, rcond=None)[1][0]
    np.testing.assert_allclose(exact.mean[-1], (np.log(rss / 2) - digamma(k / 2)) / 2, atol=1e-6)
    np.testing.assert_allclose(exact.sd[-1], np.sqrt(polygamma(1, k / 2)) / 2, rtol=1e-6)
    assert np.all(np.abs(exact.mean[:-1] - mean) < 1e-6 * sd)
    np.testing.assert_allclose(exact.sd[:-1], sd * np.sqrt(rss / (k - 2)), rtol=1e-6)


@pytest.mark.parametrize("likelihood", ["logistic", "poisson"])
def test_importance_sampling_agrees_with_the_closed_form_of_two_groups(benchmark, monkeypatch, likelihood):
    monkeypatch.setattr(benchmark("exact"), "_ROW_EVALUATIONS", 20_000_000)
    group = np.repeat([0.0, 1.0], [400, 100])
    y = np.zeros(500)
    y[:60] = y[400:430] = 1
    x = np.column_stack([np.ones(500), 1e6 + group])
    exact = benchmark("exact").moments(x, y, likelihood)
    events, rows = np.array([60, 30]), np.array([400, 100])
    # A flat prior on a log-rate gives Gamma(events, rows), one on a logit gives Beta(events, rows - events).
    others = rows - events
    log_rates = digamma(events) - (digamma(others) if likelihood == "logistic" else np.log(rows))
    variances = polygamma(1, events) + (polygamma(1, others) if likelihood == "logistic" else 0)
    tolerance = ERRORS * exact.error
    assert abs(exact.mean[1] - (log_rates[1] - log_rates[0])) < tolerance * exact.sd[1]
    assert abs(exact.sd[1] / np.sqrt(variances.sum()) - 1) < tolerance


def test_importance_sampling_agrees_with_the_closed_form_of_normal_errors(benchmark, monkeypatch):
    exact = benchmark("exact")
    monkeypatch.setattr(exact, "_ROW_EVALUATIONS", 1_000_000)
    x, y = hard_columns(np.float64)
    closed, drawn = exact.moments(x, y, "normal"), exact.weighted(*exact.orthogonalise(x), y, "normal")
    # The normal approximation is exact, so that all weights are one.
    assert np.all(np.abs(drawn.mean - closed.mean) < 1e-6 * closed.sd)
    np.testing.assert_allclose(drawn.sd, closed.sd, rtol=1e-6)


@pytest.mark.parametrize(
    ("factor", "shift", "wrong"),
    [(1.0, 0.0, False), (1.15, 0.0, True), (0.85, 0.0, True), (1.0, 0.2, True), (np.nan, 0.0, True)],
)
def test_judge_finds_planted_errors_of_coefficients_in_any_units(benchmark, factor, shift, wrong):
    exact = benchmark("exact").Exact(mean=np.array([1e6, 3e-12, -2.0]), sd=np.array([1e4, 1e-14, 0.5]))
    u = np.random.default_rng(1).normal(size=(4, 1000, 3))
    u[:, :, 1] = shift + factor * u[:, :, 1]
    compared = benchmark("judge").compare(exact.mean + exact.sd * u, exact)
    assert compared.wrong is wrong


def test_judge_does_not_excuse_chains_that_hardly_move(benchmark):
    exact = benchmark("exact").Exact(mean=np.zeros(1), sd=np.ones(1))
    stuck = np.random.default_rng(1).normal(size=(4, 1, 1)) + np.zeros((4, 1000, 1))
    assert benchmark("judge").compare(stuck, exact).wrong
    assert benchmark("judge").compare(np.zeros((4, 1000, 1)), exact).wrong


def test_designs_repeat_and_have_the_type_of_their_seed(benchmark):
    generated = benchmark("designs").generated
    first, again, other = generated(1004), generated(1004), generated(1005)
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.y, again.y)
    assert (first.x.dtype, other.x.dtype) == (np.float32, np.float64)
