"""Columns computed from others: targets such as log(y), offsets such as log(a) - b."""

import numpy as np
import pytest

from isotherm.tables.formulas.computed import ComputedTable, with_computed
from isotherm.tables.formulas.parse import parse
from isotherm.tables.table import MemoryTable
from support import stored_tables

N = 50
RNG = np.random.default_rng(0)
COLUMNS = {
    "y": RNG.gamma(2, size=N),
    "a b": RNG.gamma(2, size=N).astype(np.float32),
    "c": RNG.integers(0, 5, N),
    "flag": RNG.random(N) < 0.3,
    "text": np.array(["u"] * N, object),
}
FORMULA = "log(y) ~ 1 + offset(log(`a b`) - 2*c) + weights(1 + flag)"


@pytest.mark.parametrize("stored", [stored_tables.parquet, stored_tables.loaded])
def test_columns_are_computed_as_rows_are_read(stored, tmp_path):
    table = with_computed(stored(tmp_path, COLUMNS), parse(FORMULA))
    expected = {
        "log(y)": np.log(COLUMNS["y"]),
        "log(`a b`) - 2*c": np.log(COLUMNS["a b"].astype(np.float64)) - 2 * COLUMNS["c"],
        "1 + flag": 1.0 + COLUMNS["flag"],
    }
    names = [*expected, "c"]
    chunks = [columns for _, columns in table.chunks(names, 7)]
    for name in names:
        assert (table.kinds[name], table.shapes[name]) == ("numbers", ())
        found = np.concatenate([chunk[name] for chunk in chunks])
        np.testing.assert_array_equal(found, expected.get(name, COLUMNS["c"]))
        np.testing.assert_array_equal(table.take([name], np.array([3, 40]))[name], found[[3, 40]])
    assert table.num_rows == N


def test_a_table_that_needs_no_computed_column_is_itself():
    table = MemoryTable(COLUMNS)
    assert with_computed(table, parse("y ~ c + offset(`a b`)")) is table
    odd = MemoryTable({"log(y)": COLUMNS["y"]})
    assert with_computed(odd, parse("`log(y)` ~ 1")) is odd


def test_missing_values_stay_missing():
    table = with_computed(MemoryTable({"y": np.array([1.0, np.nan, 4.0])}), parse("sqrt(y) ~ 1"))
    assert isinstance(table, ComputedTable)
    np.testing.assert_array_equal(table.take(["sqrt(y)"], np.arange(3))["sqrt(y)"], [1, np.nan, 2])


@pytest.mark.parametrize(("value", "shown"), [(0.0, "-inf"), (-1.0, "nan")])
def test_values_that_are_not_finite_are_refused(value, shown):
    table = with_computed(MemoryTable({"y": np.array([1.0, 2.0, value])}), parse("log(y) ~ 1"))
    with pytest.raises(
        ValueError,
        match=rf"`log\(y\)` must be finite in every row; got {shown}\. It is in row 3, where `y` is",
    ):
        list(table.pieces(["log(y)"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [("log(text) ~ 1", "`text` must be a column of numbers; got 'text'"), ("log(z) ~ 1", "got 'z'")],
)
def test_columns_that_are_not_there_or_no_numbers_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        with_computed(MemoryTable(COLUMNS), parse(text))
