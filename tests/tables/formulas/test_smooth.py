"""Curves are natural cubic splines: their span, their penalty and their extrapolation, against splines of scipy."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from isotherm.tables.formulas.smooth import SmoothDesign, cardinal, fit_spline, penalty

RNG = np.random.default_rng(0)
X = RNG.gamma(2, 3, 500)
KNOTS = np.array([-1.0, 0.5, 0.7, 3.0, 10.0])


def test_cardinal_splines_are_those_of_scipy():
    """Each is 1 at one knot; scipy's natural spline through the same points is the same inside the knots."""
    x = np.linspace(-1, 10, 301)
    expected = CubicSpline(KNOTS, np.eye(5), bc_type="natural")(x)
    np.testing.assert_allclose(cardinal(x, KNOTS), expected, atol=1e-12)


def test_curves_are_straight_beyond_the_ends():
    for end, out in ((-1.0, np.array([-2.0, -3.0, -7.0])), (10.0, np.array([11.0, 14.0, 30.0]))):
        slopes = CubicSpline(KNOTS, np.eye(5), bc_type="natural")(end, 1)
        at_end = cardinal(np.array([end]), KNOTS)
        np.testing.assert_allclose(
            cardinal(out, KNOTS), at_end + (out - end)[:, None] * slopes, rtol=1e-9, atol=1e-9
        )


def test_the_penalty_is_the_integral_of_the_squared_second_derivative():
    """The second derivative is linear between knots, so Simpson's rule is exact for its square."""
    values = RNG.normal(size=(5, 3))
    bends = CubicSpline(KNOTS, values, bc_type="natural")(KNOTS, 2)
    middle = (bends[1:] + bends[:-1]) / 2
    steps = np.diff(KNOTS)[:, None]
    expected = np.sum(steps / 6 * (bends[:-1] ** 2 + 4 * middle**2 + bends[1:] ** 2), axis=0)
    np.testing.assert_allclose(np.diag(values.T @ penalty(KNOTS) @ values), expected, rtol=1e-10)


@pytest.mark.parametrize("size", [4, 10, 40])
def test_the_penalised_part_with_lines_spans_all_natural_splines(size):
    spline = fit_spline("x", X, size)
    assert (spline.size, spline(X).shape) == (size, (500, size - 2))
    x = np.linspace(X.min() - 1, X.max() + 1, 400)
    made = np.column_stack([np.ones(400), x, spline(x)])
    values = RNG.normal(size=size)
    curve = cardinal(x, spline.knots) @ values
    found, *_ = np.linalg.lstsq(made / np.linalg.norm(made, axis=0), curve)
    np.testing.assert_allclose(
        made / np.linalg.norm(made, axis=0) @ found, curve, atol=1e-7 * np.abs(curve).max()
    )


def test_coefficients_have_the_penalty_of_their_curve():
    """Z is divided by one number, so the penalty is the sum of squares times one number."""
    spline = fit_spline("x", X, 12)
    b = RNG.normal(size=(10, 4))
    values = spline.weights @ b
    found = np.diag(values.T @ penalty(spline.knots) @ values)
    ratio = found / np.sum(b**2, axis=0)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-8)


def test_columns_are_centred_and_of_unit_size():
    Z = fit_spline("x", X, 10)(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.mean(np.sum(Z**2, axis=1)), 1, rtol=1e-12)


def test_the_unit_does_not_matter():
    """A curve along 1000 x + 5 is the curve along x, up to signs of columns."""
    a, b = fit_spline("x", X, 8)(X), fit_spline("x", 1000 * X + 5, 8)(1000 * X + 5)
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-8)


def test_very_unequal_knots_keep_the_penalty():
    """Knots from 1e-3 to 1e6 apart: eigenvectors of the penalty itself would be lost in rounding."""
    x = np.concatenate([np.linspace(0, 0.01, 50), np.exp(np.linspace(0, 14, 50))])
    spline = fit_spline("x", x, 20)
    b = np.eye(18)
    bends = CubicSpline(spline.knots, spline.weights @ b, bc_type="natural")(spline.knots, 2)
    middle, steps = (bends[1:] + bends[:-1]) / 2, np.diff(spline.knots)[:, None]
    found = np.sum(steps / 6 * (bends[:-1] ** 2 + 4 * middle**2 + bends[1:] ** 2), axis=0)
    np.testing.assert_allclose(found[:6], found[0], rtol=1e-4)


def test_knots_are_quantiles_with_the_exact_ends_and_no_repeats():
    x = np.concatenate([np.zeros(300), np.arange(1, 9)])
    spline = fit_spline("x", x, 10)
    assert spline.knots.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    many = np.concatenate([np.zeros(3000), X])
    knots = fit_spline("x", many, 10).knots
    assert (knots[0], knots[-1]) == (0, X.max())
    assert len(np.unique(knots)) == len(knots) >= 4


def test_too_few_values_are_refused():
    with pytest.raises(
        ValueError,
        match=r"`x` must be a column with at least 4 different values, for a curve; got 2\. They are 0, 1",
    ):
        fit_spline("x", np.array([0.0, 1, 1, 0]), 10)


def test_the_record_gives_the_same_curve():
    design = SmoothDesign("x", fit_spline("x", X, 9))
    again = SmoothDesign.from_record(design.record())
    assert (again.size, again.low, again.high) == (9, X.min(), X.max())
    np.testing.assert_array_equal(again.spline(X), design.spline(X))
