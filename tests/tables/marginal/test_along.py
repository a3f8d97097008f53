"""Predictions along a column against averages by hand in 64 bits, at every draw."""

import itertools

import numpy as np
import pytest

import isotherm as iso
from isotherm.tables.marginal import means
from isotherm.tables.marginal.means import row_error
from support.made_effects import MIXED, drawn, rows
from support.made_forecast import expected, made_forecast, table

pytestmark = pytest.mark.usefixtures("quick_compilation")
T = iso.tables
NEW = table(60, seed=3)
BY_FORMULA = rows(90)


def with_value(columns, name, value):
    count = len(columns["age"])
    values = np.full(count, value, object if isinstance(value, str) else float)
    return {**columns, name: values}


@pytest.mark.parametrize("model", ["logistic", "softmax", "poisson", "binomial", "ordinal"])
def test_every_row_gets_the_value_and_the_responses_are_averaged_at_every_draw(model):
    draws = made_forecast(model)
    found = T.effects(draws, NEW, "age", at=[30, 55.5], interval=0.8)
    exact = np.stack(
        [expected(model, draws, with_value(NEW, "age", x)).mean(axis=1) for x in (30, 55.5)], axis=1
    )
    np.testing.assert_allclose(found.samples, exact, rtol=2e-5)
    np.testing.assert_allclose(found.mean, exact.mean(axis=0), rtol=2e-5)
    np.testing.assert_allclose(found.low, np.quantile(exact, 0.1, axis=0), rtol=2e-5)
    np.testing.assert_allclose(found.high, np.quantile(exact, 0.9, axis=0), rtol=2e-5)
    assert found.values == (30.0, 55.5)
    assert found.classes == (("a", "b", "c") if model in ("softmax", "ordinal") else ())


def test_levels_are_compared_by_difference_and_ratio():
    draws = made_forecast("poisson")
    found = T.effects(draws, NEW, "sex", compare=("f", "m"))
    f, m = (expected("poisson", draws, with_value(NEW, "sex", x)).mean(axis=1) for x in "fm")
    (contrast,) = found.contrasts
    assert contrast.difference.mean == pytest.approx((m - f).mean(), rel=1e-4)
    assert contrast.difference.high == pytest.approx(np.quantile(m - f, 0.95), rel=1e-4)
    assert contrast.ratio.low == pytest.approx(np.quantile(m / f, 0.05), rel=1e-4)
    assert "m against f" in str(found)
    back = T.effects(draws, NEW, "sex", compare=[("m", "f"), ("f", "m")]).contrasts
    assert back[0].difference.mean == pytest.approx(-back[1].difference.mean)
    (linear,) = T.effects(made_forecast("linear"), NEW, "sex", compare=("f", "m")).contrasts
    assert linear.ratio is None  # responses may be negative


def test_other_columns_at_typical_values():
    draws = made_forecast("logistic")
    found = T.effects(draws, NEW, "age", at=[40], others="typical")
    values, counts = np.unique(NEW["sex"].astype(str), return_counts=True)
    typical = {name: np.array([NEW[name].mean()]) for name in ("dose", "years", "known", "trials")}
    typical |= {"age": np.array([40.0]), "sex": np.array([values[counts.argmax()]], object)}
    np.testing.assert_allclose(found.samples, expected("logistic", draws, typical), rtol=2e-5)


def test_a_group_at_its_typical_value_has_no_effect_and_a_level_has_its_own():
    draws = drawn("cost ~ km + (1 | region)", BY_FORMULA, "linear")
    flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in draws.posterior.items()}
    middle = flat["coefficients"] @ [1, BY_FORMULA["km"].mean()]
    typical = T.effects(draws, BY_FORMULA, "km", at=[BY_FORMULA["km"].mean()], others="typical")
    np.testing.assert_allclose(typical.samples[:, 0], middle, rtol=1e-5)
    level = T.effects(draws, BY_FORMULA, "region", at=["r00004"])
    np.testing.assert_allclose(level.samples[:, 0], middle + flat["r_region"][:, 4, 0], rtol=1e-5)


def test_a_parameter_with_a_formula_of_its_own():
    draws = drawn(["cost ~ age", "sigma ~ km"], BY_FORMULA, "linear")
    flat = draws.posterior["sigma_coefficients"].reshape(-1, 2)
    found = T.effects(draws, BY_FORMULA, "km", at=[2, 9], of="sigma")
    np.testing.assert_allclose(found.samples, np.exp(flat @ [[1, 1], [2, 9]]), rtol=1e-5)
    assert found.response == "sigma of cost"


def test_the_grid_is_the_values_of_a_column_or_twenty_between_its_quantiles():
    draws = made_forecast("linear")
    age = T.effects(draws, NEW, "age").values
    low, high = np.quantile(NEW["age"], (0.01, 0.99))
    assert len(age) == 20
    assert age[0] == pytest.approx(low, abs=0.1)
    assert age[-1] == pytest.approx(high, abs=0.1)
    few = {**NEW, "age": np.arange(60) % 3 + 20}
    assert T.effects(draws, few, "age").values == (20.0, 21.0, 22.0)
    assert T.effects(draws, NEW, "sex").values == ("f", "m")


def test_the_error_from_the_choice_of_rows_is_that_of_sampling_without_replacement():
    """Over all samples of 3 of 6 rows, the estimated squared errors are the true ones on average, exactly."""
    values = np.array([0.3, 1.0, 2.5, -1.0, 0.7, 4.0])
    samples = [values[list(which)] for which in itertools.combinations(range(6), 3)]
    true = np.mean([(x.mean() - values.mean()) ** 2 for x in samples])
    assert np.mean([row_error(x[None], 0.5)[0] ** 2 for x in samples]) == pytest.approx(true)
    draws = made_forecast("logistic")
    found = T.effects(draws, table(4000, seed=1), "sex", rows=50)
    assert found.num_rows == 50
    assert "averaged over 50 of 4,000 rows" in str(found)
    assert "the choice of rows adds an error" in str(T.effects(made_forecast("poisson"), NEW, "sex", rows=3))
    assert np.all(T.effects(draws, NEW, "sex", rows=None).row_error == 0)


def test_rows_in_parts_give_the_same_averages(monkeypatch):
    draws = made_forecast("softmax")
    whole = T.effects(draws, NEW, "sex")
    monkeypatch.setattr(means, "_AT_ONCE", 14)
    parts = T.effects(draws, NEW, "sex")
    np.testing.assert_allclose(parts.samples, whole.samples, rtol=1e-5)
    np.testing.assert_allclose(parts.row_error, whole.row_error, rtol=1e-5)


def test_rows_with_a_missing_value_or_a_level_of_their_own_are_left_out():
    draws, columns = made_forecast("linear"), {name: x.copy() for name, x in NEW.items()}
    columns["dose"][:5] = np.nan
    columns["sex"][5] = "other"
    found = T.effects(draws, columns, "age", at=[40])
    kept = {name: x[6:] for name, x in NEW.items()}
    np.testing.assert_allclose(found.samples, T.effects(draws, kept, "age", at=[40]).samples, rtol=1e-6)
    assert (found.left_out, found.num_rows) == (6, 54)


def test_rows_come_from_a_file_too(tmp_path):
    import pandas as pd

    draws = drawn(MIXED, BY_FORMULA, "poisson")
    pd.DataFrame(BY_FORMULA).drop(columns="claims").to_csv(tmp_path / "new.csv", index=False)
    found = T.effects(draws, tmp_path / "new.csv", "age", at=[30])
    np.testing.assert_allclose(found.samples, T.effects(draws, BY_FORMULA, "age", at=[30]).samples, rtol=1e-4)
    frame = found.to_pandas()
    assert list(frame.columns) == ["age", "mean", "low", "high"]
    assert frame["mean"][0] == found.mean[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"column": "aeg"}, "one of the model: age, dose, sex, .*Did you mean `age`"),
        ({"column": "years", "at": "3"}, "`at` must be a list of values"),
        ({"column": "sex", "at": ["x"]}, "levels of `sex`: f, m"),
        ({"column": "age", "at": ["x"]}, "finite numbers"),
        ({"column": "age", "interval": 1.0}, "`interval` must be a probability"),
        ({"column": "age", "rows": 0}, "`rows` must be an integer of at least 1"),
        ({"column": "age", "others": "mean"}, '`others` must be "average" or "typical"'),
        ({"column": "sex", "compare": []}, "`compare` must be two values"),
        ({"column": "age", "of": "sigma"}, "`of` must be a parameter that has a formula of its own"),
    ],
)
def test_what_cannot_be_asked_is_named(options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        T.effects(made_forecast("negative-binomial"), NEW, **options)


def test_a_group_with_many_levels_is_read_by_its_effects():
    columns = rows(120, regions=60)
    with pytest.raises(ValueError, match="`region` has 60: name some, or read `group_effects`"):
        T.effects(drawn("cost ~ (1 | region)", columns, "linear"), columns, "region")
