"""Rows of a new table: levels are found by text or number, and unknown ones are refused, marked or averaged."""

import json

import numpy as np
import pytest

from isotherm.tables.formulas.design import FormulaDesign
from isotherm.tables.formulas.levels import KnownLevels
from support.made_formulas import COLUMNS, N, design, rows_of

TEXT = "y ~ sex * km + C(visits):`the town` + (1 + sex | region) + (1 | broker:region)"


def restored(text):
    """Return a design that went through JSON, as another process has it."""
    return FormulaDesign.from_record(json.loads(json.dumps(design(text).record())))


@pytest.mark.parametrize(
    ("levels", "values", "codes"),
    [
        (["a", "b"], np.array(["b", "a", "c", None, np.nan], object), [1, 0, -1, -1, -1]),
        (["a", "b"], np.array(["b", "a"]), [1, 0]),
        (["1", "2", "10"], np.array([10, 1, 3]), [2, 0, -1]),
        (["1", "2", "10"], np.array([10.0, 1, np.nan, 2.5]), [2, 0, -1, -1]),
        (["1", "2", "10"], np.array(["10", "1.0", "02", "x"], object), [2, 0, 1, -1]),
        (["1", "2", "10"], np.array([10, None, 1], object), [2, -1, 0]),
        (["1", "1.0", "2"], np.array([1, 2, 1.0]), [0, 2, 0]),
        (["01", "1.0", "2"], np.array([1, 2]), [-1, 2]),
        (["0.5", "2"], np.array([2, 0]), [1, -1]),
        (["False", "True"], np.array([True, False]), [1, 0]),
        (["False", "True"], np.array([True, None], object), [1, -1]),
        ([str(2**62), str(2**62 + 1)], np.array([2**62 + 1, 2**62]), [1, 0]),
    ],
)
def test_values_are_found_among_levels(levels, values, codes):
    assert KnownLevels(levels).codes(values).tolist() == codes


def test_integers_are_found_when_a_file_gives_them_as_floats_or_text():
    made = restored(TEXT)
    expected = rows_of(made)
    for kind in (np.float32, str, object):
        changed = COLUMNS | {name: COLUMNS[name].astype(kind) for name in ("visits", "broker")}
        for name, x in rows_of(made, changed).items():
            np.testing.assert_array_equal(x, expected[name])


def new_rows():
    changed = {name: x.copy() for name, x in COLUMNS.items()}
    changed["region"][[3, 8]] = "elsewhere"
    changed["sex"][[5, 8, 20]] = "unknown"
    changed["the town"][[8, 9]] = "north"
    changed["broker"][30] = 99
    changed["region"][40] = None
    return changed


def test_unknown_groups_are_marked():
    made, columns = restored(TEXT), new_rows()
    known = columns | {name: COLUMNS[name] for name in ("sex", "the town")}
    rows, expected = rows_of(made, known), rows_of(made)
    changed = {"level_region": [3, 8, 40], "level_broker:region": [3, 8, 30, 40]}
    for name, x in rows.items():
        at = changed.get(name, [])
        assert (x[at] == -1).all()
        np.testing.assert_array_equal(np.delete(x, at, axis=0), np.delete(expected[name], at, axis=0))


def test_a_combination_that_was_not_seen_is_unknown():
    columns = {"y": np.zeros(4), "a": np.array(["u", "u", "v", "v"], object), "b": np.array([1, 2, 1, 1])}
    made = design("y ~ 1 + (1 | a:b)", columns)
    (group,) = made.groups
    assert (group.levels, group.counts.tolist()) == (["u:1", "u:2", "v:1"], [1, 1, 2])
    new = {"y": np.zeros(3), "a": np.array(["v", "v", "u"], object), "b": np.array([2, 1, 2])}
    assert group.codes(new).tolist() == [-1, 2, 1]


def test_unseen_levels_are_named_by_category_and_group():
    found = restored(TEXT).unseen(new_rows())
    assert {name: np.flatnonzero(x).tolist() for name, x in found.levels.items()} == {
        "sex": [5, 8, 20],
        "visits": [],
        "the town": [8, 9],
    }
    assert {name: np.flatnonzero(x).tolist() for name, x in found.groups.items()} == {
        "region": [3, 8],
        "broker:region": [3, 8, 30],
    }


def test_unknown_categories_are_refused():
    with pytest.raises(
        ValueError, match="`sex` must be one of the levels that the model knows, f, m, other; got 'unknown'"
    ):
        rows_of(restored(TEXT), new_rows())
    gap = COLUMNS | {"sex": np.where(np.arange(N) == 2, None, COLUMNS["sex"])}
    with pytest.raises(ValueError, match="column `sex` must have a value in every row"):
        rows_of(restored(TEXT), gap)


def test_unknown_categories_get_the_mean_over_levels():
    """A row with unknown levels is the mean of the rows with each known level; 32 bits round by 6e-8."""
    made, columns = restored(TEXT), new_rows()
    found = rows_of(made, columns, unseen="mean")
    options = {"sex": ["f", "m", "other"], "the town": ["east", "west"]}
    for row, names in {5: ["sex"], 8: ["sex", "the town"], 9: ["the town"], 20: ["sex"], 6: []}.items():
        variants = [{name: x[row : row + 1] for name, x in columns.items()}]
        for name in names:
            variants = [v | {name: np.array([level], object)} for v in variants for level in options[name]]
        encoded = [rows_of(made, variant) for variant in variants]
        for name in ("x", "terms_region"):
            expected = np.mean([rows[name][0].astype(np.float64) for rows in encoded], axis=0)
            np.testing.assert_allclose(found[name][row], expected, rtol=1e-6, atol=1e-6)


def test_curves_go_on_straight_in_new_rows():
    made = restored("y ~ s(age)")
    (smooth,) = made.smooths
    out = np.array([smooth.high, smooth.high + 5, smooth.high + 10])
    rows = rows_of(made, {"y": np.zeros(3), "age": out})
    np.testing.assert_allclose(np.diff(rows["smooth_age"].astype(np.float64), 2, axis=0), 0, atol=1e-5)


def test_rows_beyond_a_basis_that_ends_are_refused():
    columns = {"y": np.zeros(1), "age": COLUMNS["age"].max(keepdims=True) + 1}
    with pytest.raises(ValueError, match=r"one whose splines span the rows.*use cr\(x, df=5\) or s\(x\)"):
        rows_of(restored("y ~ bs(age, df=5)"), columns)


def test_many_levels_are_counted_and_found():
    count = 20_000
    columns = {
        "y": np.zeros(count),
        "g": np.random.default_rng(0).permutation(count),
        "t": np.arange(count).astype(str),
    }
    made = design("y ~ 1 + (1 | g) + (1 | t)", columns, length=2**13)
    rows = rows_of(made, columns)
    np.testing.assert_array_equal(rows["level_g"], columns["g"])
    np.testing.assert_array_equal(np.array(made.groups[1].levels)[rows["level_t"]], columns["t"])
    assert made.groups[0].counts.tolist() == [1] * count
