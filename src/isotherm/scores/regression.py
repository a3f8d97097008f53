"""Scores of predicted numbers."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from isotherm.errors import must
from isotherm.prediction.record import Prediction, over_draws, ranked_score, share_below
from isotherm.printed import Printed
from isotherm.scores.calibration import Calibration, pit_calibration
from isotherm.scores.calibration import merged as merged_curves

_INTERVALS = (0.5, 0.9)


@dataclasses.dataclass(frozen=True)
class Interval:
    """Central intervals of one probability: the share of outcomes they cover, its standard error, the mean width."""

    probability: float
    coverage: float
    error: float
    width: float


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RegressionScores(Printed):
    """The result of `regression`; prints as a table. `crps` and `curve` are `None` without draws."""

    num_rows: int
    rmse: float
    intervals: tuple[Interval, ...]
    crps: float | None
    curve: Calibration | None

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        table = Table(box=None, show_header=False)
        table.add_row("rmse", f"{self.rmse:.4g}", style="bold")
        if self.crps is not None:
            table.add_row("crps", f"{self.crps:.4g}")
        for i in self.intervals:
            covered = f"{100 * i.coverage:.1f} % ± {100 * i.error:.1f}"
            table.add_row(f"{100 * i.probability:g} % intervals cover", covered, f"width {i.width:.4g}")
        if self.curve is not None:
            chance = f"{self.curve.by_chance:.4f} by chance alone"
            table.add_row("calibration error", f"{self.curve.calibration_error:.4f}", chance)
        yield f"{self.num_rows:,} rows"
        yield table


def regression(
    forecast: Prediction | Array | np.ndarray,
    y: Array | np.ndarray,
    *,
    intervals: Sequence[float] | None = None,
) -> RegressionScores:
    """RMSE, CRPS, coverage and width of intervals, and calibration.

    **Arguments:**

    - `forecast`: the result of `iso.predict`, with `observed` for CRPS and calibration; or draws of the outcomes,
      (draw, row). If the prediction is of expectations rather than outcomes, its intervals are too narrow.
    - `y`: the outcomes, (row,).
    - `intervals`: the probabilities of the intervals. `None` takes all intervals whose quantiles the prediction has,
      and 50 % and 90 % for draws.
    """
    y = np.asarray(y, np.float64)
    if not isinstance(forecast, Prediction):
        values = _floats(forecast)
        if values.ndim < 2 or values.shape[1:] != y.shape or values.shape[0] < 2:
            raise must("forecast", f"draws of shape (draw, {', '.join(map(str, y.shape))})", values)
        intervals = _INTERVALS if intervals is None else intervals
        forecast = over_draws(values, tuple(q for p in intervals for q in ((1 - p) / 2, (1 + p) / 2)), y)
    if forecast.mean.shape != y.shape:
        raise must("y", f"of the shape of the prediction, {forecast.mean.shape}", y)
    if intervals is None:
        below = [level for level in forecast.levels if level < 0.5]
        pairs = sorted(round(1 - 2 * level, 6) for level in below)
        intervals = [p for p in pairs if np.isclose(forecast.levels, (1 + p) / 2, rtol=0, atol=1e-6).any()]
    return RegressionScores(
        num_rows=len(y),
        rmse=rmse(forecast.mean, y),
        intervals=tuple(_interval(forecast, y, p) for p in intervals),
        crps=None if forecast.crps is None else float(np.mean(forecast.crps, dtype=np.float64)),
        curve=None if forecast.pit is None else pit_calibration(forecast.pit, num_draws=forecast.num_draws),
    )


def merged(parts: Sequence[RegressionScores]) -> RegressionScores:
    """The scores of all rows, from those of different rows."""
    first, n = parts[0], np.array([part.num_rows for part in parts])
    mean = lambda values: float(np.average(list(values), weights=n))
    intervals = []
    for i, interval in enumerate(first.intervals):
        p = interval.probability
        coverage, width = (
            mean(getattr(part.intervals[i], x) for part in parts) for x in ("coverage", "width")
        )
        intervals.append(Interval(p, coverage, (p * (1 - p) / int(n.sum())) ** 0.5, width))
    scored, curves = [part.crps for part in parts], [part.curve for part in parts]
    return RegressionScores(
        num_rows=int(n.sum()),
        rmse=mean(part.rmse**2 for part in parts) ** 0.5,
        intervals=tuple(intervals),
        crps=None if None in scored else mean(x for x in scored if x is not None),
        curve=None if None in curves else merged_curves([x for x in curves if x is not None]),
    )


def rmse(predicted: Array | np.ndarray, y: Array | np.ndarray) -> float:
    """The root mean squared error."""
    predicted, y = np.asarray(predicted, np.float64), np.asarray(y, np.float64)
    if predicted.shape != y.shape:
        raise must("y", f"of the shape of `predicted`, {predicted.shape}", y)
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def crps(values: Array | np.ndarray, y: Array | np.ndarray) -> Float[np.ndarray, " row"]:
    """The continuous ranked probability score of each row from draws (draw, row), unbiased for any number of them."""
    return ranked_score(np.sort(_floats(values), axis=0), _floats(y))


def pit(values: Array | np.ndarray, y: Array | np.ndarray) -> Float[np.ndarray, " row"]:
    """The probability integral transform of each row: the share of draws (draw, row) below the outcome."""
    return share_below(_floats(values), _floats(y))


def _floats(x: Array | np.ndarray) -> Float[np.ndarray, "..."]:
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _interval(forecast: Prediction, y: Float[np.ndarray, " row"], probability: float) -> Interval:
    low, high = forecast.interval(probability)
    inside = (low <= y) & (y <= high)
    error = (probability * (1 - probability) / inside.size) ** 0.5
    return Interval(
        float(probability), float(inside.mean()), error, float(np.mean(high - low, dtype=np.float64))
    )
