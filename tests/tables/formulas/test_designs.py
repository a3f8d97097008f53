"""Designs of formulas: the matrix is formulaic's own, however the rows are cut and wherever they are stored."""

import json
import warnings

import formulaic
import numpy as np
import pandas as pd
import pytest

from isotherm.errors import IsothermWarning
from isotherm.tables.formulas import limits, sample
from isotherm.tables.formulas.dependence import warn_if_formula_dependent
from isotherm.tables.formulas.design import FormulaDesign
from isotherm.tables.formulas.parse import parse
from isotherm.tables.formulas.passes import FormulaPass
from isotherm.tables.table import MemoryTable
from support.made_formulas import COLUMNS, RNG, N, design, rows_of, seen

FIXED = [
    "age",
    "age + sex",
    "0 + sex + km",
    "sex * km",
    "sex:km",
    "sex:`the town` + flag",
    "(age + km + sex)**2 - age:km",
    "sex/km",
    "`the town` + `class` + log(Q('class') + 10)",
    "C(visits)",
    "C(visits) * `the town`",
    "C(sex, contr.treatment(base='m'))",
    "C(sex, contr.treatment)",
    "C(visits, contr.treatment(base=2))",
    "C(sex, contr.sum)",
    "C(visits, contr.helmert)",
    "C(visits, contr.poly)",
    "C(visits, contr.diff)",
    "C(sex, levels=['other', 'f', 'm'])",
    "C(sex, Treatment('m'))",
    "log(km) + log1p(km) + log10(km) + log2(km) + sqrt(km) + exp(km / 10) + abs(Q('class')) + sin(age) + cos(age)",
    "I(age**2) + I(age > 50) + np.log(km) + I(age / km) + expm1(-km)",
    "poly(age, 3)",
    "poly(age, degree=3, raw=True)",
    "bs(age, df=6)",
    "bs(age, knots=[40, 50], degree=2)",
    "cr(age, df=4)",
    "cs(km, df=3) + cc(age, df=4)",
    "center(age) + scale(km) + standardize(age):sex",
    "poly(log(km), 2):sex",
    "poly(scale(km), 2)",
    "Q('the town') + Q('class')",
    "1",
]
MIXED = "y ~ s(age, k=7) + sex * km + (1 + km | region) + (0 + poly(age, 2) + sex || region/broker) + (1 | visits)"


def model_matrix(text):
    """Return formulaic's matrix of all rows at once."""
    columns = {name: x.astype(np.float64) if x.dtype.kind in "fb" else x for name, x in COLUMNS.items()}
    own = {name: getattr(np, name) for name in ("sqrt", "log1p", "expm1", "abs", "sin", "cos")}
    matrix = formulaic.model_matrix(text, pd.DataFrame(columns), context=own)
    return matrix.drop(columns="Intercept", errors="ignore")


def same(a, b):
    """Assert that two sets of encoded rows are the same, bit for bit."""
    assert list(a) == list(b)
    for name, x in a.items():
        np.testing.assert_array_equal(x, b[name])


@pytest.mark.parametrize("text", FIXED)
def test_the_matrix_is_that_of_formulaic(text):
    """Both work in 64 bits; rows are stored in 32, which round by 6e-8."""
    made = design(f"y ~ {text}", standardize=False)
    expected = model_matrix(text)
    assert list(made.names) == list(expected.columns)
    assert made.has_intercept == (not text.startswith("0"))
    x = rows_of(made)["x"]
    np.testing.assert_allclose(x, expected.to_numpy(np.float64), rtol=2e-7, atol=1e-9)


@pytest.mark.parametrize("text", [*(f"y ~ {fixed}" for fixed in FIXED[::4]), MIXED])
@pytest.mark.parametrize("length", [200])
def test_chunks_give_the_design_of_all_rows_at_once(text, length):
    whole, cut = design(text), design(text, length=length)
    assert json.dumps(whole.record()) == json.dumps(cut.record())


@pytest.mark.parametrize("text", [*(f"y ~ {fixed}" for fixed in FIXED), MIXED])
def test_the_record_encodes_the_same_rows(text):
    made = design(text)
    again = FormulaDesign.from_record(json.loads(json.dumps(made.record())))
    same(rows_of(again), rows_of(made))
    assert again.record() == made.record()
    assert (again.names, again.row, again.levels) == (made.names, made.row, made.levels)
    few = {name: x[:3] for name, x in COLUMNS.items()}
    same(rows_of(again, few), {name: x[:3] for name, x in rows_of(made).items()})


def test_columns_are_standardised():
    """The scale is the sd, or 1 for an indicator; the mean is 0 in 64 bits, and 32 bits round rows by 6e-8."""
    made = design("y ~ sex * km + s(age) + I(visits > 2)")
    x = rows_of(made)["x"].astype(np.float64)
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-6)
    two = [name.startswith(("sex[T.m]", "sex[T.o", "I(")) and ":" not in name for name in made.names]
    np.testing.assert_array_equal(made.scale[two], 1)
    np.testing.assert_allclose(x.std(axis=0)[~np.array(two)], 1, rtol=1e-6)
    assert made.names[-1] == "s(age).linear"
    np.testing.assert_allclose(made.sd[-1], COLUMNS["age"].std())


def test_without_an_intercept_columns_are_not_centred():
    made = design("y ~ 0 + sex + km")
    np.testing.assert_array_equal(made.center, 0)
    np.testing.assert_allclose(made.scale, [1, 1, 1, COLUMNS["km"].astype(np.float64).std()])


def test_groups_and_curves():
    made = design(MIXED)
    assert [g.name for g in made.groups] == ["region", "region_2", "region:broker", "visits"]
    assert [g.terms for g in made.groups][:2] == [
        ("Intercept", "km"),
        ("poly(age, 2)[1]", "poly(age, 2)[2]", "sex[f]", "sex[m]", "sex[other]"),
    ]
    assert [g.correlated for g in made.groups] == [True, False, False, True]
    rows = rows_of(made)
    assert "terms_visits" not in rows
    region = made.groups[0]
    assert region.levels == sorted(set(COLUMNS["region"]))
    np.testing.assert_array_equal(np.array(region.levels)[rows["level_region"]], COLUMNS["region"])
    np.testing.assert_array_equal(region.counts, np.bincount(rows["level_region"]))
    np.testing.assert_array_equal(rows["terms_region"], np.stack([np.ones(N), COLUMNS["km"]], axis=1))
    np.testing.assert_allclose(region.sd, [1, COLUMNS["km"].astype(np.float64).std()])
    both = made.groups[2]
    pairs = [f"{a}:{b}" for a, b in zip(COLUMNS["region"], COLUMNS["broker"], strict=True)]
    assert sorted(both.levels) == sorted(set(pairs))
    assert np.array(both.levels)[rows["level_region:broker"]].tolist() == pairs
    assert made.groups[3].levels == ["0", "1", "2", "3"]
    assert rows["smooth_age"].shape == (N, 5)
    (smooth,) = made.smooths
    assert (smooth.name, smooth.size, smooth.low, smooth.high) == (
        "age",
        7,
        COLUMNS["age"].min(),
        COLUMNS["age"].max(),
    )


@pytest.fixture
def small_sample(monkeypatch):
    """A sample of 300 of the 1009 rows."""
    monkeypatch.setattr(sample, "_ROWS", 300)


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize(
    ("text", "twice"),
    [
        ("y ~ sex + C(visits) + log(km) + s(age) + (1 | region) + (1 + km | broker)", False),
        ("y ~ 0 + sex + km", False),
        ("y ~ sex * km", True),
        ("y ~ poly(age, 2)", True),
        ("y ~ C(visits, contr.sum)", True),
        ("y ~ km + (1 + km:sex | broker)", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("length", [400, N])
def test_a_second_pass_only_if_the_matrix_needs_it(text, twice, length):
    """Means and sds are of all rows either way: those of the encoded matrix in 64 bits."""
    assert seen(text, length=length).second_pass is twice
    made = design(text, length=length)
    plain = rows_of(design(text, length=length, standardize=False))
    np.testing.assert_allclose(made.sd, plain["x"].astype(np.float64).std(axis=0), rtol=1e-5)
    if made.has_intercept:
        np.testing.assert_allclose(
            made.center, plain["x"].astype(np.float64).mean(axis=0), rtol=1e-5, atol=1e-7
        )
    for group in made.groups:
        if not group.is_intercept:
            expected = plain[f"terms_{group.name}"].astype(np.float64).std(axis=0)
            np.testing.assert_allclose(group.sd[1:], expected[1:], rtol=1e-5)


@pytest.mark.usefixtures("small_sample")
def test_the_sample_does_not_depend_on_the_chunks():
    a, b = design(MIXED, length=300), design(MIXED, length=N)
    assert a.matrix.record() == b.matrix.record()
    np.testing.assert_array_equal(a.smooths[0].spline.knots, b.smooths[0].spline.knots)
    assert (a.smooths[0].low, a.smooths[0].high) == (COLUMNS["age"].min(), COLUMNS["age"].max())


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize(
    "text", ["bs(age, df=5)", "bs(I((age - 50)**2), df=5)", "bs(log(km) - age, df=4):sex"]
)
def test_splines_span_all_rows_of_a_table_that_is_larger_than_the_sample(text):
    assert np.isfinite(rows_of(design(f"y ~ {text}"))["x"]).all()


BAD = {
    "y ~ ages": "`formula` must be a column of the table; got 'ages'. Did you mean `age`",
    "y ~ age + (1 | regions)": "Did you mean `region`",
    "y ~ s(sex)": r"`sex` must be a column of numbers; got 'text'. It is in `s\(sex\)`",
    "y ~ log(sex)": r"`sex` must be a column of numbers; got 'text'. It is in `log\(sex\)`",
    "y ~ s(flag)": r"at least 4 different values.*use `flag` or `C\(flag\)`",
    "y ~ log(class0)": r"column `log\(class0\)` must have a value in every row; the value in row 1 is infinite",
    "y ~ sqrt(Q('class'))": r"column `sqrt\(Q\(.class.\)\)` must have a value in every row; .* not a number",
    "y ~ sex:log(class0)": "infinite",
    "y ~ same": "`same` must be a column that varies; got 'a'",
    "y ~ one": "`one` must be a column that varies; got 1.0",
    "y ~ cell * `the town`": r"`cell\[T.b\]:the town\[T.west\]` must be a column that varies; got 0.0. .*interaction",
    "y ~ far": "within 10000 standard deviations of zero",
    "y ~ age + (1 | same)": r"`same` must be a factor with at least 2 levels; got 'a'. .*leave `\(1 \| same\)` out",
    "y ~ age + (1 + one | region)": "`one` must be a column that varies",
    "y ~ gap": "column `gap` must have a value in every row; the value in row 4 is missing",
    "y ~ age + (1 | gap)": "column `gap` must have a value in every row; the value in row 4 is missing",
    "y ~ C(gap)": "column `gap` must have a value",
    "y ~ poly(gap, 2)": "column `gap` must have a value",
    "y ~ many": "at most 100 different values",
    "y ~ wide": "one value in each row; got 'wide'",
    "y ~ day": "`day` must be a column of numbers; got 'dates'",
    "y ~ C(sex, levels=['f', 'm'])": "The level 'other' of `sex` is not in `levels`",
    "y ~ C(sex, contr.treatment(base='x'))": "`formula` must be one that the columns can be put in",
    "y ~ bs(age, df=2)": "`formula` must be one that the columns can be put in.*`df` must be greater than 3",
    "y ~ cr(one, df=9)": "`formula` must be one that the columns can be put in",
    "y ~ bs(age, df=5, upper_bound=50)": r"use cr\(x, df=5\) or s\(x\)",
    "y ~ log(log)": "not named like its functions; got 'log'",
    "y ~ Intercept": "not named like its functions",
    "y ~ hundred:hundred2:C(visits)": r"at most 10000 columns; got 4000\d.*`hundred:hundred2:C\(visits\)` alone",
}  # fmt: skip
HUNDRED = np.array([f"l{i % 100}" for i in range(N)], object)
ODD = {
    "class0": np.abs(COLUMNS["class"]) * (np.arange(N) > 0),
    "same": np.array(["a"] * N, object),
    "one": np.ones(N),
    "cell": np.where((COLUMNS["the town"] == "east") & (np.arange(N) % 2 > 0), "b", "a").astype(object),
    "far": RNG.normal(1e9, 1, N),
    "gap": np.where(np.arange(N) == 3, np.nan, np.arange(N) % 5),
    "many": np.array([f"n{i}" for i in range(N)], object),
    "wide": np.ones((N, 2)),
    "day": np.full(N, np.datetime64("2024-03-01")),
    "log": RNG.gamma(2, size=N),
    "Intercept": RNG.normal(size=N),
    "hundred": HUNDRED,
    "hundred2": RNG.permutation(HUNDRED),
}


@pytest.mark.parametrize("length", [400])
@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_used_is_refused(text, length):
    with pytest.raises(ValueError, match=BAD[text]):
        design(text, COLUMNS | ODD, length=length)


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize(
    "text", ["y ~ sex:log(class0)", "y ~ cell * `the town`", "y ~ log(class0) + far", "y ~ far + sex * km"]
)
def test_all_rows_are_checked_in_a_second_pass(text):
    with pytest.raises(ValueError, match=r"infinite|must be a column that varies|within 10000"):
        design(text, COLUMNS | ODD, length=64)


def test_a_category_is_not_read_as_numbers_too():
    with pytest.raises(
        ValueError, match=r"`categorical` must be .*; got 'visits'. It is in `log\(visits \+ 1\)` too"
    ):
        design("y ~ visits + log(visits + 1)", categorical=["visits"])


def test_columns_listed_as_categories_are_categories():
    made = design("y ~ visits + flag", categorical=["visits"])
    assert made.names == ("visits[T.1]", "visits[T.2]", "visits[T.3]", "flag")
    assert made.levels == {"visits": ["0", "1", "2", "3"]}


def test_a_dot_is_all_other_columns():
    columns = {name: COLUMNS[name] for name in ("y", "age", "the town", "visits")}
    assert design("log(y + 9) ~ . + (1 | visits)", columns).names == ("age", "the town[T.west]")


def test_rows_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr(limits, "available_bytes", lambda: 10_000)
    with pytest.raises(ValueError, match=r"`formula` must be one whose rows fit into 0.0 GB of free memory"):
        design("y ~ sex * km + (1 | region)")


DEPENDENT = {
    "y ~ C(visits) + visits": r"`visits`, `C\(visits\)\[T.1\]`|`C\(visits\)\[T.1\]`",
    "y ~ cr(age, df=4)": r"`cr\(age, df=4\)\[1\]`",
    "y ~ age + I(2 * age - 3)": r"`age`, `I\(2 \* age - 3\)` are linearly dependent",
    "y ~ 0 + age + I(2 * age)": "are linearly dependent",
}
INDEPENDENT = ["y ~ 0 + sex + km", "y ~ sex * km", "y ~ 0 + age + I(age - 3)", "y ~ s(age) + poly(km, 3)"]


def warn(text, columns=COLUMNS):
    made = seen(text, columns)
    found = made.finish(standardize=True)
    warn_if_formula_dependent(made, found, lambda: iter([rows_of(found, columns)["x"]]), stacklevel=1)


def warnings_of(text, columns=COLUMNS):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn(text, columns)
    return [str(x.message) for x in found]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("text", DEPENDENT)
def test_dependent_columns_are_reported(text, small, monkeypatch):
    if small:
        monkeypatch.setattr(sample, "_ROWS", 300)
    with pytest.warns(IsothermWarning, match=DEPENDENT[text]):
        warn(text)


@pytest.mark.parametrize("text", INDEPENDENT)
def test_independent_columns_are_not(text):
    assert not warnings_of(text)


@pytest.mark.usefixtures("small_sample")
def test_columns_that_differ_in_a_row_outside_of_the_sample_are_independent():
    """The pass keeps the row with the greatest difference only if it holds an extreme of a column."""
    twin = COLUMNS["age"].copy()
    _, kept = _sampled("y ~ age + twin", twin)
    row = next(i for i in range(N) if i not in kept)
    twin[row] = 2 * COLUMNS["age"].mean() - twin[row]
    assert not warnings_of("y ~ age + twin", COLUMNS | {"twin": twin})


def _sampled(text, twin):
    table = MemoryTable(COLUMNS | {"twin": twin})
    made = FormulaPass(table, parse(text), categorical=())
    for rows, part in table.chunks(made.columns, N):
        made.see(part, rows)
    rows, columns = made._sample.finish()
    return columns, set(rows.tolist())


def test_columns_may_have_any_name():
    columns = {
        "y": np.zeros(N),
        "driver's age": COLUMNS["age"],
        'a "b"': COLUMNS["km"],
        "x); y": COLUMNS["sex"],
    }
    assert design("y ~ .", columns).names == ("driver's age", 'a "b"', "x); y[T.m]", "x); y[T.other]")
    columns["a`b"] = COLUMNS["age"]
    with pytest.raises(ValueError, match="stands for columns without backticks"):
        design("y ~ .", columns)
