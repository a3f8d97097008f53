"""Which class is predicted: by least expected cost, computed in full here."""

import numpy as np
import pytest

from isotherm.tables.decision import ClassCounts, decision_of
from isotherm.tables.fitted import fitted
from isotherm.tables.forecasting import forecast
from support.made_forecast import CLASSES, made_forecast, table, target

pytestmark = pytest.mark.usefixtures("quick_compilation")

NEW = table(60, seed=1)


def of_least_cost(probabilities, costs):
    """Return the class of least expected cost from the whole matrix of costs."""
    matrix = np.asarray(costs)[:, None] * (
        1 - np.eye(len(costs))
    )  # of predicting the column for a row of the class
    return (probabilities @ matrix).argmin(axis=1)


@pytest.mark.parametrize("costs", [(1.0, 10.0), (3.0, 1.0), (1.0, 1.0)])
def test_two_classes_are_decided_by_expected_cost(costs):
    given = dict(zip(CLASSES, costs, strict=False))
    draws = made_forecast("logistic")
    found = forecast(draws, NEW, costs=given)
    p = found.columns["probability"].astype(float)
    best = of_least_cost(np.stack([1 - p, p], axis=1), costs)
    np.testing.assert_array_equal(found.codes, best)
    assert found.columns["predicted"].tolist() == [CLASSES[i] for i in best]
    kinds = {"false_positive": costs[0], "false_negative": costs[1]}
    same = forecast(draws, NEW, costs=kinds).columns["predicted"]
    assert same.tolist() == found.columns["predicted"].tolist()


def test_a_threshold_decides_for_the_second_class():
    found = forecast(made_forecast("logistic"), NEW, threshold=0.2)
    np.testing.assert_array_equal(found.codes, found.columns["probability"] > 0.2)
    assert 0 < found.codes.sum() < 60


def test_three_classes_are_decided_by_expected_cost():
    found = forecast(made_forecast("softmax"), NEW, costs={"c": 8.0, "a": 0.5})
    np.testing.assert_array_equal(
        found.codes, of_least_cost(found.expected.mean.astype(float), (0.5, 1.0, 8.0))
    )


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        ("logistic", {"threshold": 1.5}, "`threshold` must be a probability between 0 and 1; got 1.5"),
        (
            "logistic",
            {"threshold": 0.5, "costs": {"a": 1}},
            "`cost` must be left out if `threshold` is given",
        ),
        (
            "logistic",
            {"costs": {"x": 1}},
            "classes of the target, a, b, or false_positive and false_negative",
        ),
        ("logistic", {"costs": {"a": -1}}, "`cost` must be a positive number; got -1. It is that of a."),
        ("softmax", {"threshold": 0.5}, "Use costs for three or more classes."),
        ("softmax", {"costs": {"false_negative": 1}}, "classes of the target, a, b, c; got 'false_negative'"),
        (
            "linear",
            {"threshold": 0.5},
            "`threshold` must be left out for linear, which is not for two values",
        ),
        ("linear", {"costs": {"a": 1}}, "`cost` must be left out for a target that is not classes"),
    ],
)
def test_what_cannot_decide_is_refused(model, given, message):
    with pytest.raises(ValueError, match="must be") as error:
        decision_of(fitted(made_forecast(model)), **given)
    assert message in str(error.value)


def test_a_class_that_is_hardly_predicted_is_named():
    counts = ClassCounts(["no", "yes"])
    p = np.full(1000, 0.02)
    counts.add(np.zeros(1000, int), p, None)
    assert counts.passed_over().startswith(
        "`predicted` is the most probable class: yes for 0 of 1,000 rows, although about 20 are expected to be yes."
    )
    assert counts.found() is None
    even = ClassCounts(["no", "yes"])
    even.add(np.arange(1000) % 2, np.full(1000, 0.5), None)
    assert even.passed_over() is None


def test_right_predictions_are_counted_by_class():
    counts, y = ClassCounts(CLASSES), np.array([0, 0, 1, 2, np.nan])
    counts.add(np.array([0, 1, 1, 0, 2]), np.full((5, 3), 1 / 3), y)
    np.testing.assert_array_equal(counts.confusion, [[1, 1, 0], [0, 1, 0], [1, 0, 0]])
    assert counts.found().splitlines() == [
        "of 2 rows with a, 1 (50%) are predicted a, and 50% of the 2 rows predicted a are",
        "of 1 rows with b, 1 (100%) are predicted b, and 50% of the 2 rows predicted b are",
        "of 1 rows with c, 0 (0%) are predicted c",
    ]


def test_decisions_do_not_change_the_scores():
    new = NEW | {"y": target("logistic", 60)}
    draws = made_forecast("logistic")
    plain, given = forecast(draws, new), forecast(draws, new, threshold=0.1)
    assert plain.scores.accuracy == given.scores.accuracy
    assert (plain.codes != given.codes).any()
