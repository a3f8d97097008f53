"""Scores of predictions that are made some rows at a time."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from isotherm.errors import must
from isotherm.printed import Printed
from isotherm.scores.classification import ClassificationScores, merged_means
from isotherm.scores.classification import merged as merged_classification
from isotherm.scores.regression import RegressionScores
from isotherm.scores.regression import merged as merged_regression
from isotherm.tables.decision import ClassCounts
from isotherm.tables.forecasting import Forecast

_LISTED = 10  # rows with levels that were not seen


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Density(Printed):
    """The log predictive density per row: its mean over rows, and the standard error of the mean."""

    num_rows: int
    num_draws: int
    mean: float
    standard_error: float

    def _parts(self) -> Iterator[Any]:
        yield f"log predictive density per row: {self.mean:.5g} ± {self.standard_error:.2g}"
        yield f"{self.num_rows:,} rows, {self.num_draws:,} draws"


class Scored:
    """Counts of rows and scores of all forecasts so far, in memory that does not grow.

    - `rows`, `empty`: the rows of the table, and those without a prediction.
    - `unseen`: by feature, the number of rows with levels that were not seen at fitting, and the first of these rows.
    - `classes`: counts of predicted classes; `None` for other models.
    - `density`, `scores`: for the rows whose target is known; `None` if there are none.
    """

    def __init__(self) -> None:
        self.rows = self.empty = 0
        self.unseen: dict[str, tuple[int, list[int]]] = {}
        self.classes: ClassCounts | None = None
        self.density: Density | None = None
        self.scores: RegressionScores | ClassificationScores | None = None

    def add(self, forecast: Forecast) -> None:
        """Add the rows of a forecast."""
        self.rows += len(forecast.complete)
        self.empty += int((~forecast.complete).sum())
        for name, numbers in forecast.unseen.items():
            count, first = self.unseen.get(name, (0, []))
            self.unseen[name] = count + len(numbers), [*first, *numbers[:_LISTED].tolist()][:_LISTED]
        if forecast.codes is not None:
            if self.classes is None:
                self.classes = ClassCounts(forecast.model.classes)
            self.classes.add(forecast.codes, forecast.expected.mean, forecast.y)
        found = forecast.log_likelihood
        if found is None or forecast.scores is None:
            return
        density = Density(len(found.rows), found.num_draws, found.mean, found.standard_error)
        self.density = density if self.density is None else _together(self.density, density)
        self.scores = forecast.scores if self.scores is None else _merged(self.scores, forecast.scores)


def _together(a: Density, b: Density) -> Density:
    counts = [a.num_rows, b.num_rows]
    mean, error = merged_means(counts, [a.mean, b.mean], [a.standard_error, b.standard_error])
    return Density(sum(counts), a.num_draws, mean, error)


def _merged(
    a: RegressionScores | ClassificationScores, b: RegressionScores | ClassificationScores
) -> RegressionScores | ClassificationScores:
    if isinstance(a, RegressionScores) and isinstance(b, RegressionScores):
        return merged_regression([a, b])
    if isinstance(a, ClassificationScores) and isinstance(b, ClassificationScores):
        return merged_classification([a, b])
    raise must("forecast", "of the same model as those before", type(b).__name__, error=TypeError)
