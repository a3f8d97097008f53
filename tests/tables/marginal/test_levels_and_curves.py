"""Effects of groups and smooth curves from the draws alone."""

import numpy as np
import pytest

import isotherm as iso
from support.made_effects import MIXED, drawn, rows

pytestmark = pytest.mark.usefixtures("quick_compilation")
T = iso.tables
ROWS = rows(90)


@pytest.fixture(scope="module")
def draws():
    return drawn(MIXED, ROWS, "poisson")


def test_effects_of_levels_are_sorted_with_their_intervals_and_rows(draws):
    for term, k in (("Intercept", 0), ("km", 1)):
        found = T.group_effects(draws, "region", term=term, interval=0.8)
        values = draws.posterior["r_region"].reshape(-1, 6, 2)[..., k]
        order = np.argsort(values.mean(axis=0))
        assert found.levels == tuple(f"r{i:05d}" for i in order)
        np.testing.assert_allclose(found.mean, np.sort(values.mean(axis=0)), rtol=1e-12)
        np.testing.assert_allclose(found.low, np.quantile(values, 0.1, axis=0)[order], rtol=1e-12)
        assert found.rows.tolist() == [15] * 6
        sd = draws.posterior["sd_region"].reshape(-1, 2)[:, k]
        assert found.scale.mean == pytest.approx(sd.mean())
    assert T.group_effects(draws, "region").term == "Intercept"
    frame = T.group_effects(draws, "broker").to_pandas()
    counts = {str(level): int(np.sum(ROWS["broker"] == level)) for level in range(4)}
    assert dict(zip(frame["broker"], frame["rows"], strict=True)) == counts
    assert len(set(counts.values())) == 4


def test_of_many_levels_the_extremes_are_printed():
    columns = rows(300, regions=150)
    found = T.group_effects(drawn("ill ~ 1 + (1 | region)", columns, "logistic"), "region")
    assert found.extremes(10).tolist() == [*range(10), *range(140, 150)]
    lines = str(found).splitlines()
    assert lines[0].startswith("Intercept by region: 150 levels")
    assert len(lines) == 2 + 21 + 1
    assert found.clear.sum() == np.sum((found.low > 0) | (found.high < 0))


def test_nested_groups_are_named_by_both_columns():
    found = T.group_effects(drawn("cost ~ km + (1 | region/broker)", ROWS, "linear"), "region:broker")
    assert all(level.startswith("r0000") and ":" in level for level in found.levels)
    assert found.rows.sum() == 90


def test_what_is_no_group_or_curve_is_named(draws):
    with pytest.raises(ValueError, match="`group` must be a group of the model: region, broker; got 'sex'"):
        T.group_effects(draws, "sex")
    with pytest.raises(ValueError, match="`term` must be one of Intercept, km"):
        T.group_effects(draws, "region", term="age")
    with pytest.raises(ValueError, match="`column` must be a column with a smooth: age; got 'km'"):
        T.curve(draws, "km")
    with pytest.raises(ValueError, match="left out: the model has no groups"):
        T.group_effects(drawn("cost ~ km", ROWS, "linear"), "region")


def test_a_curve_is_what_predictions_change_by_along_the_column():
    """In a linear regression, at every draw; and its mean over the rows is zero."""
    draws = drawn("cost ~ s(age) + sex", ROWS, "linear")
    found = T.curve(draws, "age", points=7)
    along = T.effects(draws, ROWS, "age", at=list(found.x)).samples
    curve = found.samples
    np.testing.assert_allclose(curve - curve[:, :1], along - along[:, :1], rtol=1e-4, atol=2e-5)
    fine = T.curve(draws, "age", points=4000)
    at_rows = np.stack([np.interp(ROWS["age"], fine.x, row) for row in fine.samples])
    # Interpolation between points 0.015 apart, of curves whose curvature is below 0.1.
    np.testing.assert_allclose(at_rows.mean(axis=1), 0, atol=1e-5)
    assert (found.x[0], found.x[-1]) == (ROWS["age"].min(), ROWS["age"].max())
    np.testing.assert_allclose(found.mean, curve.mean(axis=0))
    assert list(found.to_pandas().columns) == ["age", "mean", "low", "high"]
