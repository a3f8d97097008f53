"""Average marginal effects against derivatives by hand."""

import numpy as np
import pytest

import isotherm as iso
from support.made_effects import drawn, rows
from support.made_forecast import expected, flat, made_forecast, table

pytestmark = pytest.mark.usefixtures("quick_compilation")
T = iso.tables
NEW = table(60, seed=3)
# The central difference over 0.006 sd is off by (0.003 b)^2 / 6 of the slope, where b < 1 is the slope of the predictor
# per sd; by the rounding of 0.006 sd in 32 bits, 4e-5; and where the column ends, and it is not central, by 0.003 b in
# two of 60 rows, of which one may have a tenth of the sum.
RELATIVE = 1e-3


@pytest.mark.parametrize(
    ("model", "derivative"), [("logistic", lambda p: p * (1 - p)), ("poisson", lambda m: m), ("linear", np.ones_like)]
)
def test_the_slope_is_the_mean_over_rows_of_the_derivative_at_every_draw(model, derivative):
    draws = made_forecast(model)
    found = T.slopes(draws, NEW, interval=0.8)
    b, _ = flat(draws)
    mean = derivative(expected(model, draws, NEW)).mean(axis=1)
    for k, name in ((1, "age"), (2, "dose")):
        exact = b[:, k] * mean
        np.testing.assert_allclose(found.samples[name], exact, rtol=RELATIVE, atol=1e-6)
        slope = next(x for x in found.slopes if x.column == name)
        assert slope.per_unit.mean == pytest.approx(exact.mean(), rel=RELATIVE)
        assert slope.per_unit.low == pytest.approx(np.quantile(exact, 0.1), rel=RELATIVE)
        assert slope.column_sd == pytest.approx(NEW[name].std())
    assert [x.column for x in found.slopes] == ["age", "dose"]


def test_the_probabilities_of_all_classes_change_by_nothing_together():
    found = T.slopes(made_forecast("softmax"), NEW, "age")
    assert [x.of for x in found.slopes] == ["a", "b", "c"]
    np.testing.assert_allclose(found.samples["age"].sum(axis=1), 0, atol=1e-7)
    assert list(found.to_pandas()["class"]) == ["a", "b", "c"]


def test_an_expression_is_differentiated_within_the_column():
    """log(km) is not defined below zero, and km has values near it."""
    columns = rows(80)
    columns["km"][:4] = [1e-3, 2e-3, 0.1, 0.2]
    draws = drawn("cost ~ log(km) + age", columns, "linear")
    b = draws.posterior["coefficients"].reshape(-1, 3)[:, 1]
    found = T.slopes(draws, columns, "km").samples["km"]
    # The exact difference quotients: their ends stay above the least value.
    step = 0.003 * columns["km"].std()
    below = np.clip(columns["km"] - step, columns["km"].min(), columns["km"].max() - 2 * step)
    np.testing.assert_allclose(found, b * np.mean(np.log1p(2 * step / below)) / (2 * step), rtol=1e-3)


def test_slopes_are_of_columns_of_numbers_that_vary():
    draws = made_forecast("linear")
    with pytest.raises(ValueError, match="columns of numbers; got 'sex'. Compare its levels"):
        T.slopes(draws, NEW, "sex")
    with pytest.raises(ValueError, match="columns that vary between rows; got 'age'"):
        T.slopes(draws, {**NEW, "age": np.full(60, 3.0)}, "age")
    text = str(T.slopes(draws, NEW))
    assert "change of the mean of y per unit of a column, averaged over 60 rows" in text
    assert max(map(len, text.splitlines())) <= 80
