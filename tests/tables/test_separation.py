"""A target that columns tell apart in every row is warned of, and no other."""

import warnings

import numpy as np
import pytest

import isotherm as iso
from isotherm.tables import separation
from isotherm.tables.separation import warn_if_separated


def found(x, y, *, length=500, has_intercept=True):
    """Return the warnings, and how many rows were read."""
    read = []

    def blocks():
        for begin in range(0, len(y), length):
            read.append(len(y[begin : begin + length]))
            yield {"x": x[begin : begin + length], "y": y[begin : begin + length]}

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names = [f"c{i}" for i in range(x.shape[1])]
        warn_if_separated(blocks, "y", names, has_intercept=has_intercept, stacklevel=1)
    return [str(w.message) for w in caught], sum(read)


def normal_columns(rows, width, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, width)).astype(np.float32), rng


@pytest.mark.parametrize("order", ["as they come", "by target"])
@pytest.mark.parametrize("width", [2, 30])
def test_a_sum_of_columns_that_separates_is_found_and_one_wrong_row_ends_it(width, order):
    """The plane is the same; a single row of 6,000 on its wrong side is enough for a maximum of the likelihood."""
    x, rng = normal_columns(6000, width)
    side = x[:, 0] + x[:, 1] - 0.4
    x, side = x[np.abs(side) > 0.05], side[np.abs(side) > 0.05]
    y = (side > 0).astype(np.float32)
    rows = np.argsort(y, kind="stable") if order == "by target" else np.arange(len(y))
    texts, _ = found(x[rows], y[rows])
    assert len(texts) == 1
    assert "`y` is perfectly separated: `c0`, `c1`" in texts[0]
    y[rng.choice(np.flatnonzero(side > 1.5))] = 0
    assert found(x[rows], y[rows])[0] == []


def test_a_column_that_separates_alone_is_named_alone():
    x, _ = normal_columns(3000, 5)
    y = (x[:, 3] > 0.2).astype(np.float32)
    assert "perfectly separated: `c3` tells its two classes apart" in found(x, y)[0][0]
    assert "perfectly separated: `c3` tells" in found(x, 1 - y)[0][0]


def test_tables_that_are_not_separated_are_read_no_further_than_needed():
    x, rng = normal_columns(50_000, 10)
    y = (rng.random(50_000) < 0.3).astype(np.float32)
    assert found(x, y) == ([], 500)


def test_an_intercept_matters():
    """Classes on both sides of 3 are told apart by a column only if there is an intercept."""
    x, _ = normal_columns(400, 1)
    y = (x[:, 0] > 0).astype(np.float32)
    assert found(x + 3, y)[0]
    assert not found(x + 3, y, has_intercept=False)[0]


def test_classes_that_touch_and_single_classes_are_no_perfect_separation():
    """Equal values in both classes; a level with one class alone; a target with one class."""
    x = np.array([[0.0, 0], [1, 0], [1, 1], [2, 1]], np.float32).repeat(50, axis=0)
    y = np.array([0, 0, 1, 1], np.float32).repeat(50)
    assert found(x[:, :1], y)[0] == []
    assert found(x, np.zeros_like(y))[0] == []
    assert found(np.zeros((10, separation._MOST_COLUMNS + 1), np.float32), np.zeros(10))[0] == []


@pytest.mark.parametrize("how", ["columns", "formula"])
def test_a_regression_warns(how):
    rng = np.random.default_rng(0)
    table = {"age": rng.normal(size=300), "paid": rng.normal(size=300)}
    table["late"] = (table["paid"] > 0.1).astype(float)
    made = lambda family: (
        iso.tables.regression(family, table, "late", progress=False)
        if how == "columns"
        else iso.tables.regression("late ~ age + paid", table, family=family, progress=False)
    )
    with pytest.warns(
        iso.IsothermWarning, match="`late` is perfectly separated: `paid` tells its two classes"
    ):
        made("logistic")
    made("linear")
