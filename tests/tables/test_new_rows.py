"""Rows of a new table for a fitted regression: levels, missing values, and what is refused before any computation."""

import dataclasses

import numpy as np
import pytest

from isotherm.draws.record import About
from isotherm.tables import forecasting as module
from isotherm.tables.fitted import fitted
from isotherm.tables.forecasting import forecast
from isotherm.tables.new_rows import NewTable
from isotherm.tables.table import MemoryTable
from support.made_forecast import made_forecast, table
from support.made_run import made_draws

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROWS = 200
NEW = table(ROWS, seed=1)


def new_rows(model, columns, *, missing):
    given = MemoryTable(columns)
    reading, rows = NewTable(model, given, missing=missing), np.arange(given.num_rows)
    reading.see(columns, rows)
    reading.finish()
    return reading.rows(columns, rows)


def test_levels_are_those_that_the_run_has_seen():
    """A table may hold only one level, write the numbers differently, or hold floats because a value is missing."""
    draws = made_forecast("linear")
    few = {name: x[:3] for name, x in NEW.items()} | {"sex": np.array(["m", "m", "f"], object)}
    alone = {name: x[:2] for name, x in few.items()}
    low = lambda columns: forecast(draws, columns).columns["low"]
    np.testing.assert_allclose(low(few)[:2], low(alone), rtol=1e-5)
    columns = table(100) | {"sex": np.where(table(100)["sex"] == "m", 2, 10)}
    coded = made_forecast("linear", columns=columns, categorical=["sex"])
    assert fitted(coded).levels == {"sex": ["2", "10"]}
    codes = lambda sex: new_rows(fitted(coded), few | {"sex": sex}, missing="empty").x[:, 2]
    plain = codes(np.array([10, 2, 10]))
    for same in (np.array([10.0, 2.0, 10.0]), np.array(["10", "2", "10.0"], object)):
        np.testing.assert_array_equal(codes(same), plain)
    assert len(codes(np.array([10.0, np.nan, 2.0]))) == 2
    with pytest.raises(
        ValueError, match=r"`sex` must be one of the levels that the model knows, 2, 10; got 1\."
    ):
        codes(np.array([2, 1, 10]))


def test_rows_with_a_missing_value_have_no_prediction():
    gaps = {name: x.copy() for name, x in NEW.items()}
    gaps["age"][3], gaps["sex"][8], gaps["known"][20] = np.nan, None, np.nan
    for model in ("linear", "logistic"):
        draws = made_forecast(model)
        found, whole = forecast(draws, gaps, missing="empty"), forecast(draws, NEW)
        is_missing = np.isin(np.arange(ROWS), [3, 8, 20])
        np.testing.assert_array_equal(found.complete, ~is_missing)
        for name, values in found.columns.items():
            if name == "predicted":
                assert all(v is None for v in values[is_missing])
                assert values[~is_missing].tolist() == whole.columns[name][~is_missing].tolist()
            else:
                assert np.isnan(values[is_missing]).all()
                np.testing.assert_allclose(
                    values[~is_missing], whole.columns[name][~is_missing], rtol=1e-5, atol=1e-5
                )


def test_booleans_with_missing_values_are_still_numbers():
    columns = table(100) | {"dose": np.arange(100) % 3 == 0}
    draws = made_forecast("linear", columns=columns)
    flags = np.array([True, False, None, True], object)
    new = {name: x[:4] for name, x in NEW.items()}
    found = forecast(draws, new | {"dose": flags}, missing="empty").columns["mean"]
    whole = forecast(draws, new | {"dose": np.array([True, False, True, True])}).columns["mean"]
    np.testing.assert_allclose(found[[0, 1, 3]], whole[[0, 1, 3]], rtol=1e-5)


def changed(name, row, value):
    values = NEW[name].astype(object if isinstance(value, str) else NEW[name].dtype)
    values[row] = value
    return {name: values}


@pytest.mark.parametrize(
    ("model", "change", "given", "message"),
    [
        ("linear", {"age": None, "Age": NEW["age"]}, {}, r"`features` must be a column of the table; got 'age'. Did you mean `Age`\?"),
        ("linear", {"known": None}, {}, "`offset` must be a column of the table; got 'known'. The columns are age, dose"),
        ("poisson", {"years": None}, {}, "`exposure` must be a column of the table; got 'years'"),
        ("linear", changed("age", 16, np.nan), {}, r"column `age` .* row 17 is missing \(1 of 200 rows\).* `--missing empty`"),
        ("linear", changed("age", 16, np.inf), {}, r"column `age` .* row 17 is infinite \(1 of 200 rows\)\. Correct the table\.$"),
        ("linear", changed("age", 16, "old"), {}, r"`age` must be a column of numbers; got 'old'\. It is in row 17"),
        ("linear", changed("sex", 16, "x"), {}, r"`sex` must be one of the levels .* f, m; got 'x'\. It is in row 17 \(1 of 200.* sample again"),
        ("linear", changed("sex", 16, "x") | changed("age", 2, np.nan), {"missing": "empty"}, "It is in row 17"),
        ("linear", {"age": np.full(ROWS, np.nan)}, {"missing": "empty"}, "a row without missing values; `age` lacks 200 values"),
        ("linear", {"age": np.ones((ROWS, 2))}, {}, r"`table` must be one with the columns of the model, age, dose, sex=m; got 'age.0"),
        ("poisson", changed("years", 16, 0.0), {}, r"`years` must be a column of positive numbers; got 0.0\. It is in row 17"),
        ("poisson", {"y": np.full(ROWS, 0.5)}, {}, r"`y` must be a column of counts"),
        ("softmax", {"y": np.full(ROWS, "d", object)}, {}, r"`y` must be one of .* a, b, c; got 'd'\. .* row 1 .* only the scores need it"),
        ("linear", {}, {"missing": "drop"}, '`missing` must be "refuse" or "empty"'),
        ("linear", {}, {"unseen": "drop"}, '`unseen` must be "error", "missing" or "mean"; got'),
        ("linear", changed("sex", 16, "x"), {}, "`--unseen missing` or `--unseen mean`"),
        ("linear", {}, {"interval": 1.0}, "`interval` must be a probability between 0 and 1; got 1.0"),
        ("linear", {}, {"seed": -1}, "`seed` must be an integer of at least 0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_anything_is_computed(model, change, given, message, monkeypatch):
    draws = made_forecast(model)
    monkeypatch.setattr(module, "_predicted", None)
    columns = {name: values for name, values in (NEW | change).items() if values is not None}
    with pytest.raises(ValueError, match=message):
        forecast(draws, columns, **given)


@pytest.mark.parametrize("model", ["linear", "softmax"])
def test_levels_that_were_not_seen_are_left_empty_or_averaged(model):
    """The average level is that of all levels, each counted once: here half of the coefficient of `sex=m`."""
    draws = made_forecast(model)
    new = NEW | changed("sex", 16, "x")
    new["sex"][40] = "y"
    seen = np.delete(np.arange(ROWS), [16, 40])
    whole = forecast(draws, NEW)
    for policy in ("missing", "mean"):
        found = forecast(draws, new, unseen=policy)
        assert {name: rows.tolist() for name, rows in found.unseen.items()} == {"sex": [16, 40]}
        for name, values in found.columns.items():
            if name != "predicted":
                np.testing.assert_allclose(values[seen], whole.columns[name][seen], rtol=1e-5)
                assert np.isnan(values[[16, 40]]).all() == (policy == "missing")
    halfway = dataclasses.replace(draws, posterior={k: x.copy() for k, x in draws.posterior.items()})
    halfway.posterior["coefficients"][..., -1] /= 2
    as_m = forecast(halfway, NEW | {"sex": np.full(ROWS, "m", object)}).expected.mean
    np.testing.assert_allclose(found.expected.mean[[16, 40]], as_m[[16, 40]], rtol=1e-5)


def test_draws_of_anything_else_are_refused():
    draws = made_draws()
    for model in ({"function": "own.py:make"}, {}):
        draws = dataclasses.replace(draws, about=About(model=model))
        with pytest.raises(
            ValueError,
            match=r"`draws` must be from a regression .* `iso.predict\(draws, function, rows\)",
        ):
            forecast(draws, NEW)
    old = made_forecast("linear")
    del old.about.model["levels"]
    with pytest.raises(
        ValueError, match=r"recorded the levels of its categories; got 'linear'\. .* sample again"
    ):
        forecast(old, NEW)
