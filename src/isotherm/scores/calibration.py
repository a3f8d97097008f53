"""Does what is given a probability of 80 % come true in 80 % of the cases?"""

import dataclasses
import math

import numpy as np
from jaxtyping import Array, Float

from isotherm.errors import check_count, must
from isotherm.printed import Printed
from isotherm.scores.labels import events

_LEVELS = 19  # of a curve from probability integral transforms: 5 %, 10 %, ..., 95 %


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Calibration(Printed):
    """A calibration curve: what was predicted beside what was observed; prints as a table.

    - `predicted`: mean probability in each bin that is not empty.
    - `observed`: share of its cases that came true.
    - `error`: standard error of `observed` were the probabilities right: sqrt(sum p (1 - p)) / count.
    - `count`: cases in it.
    - `predicted_as`, `observed_as`: what the two are, in words.
    """

    predicted: Float[np.ndarray, " bin"]
    observed: Float[np.ndarray, " bin"]
    error: Float[np.ndarray, " bin"]
    count: Float[np.ndarray, " bin"]
    predicted_as: str
    observed_as: str

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: the mean of |observed - predicted|, by count."""
        return float(np.average(np.abs(self.observed - self.predicted), weights=self.count))

    @property
    def by_chance(self) -> float:
        """What `calibration_error` would be on average were the probabilities right: it is never zero."""
        return float(np.average(self.error, weights=self.count)) * math.sqrt(2 / math.pi)

    def __rich_console__(self, console, options):  # noqa: ANN001
        from rich.table import Table

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
    """The curve of probabilities that came true or not.

    **Arguments:**

    - `probabilities`: of the second of two classes, (row,), with y in {0, 1} or {-1, 1}; or of each class,
      (row, class), with y in 0, 1, ...: then the most probable class of each row is looked at.
    - `bins`: of equal width between 0 and 1; with `equal_mass`, of equally many cases.
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
    """The curve of probability integral transforms: share of outcomes below each quantile of the prediction.

    With `num_draws`, from which each transform was made, `predicted` allows for its being one of so many steps.
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
