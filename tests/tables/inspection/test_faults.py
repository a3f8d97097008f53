"""Every kind of fault is found, with its rows, and the proposed spec is accepted by the regression."""

import datetime
import tomllib

import numpy as np
import pandas as pd
import pytest

import isotherm as iso
from isotherm.cli.spec import make_problem, read_spec
from isotherm.tables.inspection.findings import rows_in_words
from isotherm.tables.inspection.inspect import inspect

N = 120


def clean(rows=N, seed=0):
    """Return a table without a fault."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 12, rows).round(2),
            "sex": rng.choice(["f", "m"], rows),
            "dose": rng.gamma(2, 3, rows).round(3),
            "y": rng.normal(100, 5, rows).round(2),
        }
    )


def inspected(folder, frame, target="y", name="t.csv"):
    """Return what is found in a table, after checking that its spec is accepted if the result says so."""
    path = folder / name
    if name.endswith(".parquet"):
        frame.to_parquet(path, index=False, row_group_size=50)
    else:
        frame.to_csv(path, index=False)
    result = inspect(path, target, progress=False)
    if result.ok:
        (folder / "spec.toml").write_text(result.toml)
        problem = make_problem(read_spec(str(folder / "spec.toml")))
        assert problem.labels["coefficients"][-1][1:] == list(result.names)
    return result


def of(result, column, kind):
    """Return the finding of this kind in a column, which must be the only one."""
    (finding,) = (f for f in result.findings if (f.column, f.kind) == (column, kind))
    return finding


def test_a_table_without_a_fault_has_no_finding(tmp_path):
    for name in ("t.csv", "t.parquet"):
        result = inspected(tmp_path, clean(), name=name)
        assert result.findings == ()
        assert result.ok
        assert (result.rows, result.columns, result.used_rows, result.guess.model) == (N, 4, N, "linear")
        assert result.names == ("age", "sex=m", "dose")
        assert set(tomllib.loads(result.toml)["data"]) == {"path", "target"}


RNG = np.random.default_rng(1)
DAYS = pd.to_datetime("2024-01-05") + pd.to_timedelta(RNG.integers(0, 300, N), "D")


def some(values, rows, value):
    """Return values with another in some rows."""
    values = np.array(values, object)
    values[rows] = value
    return values


COLUMNS = {
    "row numbers": (np.arange(7, 7 + N), "identifier", (), 0, False),
    "shuffled identifiers": (RNG.permutation(N) + 1000, "identifier", (), 0, False),
    "text that all differs": ([f"P{i}" for i in RNG.permutation(N)], "identifier", (), 0, False),
    "few constants": (np.full(N, 3), "constant", (), 0, False),
    "one level": (np.full(N, "x"), "constant", (), 0, False),
    "iso dates": (DAYS.strftime("%Y-%m-%d"), "dates", (), 0, True),
    "other dates": (DAYS.strftime("%d.%m.%Y"), "dates", (), 0, True),
    "amounts": ([f"${900 + 7 * i:,}" for i in range(N)][::-1], "numbers", (1, 2, 3, 4, 5), N, True),
    "units": ([f"{i % 17} kg" for i in range(N)], "numbers", (1, 2, 3, 4, 5), N, True),
    "two units": (some([f"{i % 17} kg" for i in range(N)], [8, 80], "3 lb"), "units", (9, 81), 2, False),
    "mixed": (some(RNG.integers(0, 30, N), [3, 50], "?"), "mixed", (4, 51), 2, True),
    "decimal commas": ([f"{i % 17},{i % 7}" for i in range(N)], "decimal", (1, 2, 3, 4, 5), N, False),
    "infinite": (some(RNG.normal(size=N), [9], np.inf), "infinite", (10,), 1, False),
    "no value": (np.full(N, np.nan), "empty", (), 0, False),
    "mostly missing": (
        some(RNG.normal(size=N), slice(20, N), None),
        "missing",
        (21, 22, 23, 24, 25),
        100,
        False,
    ),
    "a few gaps": (some(RNG.normal(size=N), [5, 6], None), "missing", (6, 7), 2, True),
    "far from zero": (1e9 + RNG.normal(size=N).round(2), "far", (), 0, False),
    "rare level": (some(RNG.choice(["a", "b"], N), [2, 11], "c"), "rare", (3, 12), 2, True),
    "levels alike": (
        some(RNG.choice(["a", "b"], N), range(30, 40), " A"),
        "alike",
        (31, 32, 33, 34, 35),
        10,
        True,
    ),
    "intercept": (RNG.normal(size=N), "names", (), 0, False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_fault_of_a_column_is_found_with_its_rows(name, tmp_path):
    """`used` says whether the spec still has the column as a feature."""
    values, kind, rows, count, used = COLUMNS[name]
    frame = clean()
    frame.insert(1, name, values)
    result = inspected(tmp_path, frame)
    finding = of(result, name, kind)
    assert (finding.rows, finding.count) == (rows, count)
    assert result.ok
    assert any(x.split("=")[0] == name for x in result.names) == used
    assert {f.column for f in result.findings} <= {name, None}


@pytest.mark.parametrize(
    "name", [name for name in COLUMNS if name not in ("mixed", "infinite", "mostly missing")]
)
def test_parquet_files_have_the_same_faults(name, tmp_path):
    values, kind, rows, count, used = COLUMNS[name]
    frame = clean()
    frame.insert(1, name, values)
    result = inspected(tmp_path, frame, name="t.parquet")
    finding = of(result, name, kind)
    assert (finding.rows, finding.count) == (rows, count)
    assert result.ok
    assert any(x.split("=")[0] == name for x in result.names) == used


def test_more_than_a_hundred_names_are_left_out(tmp_path):
    frame = clean(300).assign(name=[f"n{i // 2}" for i in range(300)])
    result = inspected(tmp_path, frame)
    assert "more than 100 different values" in of(result, "name", "levels").fault
    assert tomllib.loads(result.toml)["data"]["exclude"] == ["name"]


def test_copies_are_found_whatever_their_units(tmp_path):
    frame = clean()
    frame["months"] = 12 * frame.age - 3
    frame["gender"] = frame.sex.map({"f": "woman", "m": "man"})
    frame["minus"] = -frame.dose
    frame["noisy"] = frame.dose + np.random.default_rng(9).normal(0, 0.5, N)  # correlation 0.99
    result = inspected(tmp_path, frame)
    assert of(result, "months", "copy").fault == "It is 12 × `age` - 3."
    assert of(result, "minus", "copy").fault == "It is -1 × `dose`."
    assert of(result, "gender", "copy").fault == "Its levels match those of `sex` one to one."
    assert result.names == ("age", "sex=m", "dose", "noisy")


def test_a_copy_of_the_target_is_left_out(tmp_path):
    frame = clean().assign(leak=lambda f: f.y / 1000, y2=lambda f: f.y > 100)
    assert "predicted from itself" in of(inspected(tmp_path, frame), "leak", "target").fault
    frame["answer"] = np.where(frame.y2, "yes", "no")
    with pytest.warns(
        iso.IsothermWarning, match="`answer` is perfectly separated: `y`"
    ):  # when the spec is used
        result = inspected(tmp_path, frame, "answer")
    assert "predicted from itself" in of(result, "y2", "target").fault
    assert "`answer` is perfectly separated: `y` tells" in of(result, None, "separated").fault


def test_copies_are_found_in_columns_with_gaps(tmp_path):
    frame = clean().assign(copy=lambda f: 2 * f.age)
    frame.loc[::7, "copy"] = np.nan
    assert of(inspected(tmp_path, frame), "copy", "copy").fault == "It is 2 × `age`."


def test_rows_that_are_dropped_are_counted(tmp_path):
    frame = clean()
    frame.loc[[1, 5], "age"] = np.nan
    frame.loc[[5, 9], "dose"] = np.nan
    frame.loc[[30], "y"] = np.nan
    result = inspected(tmp_path, frame)
    finding = of(result, None, "dropped")
    assert (finding.rows, finding.count) == ((2, 6, 10, 31), 4)
    assert result.used_rows == N - 4
    assert of(result, "y", "target").rows == (31,)


def test_columns_whose_gaps_exclude_each_other_do_not_both_stay(tmp_path):
    frame = clean().assign(a=1.0, b=2.0)
    frame["a"], frame["b"] = np.random.default_rng(9).normal(size=(2, N))
    frame.loc[: N // 2 - 2, "a"] = np.nan
    frame.loc[N // 2 + 2 :, "b"] = np.nan
    result = inspected(tmp_path, frame)
    assert "too few complete rows" in of(result, "a", "missing").fault
    assert result.ok
    assert result.used_rows == N // 2 + 2


def test_a_column_that_varies_only_where_another_is_missing_is_left_out(tmp_path):
    frame = clean().assign(reason="none")
    frame.loc[:9, "reason"], frame.loc[:9, "dose"] = "refused", np.nan
    result = inspected(tmp_path, frame)
    assert "without missing values have the same value" in of(result, "reason", "constant").fault
    assert result.ok
    assert result.names == ("age", "sex=m", "dose")


@pytest.mark.parametrize(
    ("values", "model", "why"),
    [
        (RNG.integers(0, 2, N), "logistic", 'probability of "1"'),
        (RNG.choice(["yes", "no"], N), "logistic", 'probability of "yes"'),
        (RNG.choice([True, False], N), "logistic", 'probability of "True"'),
        (RNG.choice(["a", "b", "c"], N), "softmax", "3 classes"),
        (RNG.integers(1, 4, N), "softmax", "from 1 to 3"),
        (RNG.poisson(3, N), "poisson", "counts"),
        (RNG.normal(size=N), "linear", "numbers"),
        (RNG.integers(20_000, 90_000, N), "linear", "numbers"),
        ([f"${1000 + 10 * i:,}" for i in RNG.permutation(N)], "linear", "numbers"),
        (some(RNG.integers(0, 2, N), [4], "?"), "logistic", 'probability of "1"'),
    ],
)
def test_the_target_suggests_a_model_that_runs(values, model, why, tmp_path):
    result = inspected(tmp_path, clean().assign(y=values))
    assert (result.guess.model, result.ok) == (model, True)
    assert why in result.guess.why
    assert ('`exposure = "COLUMN"`' in result.guess.alternative) == (model == "poisson")


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        (np.ones(N), "target", 'the value "1" in all rows'),
        (np.full(N, np.nan), "target", "no value in any row"),
        ([f"P{i}" for i in range(N)], "target", "neither numbers nor classes"),
        (DAYS.strftime("%Y-%m-%d"), "target", "neither numbers nor classes"),
        (some(RNG.normal(size=N), [3], np.inf), "infinite", "infinite"),
        (1e9 + RNG.normal(size=N), "far", "near 1e+09"),
    ],
)
def test_a_target_that_cannot_be_one_is_refused(values, kind, words, tmp_path):
    result = inspected(tmp_path, clean().assign(y=values))
    finding = of(result, "y", kind)
    assert words in finding.fault
    assert finding.blocks
    assert not result.ok


def test_without_a_target_the_usual_one_is_taken(tmp_path):
    assert inspected(tmp_path, clean()[["y", "age", "dose"]], None).target == "y"
    assert inspected(tmp_path, clean().rename(columns={"y": "pressure"}), None).target == "pressure"
    with pytest.raises(ValueError, match="Did you mean `dose`"):
        inspected(tmp_path, clean(), "doses")


def test_a_table_without_features_has_no_spec(tmp_path):
    result = inspected(tmp_path, pd.DataFrame({"id": np.arange(N), "y": RNG.normal(size=N)}))
    assert of(result, None, "features").blocks
    assert (result.toml, result.ok) == (None, False)


def test_dates_and_other_types_of_parquet(tmp_path):
    day = [datetime.date(2024, 1, 1) + datetime.timedelta(int(i)) for i in RNG.integers(0, 99, N)]
    frame = clean().assign(day=day, stamp=DAYS, list=[[1, 2]] * N)
    result = inspected(tmp_path, frame, name="t.parquet")
    assert result.names == ("age", "sex=m", "dose", "day", "stamp")
    assert of(result, "list", "type")


def test_arrays_are_checked_column_by_column(tmp_path):
    x = RNG.normal(size=(N, 3))
    np.savez(tmp_path / "t.npz", x=x, y=RNG.normal(size=N))
    assert inspect(tmp_path / "t.npz", progress=False).names == ("x.0", "x.1", "x.2")
    x[:, 1] = 5
    np.savez(tmp_path / "t.npz", x=x, y=RNG.normal(size=N))
    result = inspect(tmp_path / "t.npz", progress=False)
    assert of(result, "x.1", "constant").blocks
    assert not result.ok


def test_dependent_columns_are_reported(tmp_path):
    frame = clean().assign(a=lambda f: f.age + f.dose)
    result = inspected_with_warning(tmp_path, frame)
    assert "linearly dependent" in of(result, None, "dependent").fault
    assert result.ok


def inspected_with_warning(folder, frame):
    frame.to_csv(folder / "t.csv", index=False)
    return inspect(folder / "t.csv", "y", progress=False)


def test_all_faults_are_found_in_one_run(tmp_path):
    frame = clean()
    for name, (values, *_) in COLUMNS.items():
        frame.insert(1, name, values)
    result = inspected(tmp_path, frame)
    found = {(f.column, f.kind) for f in result.findings}
    assert {(name, kind) for name, (_, kind, *_) in COLUMNS.items()} <= found
    assert result.ok


def test_many_chunks_give_what_one_gives(tmp_path, monkeypatch):
    frame = clean()
    for name, (values, *_) in COLUMNS.items():
        frame.insert(1, name, values)
    whole = inspected(tmp_path, frame)
    monkeypatch.setattr("isotherm.tables.inspection.csv_rows._NUMBERS", 7 * len(frame.columns))
    monkeypatch.setattr("isotherm.tables.inspection.csv_rows._FEWEST_ROWS", 7)
    assert inspected(tmp_path, frame) == whole


@pytest.mark.parametrize(
    ("rows", "count", "words"),
    [
        ((), 0, ""),
        ((3,), 1, "row 3"),
        ((3, 1200), 2, "rows 3 and 1,200"),
        ((1, 2, 3), 3, "rows 1, 2 and 3"),
        ((1, 2, 3, 4, 5), 1206, "rows 1, 2, 3, 4, 5 and 1,201 more"),
    ],
)
def test_rows_in_words(rows, count, words):
    assert rows_in_words(rows, count) == words
