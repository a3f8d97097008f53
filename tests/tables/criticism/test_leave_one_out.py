"""Leave-one-out against its closed form in a normal regression, and sums from some of the rows."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import stats

import isotherm as iso
from isotherm.tables.criticism.leave_one_out import total
from support.made_effects import drawn, rows

pytestmark = pytest.mark.usefixtures("quick_compilation")
T = iso.tables
COUNT, SIGMA = 60, 0.5


def normal(columns, names, *, seed=0, draws=2000):
    """Return exact draws of `cost` on some columns with known sigma and flat priors, and the exact elpd of each row."""
    X = np.stack([np.ones(len(columns["cost"])), *(columns[name] for name in names)], axis=1)
    precision = X.T @ X / SIGMA**2
    mean = np.linalg.solve(precision, X.T @ columns["cost"] / SIGMA**2)
    z = np.random.default_rng(seed).standard_normal((4, draws // 4, len(mean)))
    b = mean + z @ np.linalg.inv(np.linalg.cholesky(precision))
    made = drawn(f"cost ~ {' + '.join(names)}", columns, "linear")
    found = dataclasses.replace(
        made,
        posterior={"coefficients": b, "sigma": np.full(b.shape[:2], SIGMA)},
        status=("completed",) * 4,
        complete=np.ones(4, bool),
        lengths=np.full(4, draws // 4),
    )
    leverage = np.einsum("ij,jk,ik->i", X, np.linalg.inv(precision), X) / SIGMA**2
    residual = (columns["cost"] - X @ mean) / (1 - leverage)
    return found, stats.norm.logpdf(residual, 0, SIGMA / (1 - leverage) ** 0.5)


def test_the_sum_is_that_of_the_closed_form():
    """Mean over 8 sets of draws, against 7 of its standard errors: Student's t with 7 degrees, 2e-4."""
    columns = rows(COUNT)
    found = [T.loo(normal(columns, ["age", "km"], seed=seed)[0], columns) for seed in range(8)]
    exact = normal(columns, ["age", "km"])[1]
    values = np.array([x.elpd for x in found])
    assert abs(values.mean() - exact.sum()) < 7 * values.std(ddof=1) / 8**0.5
    np.testing.assert_allclose(found[0].pointwise.elpd, exact, atol=0.05)
    assert found[0].standard_error == pytest.approx(COUNT**0.5 * exact.std(ddof=1), rel=0.02)
    assert found[0].num_bad == 0
    assert 1.5 < found[0].p_loo < 6  # three coefficients
    assert "60 of 60 rows were left out one at a time" in str(found[0])


def test_some_rows_stand_for_all_by_the_difference_from_the_posterior_mean():
    """Over all choices of 3 of 6 rows, the sum is right on average, and so is its squared error: exactly."""
    rng = np.random.default_rng(0)
    exact = rng.normal(-1, 1, 6)
    cheap = exact + 0.1 * rng.normal(size=6)
    found = [total(cheap, exact[list(i)], np.array(i)) for i in itertools.combinations(range(6), 3)]
    values = np.array([x.value for x in found])
    assert values.mean() == pytest.approx(exact.sum())
    assert np.mean([x.subsampling_error**2 for x in found]) == pytest.approx(np.mean((values - exact.sum()) ** 2))


def test_a_choice_of_rows_is_within_its_error_of_all():
    columns = rows(300)
    draws, _ = normal(columns, ["km"])
    whole, some = T.loo(draws, columns), T.loo(draws, columns, rows=60)
    assert (some.num_chosen, some.num_rows) == (60, 300)
    assert 0 < some.subsampling_error < 0.05 * whole.standard_error
    assert abs(some.elpd - whole.elpd) < 4.5 * some.subsampling_error
    assert "from the choice of rows" in str(some)


def test_the_better_of_two_runs_is_named_and_the_difference_is_of_rows():
    columns = rows(COUNT)
    columns["cost"] = 1 + 0.1 * columns["km"] + SIGMA * np.random.default_rng(1).normal(size=COUNT)
    (right, elpd), (wrong, other) = (normal(columns, names) for names in (["km"], ["age"]))
    found = T.compare(right, wrong, columns)
    assert found.difference == pytest.approx(np.sum(elpd - other), abs=1.0)
    assert found.standard_error == pytest.approx(COUNT**0.5 * np.std(elpd - other, ddof=1), rel=0.05)
    assert "The first predicts better." in str(found)
    back = T.compare(wrong, right, columns)
    assert back.difference == pytest.approx(-found.difference)
    assert "The rows do not tell" in str(T.compare(right, right, columns))


def test_densities_of_different_things_are_not_compared():
    columns = rows(40)
    cost, claims = drawn("cost ~ km", columns, "linear"), drawn("claims ~ km", columns, "poisson")
    with pytest.raises(ValueError, match="`second` must be of a regression of `cost`"):
        T.compare(cost, claims, columns)
    with pytest.raises(ValueError, match="Their densities differ in kind"):
        T.compare(claims, drawn("claims ~ km", columns, "linear"), columns)
    missing = {**columns, "age": np.where(np.arange(40) < 3, np.nan, columns["age"])}
    with pytest.raises(ValueError, match="40 rows for the first and 37 for the second"):
        T.compare(cost, drawn("cost ~ age", columns, "linear"), missing)


def test_a_table_without_the_target_is_refused():
    columns = rows(40)
    draws = drawn("cost ~ km", columns, "linear")
    with pytest.raises(ValueError, match="`table` must be .*'cost'"):
        T.loo(draws, {"km": columns["km"]})
