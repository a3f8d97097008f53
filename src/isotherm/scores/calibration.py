"""Calibration: whether events of predicted probability 80 % occur in 80 % of the cases."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from isotherm.errors import check_count, must
from isotherm.printed import Printed
from isotherm.scores.labels import events

_LEVELS = 19  # in the curve of probability integral transforms: 5 %, 10 %, ..., 95 %


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Calibration(Printed):
    """A calibration curve: predicted probabilities and observed shares; prints as a table.

    - `predicted`: the mean probability in each bin that is not empty.
    - `observed`: the share of its cases that came true.
    - `error`: the standard error of `observed` if the probabilities are right: sqrt(sum p (1 - p)) / count.
    - `count`: the number of its cases.
    - `predicted_as`, `observed_as`: descriptions of `predicted` and `observed`, for labels.
    """

    predicted: Float[np.ndarray, " bin"]
    observed: Float[np.ndarray, " bin"]
    error: Float[np.ndarray, " bin"]
    count: Float[np.ndarray, " bin"]
    predicted_as: str
    observed_as: str

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: the mean of |observed - predicted|, weighted by count."""
        return float(np.average(np.abs(self.observed - self.predicted), weights=self.count))

    @property
    def by_chance(self) -> float:
        """The expected `calibration_error` of correct probabilities, which is not zero."""
        return float(np.average(self.error, weights=self.count)) * math.sqrt(2 / math.pi)

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        table = Table(box=None, header_style="bold")
        for title in ("predicted", "observed", "± by chance", "cases"):
            table.add_column(title, justify="right")
        for p, o, e, n in zip(self.predicted, self.observed, self.error, self.count, strict=True):
            table.add_row(f"{p:.3f}", f"{o:.3f}", f"{e:.3f}", f"{n:,.0f}")
        yield f"predicted: {self.predicted_as}; observed: {self.observed_as}"
        yield table
        yield f"calibration error {self.calibration_error:.4f} ({self.by_chance:.4f} by chance alone)"


def calibration(
    probabilities: Array | np.ndarray, y: Array | np.ndarray, *, bins: int = 10, equal_mass: bool = False
) -> Calibration:
    """The calibration curve of predicted probabilities.

    **Arguments:**

    - `probabilities`: of the second of two classes, (row,), with y in {0, 1} or {-1, 1}; or of each class,
      (row, class), with y in 0, 1, ...: then the curve is that of the most probable class of each row.
    - `bins`: the number of bins, of equal width between 0 and 1; with `equal_mass`, with equally many cases each.
    """
    check_count("bins", bins, minimum=1)
    p, true, predicted_as = events(probabilities, y)
    edges = np.linspace(0, 1, bins + 1)
    if equal_mass:
        edges = np.unique(np.quantile(p, edges))  # equal probabilities stay together
    inside = edges[1:-1]
    which = np.searchsorted(inside, p, side="right")
    total = lambda weights: np.bincount(which, weights, minlength=len(inside) + 1)
    count = total(np.ones_like(p))
    full = count > 0
    n = count[full]
    error = np.sqrt(total(p * (1 - p))[full]) / n
    return Calibration(
        total(p)[full] / n, total(true)[full] / n, error, n, predicted_as, "share that came true"
    )


def pit_calibration(pit: Array | np.ndarray, *, num_draws: int | None = None) -> Calibration:
    """The calibration curve of probability integral transforms: the share of outcomes below each predicted quantile.

    `num_draws` is the number of draws behind each transform, which then takes one of `num_draws + 1` values. If it is
    given, `predicted` is rounded to these steps.
    """
    values = np.asarray(pit, np.float64).ravel()
    if values.size == 0 or not np.all((values >= 0) & (values <= 1)):
        raise must("pit", "at least one number, all of them between 0 and 1", np.asarray(pit))
    levels = np.arange(1, _LEVELS + 1) / (_LEVELS + 1)
    if num_draws is not None:
        steps = check_count("num_draws", num_draws, minimum=1) + 1
        levels = np.unique(np.round(levels * steps)) / steps
        levels = levels[(levels > 0) & (levels < 1)]
    n = np.full(len(levels), float(values.size))
    observed = np.mean(values[:, None] < levels[None], axis=0)
    return Calibration(
        levels,
        observed,
        np.sqrt(levels * (1 - levels) / n),
        n,
        "level of a quantile",
        "share of outcomes below it",
    )


def merged(curves: Sequence[Calibration], *, bins: int | None = None) -> Calibration:
    """The curve of all cases, from those of different cases.

    `bins` is the number of bins of equal width of the curves; `None` if they have the same `predicted`, as those of
    `pit_calibration` do.
    """
    joined = lambda name: np.concatenate([getattr(curve, name) for curve in curves])
    predicted, count = joined("predicted"), joined("count")
    places = np.concatenate([np.arange(len(curve.predicted)) for curve in curves])
    if bins is not None:  # empty bins are not part of a curve
        places = np.minimum(np.floor(predicted * bins), bins - 1)
    _, which = np.unique(places, return_inverse=True)
    total = lambda weights: np.bincount(which, weights)
    n = total(count)
    return Calibration(
        total(predicted * count) / n,
        total(joined("observed") * count) / n,
        np.sqrt(total((joined("error") * count) ** 2)) / n,  # the squares are variances of sums
        n,
        curves[0].predicted_as,
        curves[0].observed_as,
    )
