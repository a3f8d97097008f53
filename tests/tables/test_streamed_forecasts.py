"""Predictions that are made some rows at a time, and their scores, against those of all rows at once."""

import dataclasses

import numpy as np
import pytest

from isotherm.tables import forecasting as module
from isotherm.tables import survey
from isotherm.tables.families import MODELS
from isotherm.tables.forecasting import forecast, forecasts
from isotherm.tables.scored import Scored
from support import stored_tables
from support.made_forecast import made_forecast, table, target

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROWS = 200
NEW = table(ROWS, seed=1)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Chunks of 48 rows, so that a small table has several."""
    monkeypatch.setattr(survey, "_CHUNK_ROWS", 48)
    monkeypatch.setattr(survey, "_FEW_ROWS", 48)


def close(found, expected, rtol=1e-5):
    """Compare records of numbers, field by field."""
    for field in dataclasses.fields(expected):
        a, b = getattr(found, field.name), getattr(expected, field.name)
        if dataclasses.is_dataclass(b):
            close(a, b, rtol)
        elif isinstance(b, tuple):
            for one, other in zip(a, b, strict=True):
                close(one, other, rtol)
        elif isinstance(b, str) or b is None:
            assert a == b
        else:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_predictions_and_scores_are_those_of_all_rows_at_once(model, tmp_path):
    """Rows are centred alike in every block, and numbers agree to the rounding of 32 bits."""
    draws, columns = made_forecast(model), NEW | {"y": target(model, ROWS, seed=4)}
    whole, scored = forecast(draws, columns, interval=0.8, seed=3), Scored()
    parts = list(forecasts(draws, stored_tables.parquet(tmp_path, columns, group=33), interval=0.8, seed=3))
    assert [len(part.complete) for part in parts] == [48, 48, 48, 48, 8]
    for name, values in whole.columns.items():
        found = np.concatenate([part.columns[name] for part in parts])
        if name == "predicted":
            assert found.tolist() == values.tolist()
        else:
            np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-5)
    for part in parts:
        scored.add(part)
    assert (scored.rows, scored.empty) == (ROWS, 0)
    close(scored.scores, whole.scores)
    assert scored.density.mean == pytest.approx(whole.log_likelihood.mean, rel=1e-5)
    assert scored.density.standard_error == pytest.approx(whole.log_likelihood.standard_error, rel=1e-5)
    assert str(scored.density) == str(whole.log_likelihood)


@pytest.mark.parametrize("model", ["linear", "logistic", "softmax"])
def test_a_block_may_have_no_complete_row_and_no_target(model, tmp_path):
    draws, y = made_forecast(model), target(model, ROWS, seed=4).astype(object)
    y[100:] = None
    gaps = {name: x.copy() for name, x in NEW.items()} | {"y": y}
    gaps["age"][40:100] = np.nan
    if model == "linear":
        gaps["y"] = gaps["y"].astype(float)
    whole, scored = forecast(draws, gaps, missing="empty"), Scored()
    parts = list(forecasts(draws, stored_tables.parts(tmp_path, gaps, cuts=(0, 60)), missing="empty"))
    assert not parts[1].complete.any()
    for name, values in whole.columns.items():
        found = np.concatenate([part.columns[name] for part in parts])
        if name == "predicted":
            assert found.tolist() == values.tolist()
        else:
            np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-5)
    for part in parts:
        scored.add(part)
    assert (scored.rows, scored.empty, scored.scores.num_rows) == (ROWS, 60, 40)
    close(scored.scores, whole.scores)


def changed(name, row, value):
    values = NEW[name].copy()
    values[row] = value
    return {name: values}


@pytest.mark.parametrize(
    ("model", "change", "given"),
    [
        ("linear", changed("age", [16, 150], np.nan), {}),
        ("linear", changed("age", 150, np.inf), {"missing": "empty"}),
        ("linear", changed("sex", [150, 160], "x"), {}),
        ("linear", {"age": np.array(["old"] * ROWS, object)}, {}),
        ("linear", {"age": np.full(ROWS, np.nan)}, {"missing": "empty"}),
        ("poisson", changed("years", 150, 0.0), {}),
        ("poisson", {"y": np.full(ROWS, 0.5)}, {}),
        ("softmax", {"y": np.array(["a"] * 150 + ["d"] * 50, object)}, {}),
    ],
)
def test_errors_are_those_of_all_rows_and_come_before_anything_is_computed(
    model, change, given, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "_predicted", None)
    draws, columns = made_forecast(model), NEW | change
    with pytest.raises(ValueError, match="must") as expected:
        forecast(draws, columns, **given)
    with pytest.raises(ValueError, match="must") as found:
        next(forecasts(draws, stored_tables.parquet(tmp_path, columns), **given))
    assert str(found.value) == str(expected.value)
