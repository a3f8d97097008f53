"""Tables that are read a piece at a time give the regressions of the same columns in memory, bit for bit."""

import jax
import numpy as np
import pytest

import isotherm as iso
from isotherm.data.sources.base import Source, check_unchanged, row_of
from isotherm.tables import dependence, survey
from isotherm.tables.encoded import EncodedSource
from isotherm.tables.families import MODELS, family_of
from isotherm.tables.regressions import regression
from isotherm.tables.statistics import level_codes
from isotherm.tables.table import MemoryTable
from support import stored_tables
from support.laws import target
from support.made_forecast import options

pytestmark = pytest.mark.usefixtures("quick_compilation")

N = 1009  # a prime, so that no block length divides it
RNG = np.random.default_rng(0)
COLUMNS = {
    "age": RNG.normal(50, 12, N).astype(np.float32),
    "dose": RNG.gamma(2, 3, N),
    "visits": RNG.integers(0, 5, N),
    "flag": RNG.random(N) < 0.02,
    "sex": RNG.choice(["f", "m", "other"], N).astype(object),
    "years": RNG.uniform(0.5, 2, N),
    "known": RNG.normal(size=N),
    "weight": RNG.uniform(0.5, 2, N),
    "trials": RNG.integers(20, 30, N),
    "censored": RNG.random(N) < 0.3,
}
TARGETS = {
    "logistic": RNG.choice(["no", "yes"], N).astype(object),
    "softmax": RNG.choice([3, 1, 2], N),
}
FEATURES = ["age", "dose", "visits", "flag", "sex"]
STORED = [stored_tables.parquet, stored_tables.parts, stored_tables.loaded]


def columns_of(model):
    return COLUMNS | {"y": TARGETS[model] if model in TARGETS else target(model, N)}


@pytest.fixture
def short_chunks(monkeypatch):
    """Chunks of 64 rows, so that a small table has many."""
    monkeypatch.setattr(survey, "_CHUNK_ROWS", 64)
    monkeypatch.setattr(survey, "_FEW_ROWS", 64)


def with_gaps(columns):
    """Return the columns with missing values: NaN, or `None` among objects."""
    changed = {name: x.copy() for name, x in columns.items()}
    changed["age"][[0, 500]], changed["dose"][7], changed["sex"][[8, 900]] = np.nan, np.nan, None
    for name in ("visits", "flag"):
        changed[name] = changed[name].astype(object)
        changed[name][[11, 700]] = None
    # As files give them: integers with a missing value are floats.
    changed["visits"] = np.array([np.nan if v is None else v for v in changed["visits"]])
    return changed


def rows_of(found, length=N):
    data = found.data
    if isinstance(data, Source):
        parts = list(data.blocks(length))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return data


def same(found, expected):
    """Assert that two regressions are the same, bit for bit."""
    assert found.description == expected.description
    assert found.labels == expected.labels
    for a, b in zip(jax.tree.leaves(found.posterior), jax.tree.leaves(expected.posterior), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, values in expected.init.items():
        np.testing.assert_array_equal(found.init[name], values)
    first, second = rows_of(found), rows_of(expected)
    assert list(first) == list(second)
    for name, values in second.items():
        assert first[name].dtype == values.dtype
        np.testing.assert_array_equal(first[name], values)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("model", MODELS)
def test_the_regression_is_that_of_the_columns_in_memory(model, stored, tmp_path):
    columns = columns_of(model)
    given = {"categorical": ["visits"], "weights": "weight", **options(model)}
    given |= {"censored": "censored"} if "censored" in family_of(model).roles else {}
    expected = regression(model, columns, "y", FEATURES, **given)
    found = regression(model, stored(tmp_path, columns), "y", FEATURES, **given)
    assert isinstance(found.data, EncodedSource) is (stored is not stored_tables.loaded)
    same(found, expected)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("categorical", [[], ["visits", "flag"]])
def test_rows_with_missing_values_are_left_out(stored, categorical, tmp_path):
    columns = with_gaps(columns_of("linear"))
    given = {"missing": "drop", "categorical": categorical}
    expected = regression("linear", columns, "y", FEATURES, **given)
    assert expected.description["rows dropped"] == 7
    same(regression("linear", stored(tmp_path, columns), "y", FEATURES, **given), expected)


def test_a_column_is_of_the_same_kind_with_and_without_missing_values():
    """Booleans with a missing value are objects, but stay numbers; the levels of a target stay True and False."""
    columns = with_gaps(columns_of("linear"))
    found = regression("linear", columns, "y", ["age", "flag"], missing="drop")
    assert found.labels["coefficients"][0] == ["intercept", "age", "flag"]
    classes = regression("logistic", columns | {"y": columns["flag"]}, "y", ["age"], missing="drop")
    assert classes.description["classes"] == ["False", "True"]


def test_npy_tables_are_those_of_memory(tmp_path, short_chunks):
    x = RNG.normal(5, 2, (N, 3)).astype(np.float32)
    columns = {"x": x, "dose": COLUMNS["dose"], "flag": COLUMNS["flag"], "y": RNG.normal(size=N)}
    found = regression("linear", stored_tables.npy(tmp_path, columns), "y")
    assert found.labels["coefficients"][0] == ["intercept", "x.0", "x.1", "x.2", "dose", "flag"]
    same(found, regression("linear", columns, "y"))


@pytest.fixture(params=[False, True], ids=["all rows", "rows dropped"])
def source(request, tmp_path, short_chunks):
    columns = with_gaps(COLUMNS) if request.param else COLUMNS
    table = stored_tables.parts(tmp_path, columns | {"y": RNG.normal(size=N)})
    return regression("linear", table, "y", FEATURES, missing="drop").data


@pytest.mark.parametrize(
    ("length", "begin", "end"), [(1, 7, 12), (97, 0, None), (250, 311, 316), (333, 130, 990), (2000, 0, None)]
)
def test_the_source_can_start_anywhere(source, length, begin, end):
    whole, stop = source.in_memory(), source.num_rows if end is None else end
    assert source.row == row_of(whole)
    starts = range(begin, stop, length)
    for i, block in zip(starts, source.blocks(length, begin, end), strict=True):
        for name, x in whole.items():
            np.testing.assert_array_equal(block[name], x[i : min(i + length, stop)])


@pytest.mark.parametrize("count", [0, 1, 50, None])
def test_the_source_returns_single_rows(source, count):
    whole, order = source.in_memory(), np.random.default_rng(1).permutation(source.num_rows)
    index = np.sort(order[:count])
    for taken in (source.take(index), Source.take(source, index)):
        for name, x in whole.items():
            np.testing.assert_array_equal(taken[name], x[index])
    assert list(source.blocks(10, 5, 5)) == []


def bad(name, row, value):
    def change(columns):
        values = columns[name].astype(object if isinstance(value, str) else columns[name].dtype)
        values[row] = value
        return columns | {name: values}

    return change


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize(
    ("model", "change", "given"),
    [
        ("linear", bad("age", 800, np.nan), {}),
        ("linear", bad("age", 800, np.inf), {"missing": "drop"}),
        ("linear", lambda c: bad("dose", 3, np.nan)(bad("age", 800, np.inf)(c)), {}),
        ("linear", lambda c: bad("age", 0, np.nan)(bad("years", 801, -1.0)(c)), {"weights": "years"}),
        ("linear", bad("sex", 600, None), {}),
        ("linear", lambda c: c | {"sex": np.array([f"{i}" for i in range(N - 1)] + ["12O"], object)}, {}),
        ("linear", lambda c: c | {"sex": np.array(["one"] * N, object)}, {}),
        ("linear", lambda c: c | {"age": np.full(N, 0.1)}, {}),
        ("linear", lambda c: c | {"age": 1e6 + c["dose"] / 1000}, {}),
        ("linear", lambda c: c | {"y": c["sex"]}, {}),
        ("linear", lambda c: c | {"y": np.full(N, 0.1)}, {}),
        ("linear", lambda c: c | {"y": np.full(N, np.nan)}, {"missing": "drop"}),
        ("linear", {}, {"target": "z"}),
        ("logistic", lambda c: c | {"y": c["visits"]}, {}),
        ("poisson", bad("y", 700, -1), {}),
        ("poisson", bad("years", 900, 0.0), {"exposure": "years"}),
    ],
)  # fmt: skip
def test_errors_are_the_same_with_rows_of_the_table(model, change, given, tmp_path):
    columns = columns_of(model)
    columns = change(columns) if callable(change) else columns
    given = {"target": "y", "features": ["age", "dose", "sex"], **given}
    messages = []
    for make in (stored_tables.memory, stored_tables.parquet, stored_tables.parts):
        with pytest.raises(ValueError) as error:  # noqa: PT011
            regression(model, make(tmp_path, columns), **given)
        messages.append(str(error.value))
    assert len({*messages}) == 1, messages


def test_rows_in_errors_are_those_of_the_table_if_others_are_dropped():
    columns = bad("age", 800, np.inf)(with_gaps(columns_of("linear")))
    with pytest.raises(ValueError, match="the value in row 801 is infinite"):
        regression("linear", columns, "y", ["age", "dose"], missing="drop")


@pytest.mark.parametrize("rows", [2**13, 50])
def test_linearly_dependent_columns_are_reported(rows, tmp_path, monkeypatch):
    """If the sample is not the whole table, another pass confirms what it shows."""
    monkeypatch.setattr(dependence, "_SAMPLE_ROWS", rows)
    monkeypatch.setattr(dependence, "_SAMPLE_NUMBERS", 1)
    columns = columns_of("linear") | {"sum": COLUMNS["dose"] - 2 * COLUMNS["known"]}
    table = stored_tables.parts(tmp_path, columns)
    with pytest.warns(iso.IsothermWarning, match="`dose`, `sum`, `known` are linearly dependent"):
        regression("linear", table, "y", ["age", "dose", "sum", "known"])
    columns["sum"][5] += 100  # which the sample does not contain, unless it is the whole table
    regression("linear", MemoryTable(columns), "y", ["age", "dose", "sum", "known"])


def test_a_table_that_changes_while_it_is_used_is_noticed(tmp_path):
    data = regression(
        "linear", stored_tables.parquet(tmp_path, columns_of("linear")), "y", ["age", "sex"]
    ).data
    state = data.state()
    changed = columns_of("linear") | {"sex": np.array(["new"] * N, object)}
    stored_tables.parquet(tmp_path, changed)
    with pytest.raises(ValueError, match=r"table\.parquet has changed since its rows were first read"):
        check_unchanged(data, state)
    for read in (lambda: data.blocks(10), lambda: data.take(np.arange(3))):
        with pytest.raises(ValueError, match="has changed since its rows were first read"):
            read()
    for value, message in (("new", "column `sex` holds 'new' now"), (None, "has lost a value")):
        with pytest.raises(ValueError, match=message):
            level_codes("sex", np.array(["f", value], object), {"f": 0})
