"""A smooth curve of a regression, with its band."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from isotherm.draws import Draws
from isotherm.draws.to_pandas import pandas_for
from isotherm.errors import check_count, must
from isotherm.printed import Printed
from isotherm.tables.fitted import fitted
from isotherm.tables.marginal.along import check_asked
from isotherm.tables.marginal.contrasts import Estimate, digits, estimate
from isotherm.tables.marginal.means import interval_of, some_draws
from isotherm.tables.terms import Smooth

if TYPE_CHECKING:
    from pandas import DataFrame

_POINTS, _SHOWN = 100, 10


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SmoothCurve(Printed):
    """A smooth curve of a column, on the scale of the linear predictor; prints as a table.

    - `x`: the column, and for each value `mean`, `low` and `high` of the curve.
    - `scale`: the sd of the curve around a straight line; near zero, the curve is one.
    - `samples`: at each draw, (draw, x). `interval`: probability of the band at each value.
    """

    column: str
    x: Float[np.ndarray, " point"]
    mean: Float[np.ndarray, " point"]
    low: Float[np.ndarray, " point"]
    high: Float[np.ndarray, " point"]
    scale: Estimate
    samples: Float[np.ndarray, "draw point"]
    interval: float

    def to_pandas(self) -> "DataFrame":
        """Return a `DataFrame` with a row for each value of the column."""
        frame = {self.column: self.x, "mean": self.mean, "low": self.low, "high": self.high}
        return pandas_for("curve.to_pandas()").DataFrame(frame)

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        mean, between = self.scale.cells()
        yield f"s({self.column}), zero at the mean of the rows; sd around a straight line {mean} ({between})"
        table = Table(box=None, header_style="bold")
        for title in (self.column, "curve", f"{100 * self.interval:g} %"):
            table.add_column(title, justify="right", no_wrap=True)
        for i in np.unique(np.linspace(0, len(self.x) - 1, _SHOWN).round().astype(int)):
            middle, low, high = digits(self.mean[i], self.low[i], self.high[i])
            table.add_row(f"{self.x[i]:.5g}", middle, f"{low} to {high}")
        yield table


def curve(draws: Draws, column: str, *, points: int = _POINTS, interval: float = 0.9) -> SmoothCurve:
    """Return the smooth `s(column)` between the ends of the column, from the draws alone.

    It is the straight line and the penalised part together, centred so that its mean over the rows is zero.
    """
    model = fitted(draws)
    check_asked(interval, 0)
    check_count("points", points, minimum=2)
    terms = {term.name: term for term in model.terms if isinstance(term, Smooth)}
    if column not in terms:
        rule = (
            f"a column with a smooth: {', '.join(terms)}" if terms else "left out: the model has no smooths"
        )
        raise must("column", rule, column)
    design = model.made_design
    smooth = next(x for x in design.smooths if x.name == column)
    x = np.linspace(smooth.low, smooth.high, points)
    coefficients, scale = terms[column].names
    params, names = some_draws(draws), list(design.names)
    line = names.index(f"s({column}).linear")
    first = 1 if design.has_intercept else 0
    slope = np.asarray(params["coefficients"][:, first + line], np.float64)
    values = slope[:, None] * (x - float(design.center[line]))
    values += np.asarray(params[coefficients], np.float64) @ smooth.spline(x).T
    found = estimate(np.asarray(params[scale]), interval)
    return SmoothCurve(column, x, *interval_of(values, interval), found, values, interval)
