"""Which class is predicted: the one whose choice has the least expected cost."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from isotherm.errors import must
from isotherm.tables.fitted import Fitted

_KINDS = ("false_positive", "false_negative")  # of errors with two classes: missing the first, and the second


@dataclasses.dataclass(frozen=True)
class Decision:
    """Predicts the class c with the largest costs[c] p(c), whose expected cost is the least.

    - `classes`: their names.
    - `costs`: what it costs to predict another class for a row of each class.
    - `is_given`: whether the user chose the costs. They are equal otherwise, which predicts the most probable class.
    """

    classes: tuple[str, ...]
    costs: tuple[float, ...]
    is_given: bool = False

    @property
    def threshold(self) -> float:
        """The probability of the second of two classes above which it is predicted."""
        return self.costs[0] / (self.costs[0] + self.costs[1])

    def codes(self, probabilities: Float[np.ndarray, "n ..."]) -> Int[np.ndarray, " n"]:
        """Return the index of the predicted class of each row, from the posterior means of its probabilities."""
        if probabilities.ndim == 1:
            return (probabilities > self.threshold).astype(np.int64)
        return (probabilities * np.asarray(self.costs)).argmax(axis=1)


def decision_of(
    model: Fitted, threshold: int | float | None = None, costs: Mapping[str, int | float] | None = None
) -> Decision | None:
    """Return the decision that a threshold or costs make; `None` if the model has no classes.

    Classes that `costs` does not name cost 1. With two classes, costs may be those of a `false_positive` and a
    `false_negative` instead, where positive is the second class.
    """
    if not model.family.is_binary and threshold is not None:
        repair = "Use costs for three or more classes." if model.classes else ""
        raise must("threshold", f"left out for {model.model}, which is not for two values", threshold, repair)
    if not model.classes:
        if costs is not None:
            raise must("cost", "left out for a target that is not classes", dict(costs))
        return None
    if threshold is not None:
        if costs is not None:
            raise must("cost", "left out if `threshold` is given", dict(costs))
        if not 0 < threshold < 1:
            raise must("threshold", "a probability between 0 and 1", threshold)
        return Decision(model.classes, (float(threshold), 1 - float(threshold)), is_given=True)
    if costs is None:
        return Decision(model.classes, (1.0,) * len(model.classes))
    return Decision(model.classes, _checked(costs, model.classes), is_given=True)


def _checked(costs: Mapping[str, int | float], classes: Sequence[str]) -> tuple[float, ...]:
    names = list(classes)
    if len(classes) == 2 and set(costs) <= set(_KINDS) and not set(costs) & set(classes):
        names = list(_KINDS)
    for name, cost in costs.items():
        if name not in names:
            kinds = f", or {' and '.join(_KINDS)}" if len(classes) == 2 else ""
            raise must("cost", f"given for classes of the target, {', '.join(classes)}{kinds}", name)
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 < cost < math.inf:
            raise must("cost", "a positive number", cost, f"It is that of {name}.")
    return tuple(float(costs.get(name, 1.0)) for name in names)


class ClassCounts:
    """How often each class is predicted, is expected and, where the target is known, is right.

    - `predicted`, `expected`: the number of rows for which a class is predicted, and the sum of its probabilities.
    - `confusion`: the number of rows by known class and predicted class.
    """

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = tuple(classes)
        self.predicted, self.expected = np.zeros(len(classes), int), np.zeros(len(classes))
        self.confusion = np.zeros((len(classes), len(classes)), int)

    def add(
        self,
        codes: Int[np.ndarray, " n"],
        probabilities: Float[np.ndarray, "n ..."],
        y: Float[np.ndarray, " n"] | None,
    ) -> None:
        """Count some rows. `y` is the index of the class, NaN where it is unknown."""
        self.predicted += np.bincount(codes, minlength=len(self.classes))
        total = probabilities.sum(axis=0, dtype=np.float64)
        self.expected += [len(codes) - total, total] if probabilities.ndim == 1 else total
        if y is not None:
            known = ~np.isnan(y)
            np.add.at(self.confusion, (y[known].astype(int), codes[known]), 1)

    def passed_over(self) -> str | None:
        """Return a sentence if some class is predicted for less than half as many rows as are expected to have it."""
        few = np.flatnonzero((self.expected >= 1) & (2 * self.predicted < self.expected))
        if not len(few):
            return None
        c, total = few[0], max(1, self.predicted.sum())
        options = "`--cost` or `--threshold`" if len(self.classes) == 2 else "`--cost`"
        return (
            f"`predicted` is the most probable class: {self.classes[c]} for {self.predicted[c]:,} of {total:,} rows, "
            f"although about {self.expected[c]:,.0f} are expected to be {self.classes[c]}. If missing one class is "
            f"worse than missing another, decide by {options}."
        )

    def found(self) -> str | None:
        """Return how many rows of each class are predicted right; `None` if no target is known."""
        if not self.confusion.any():
            return None
        lines = []
        for c, name in enumerate(self.classes):
            right, actual, said = self.confusion[c, c], self.confusion[c].sum(), self.confusion[:, c].sum()
            share = f" ({right / actual:.0%})" if actual else ""
            correct = f", and {right / said:.0%} of the {said:,} rows predicted {name} are" if said else ""
            lines.append(f"of {actual:,} rows with {name}, {right:,}{share} are predicted {name}{correct}")
        return "\n".join(lines)
