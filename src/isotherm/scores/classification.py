"""Scores of predicted class probabilities."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from isotherm.printed import Printed
from isotherm.scores.calibration import Calibration, calibration
from isotherm.scores.calibration import merged as merged_curves
from isotherm.scores.labels import checked


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ClassificationScores(Printed):
    """The result of `classification`; prints as a table. Each error is the standard error of a mean over rows."""

    num_rows: int
    accuracy: float
    accuracy_error: float
    negative_log_likelihood: float
    negative_log_likelihood_error: float
    brier: float
    brier_error: float
    curve: Calibration

    @property
    def calibration_error(self) -> float:
        """Expected calibration error of `curve`."""
        return self.curve.calibration_error

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        table = Table(box=None, show_header=False)
        table.add_row(
            "accuracy", f"{100 * self.accuracy:.2f} %", f"± {100 * self.accuracy_error:.2f}", style="bold"
        )
        for name in ("negative_log_likelihood", "brier"):
            value, error = getattr(self, name), getattr(self, f"{name}_error")
            table.add_row(name.replace("_", " "), f"{value:.4f}", f"± {error:.4f}")
        chance = f"{self.curve.by_chance:.4f} by chance alone"
        table.add_row("calibration error", f"{self.calibration_error:.4f}", chance)
        yield f"{self.num_rows:,} rows"
        yield table


def classification(
    probabilities: Array | np.ndarray, y: Array | np.ndarray, *, bins: int = 10, equal_mass: bool = False
) -> ClassificationScores:
    """Accuracy, negative log-likelihood, Brier score and calibration of probabilities such as `prediction.mean`.

    The arguments are as for `calibration`.
    """
    curve = calibration(probabilities, y, bins=bins, equal_mass=equal_mass)
    right, surprise, squares = (
        _right(probabilities, y),
        _surprise(probabilities, y),
        _squares(probabilities, y),
    )
    return ClassificationScores(
        len(right),
        *(float(right.mean()), _error(right)),
        *(float(surprise.mean()), _error(surprise)),
        *(float(squares.mean()), _error(squares)),
        curve,
    )


def merged(parts: Sequence[ClassificationScores], *, bins: int = 10) -> ClassificationScores:
    """The scores of all rows, from those of different rows. `bins` is that of `classification`."""
    n = [part.num_rows for part in parts]
    values = lambda name: [getattr(part, name) for part in parts]
    both = lambda name: merged_means(n, values(name), values(f"{name}_error"))
    return ClassificationScores(
        sum(n),
        *both("accuracy"),
        *both("negative_log_likelihood"),
        *both("brier"),
        merged_curves(values("curve"), bins=bins),
    )


def merged_means(
    counts: Sequence[int], means: Sequence[float], errors: Sequence[float]
) -> tuple[float, float]:
    """The mean of all rows and its standard error, from those of different rows; NaN for one row."""
    n, each, error = np.array(counts), np.array(means), np.array(errors)
    total, mean = int(n.sum()), float(np.average(each, weights=n))
    if total < 2 or not np.isfinite(mean):
        return mean, float("nan")
    squares = np.where(n > 1, error**2 * n * (n - 1), 0.0) + n * (each - mean) ** 2
    return mean, float(np.sqrt(squares.sum() / (total - 1) / total))


def accuracy(probabilities: Array | np.ndarray, y: Array | np.ndarray) -> float:
    """The share of rows whose most probable class came true."""
    return float(_right(probabilities, y).mean())


def negative_log_likelihood(probabilities: Array | np.ndarray, y: Array | np.ndarray) -> float:
    """The mean of -log p of the class that came true."""
    return float(_surprise(probabilities, y).mean())


def brier(probabilities: Array | np.ndarray, y: Array | np.ndarray) -> float:
    """The mean squared error of the probabilities.

    For probabilities of shape (row,), it is that of the second class alone. For (row, class), it is summed over
    classes, which for two classes gives twice as much.
    """
    return float(_squares(probabilities, y).mean())


def _right(probabilities: Array | np.ndarray, y: Array | np.ndarray) -> Float[np.ndarray, " row"]:
    p, labels = checked(probabilities, y)
    return (p.argmax(axis=1) == labels).astype(np.float64)


def _surprise(probabilities: Array | np.ndarray, y: Array | np.ndarray) -> Float[np.ndarray, " row"]:
    p, labels = checked(probabilities, y)
    with np.errstate(divide="ignore"):
        return -np.log(p[np.arange(len(p)), labels])


def _squares(probabilities: Array | np.ndarray, y: Array | np.ndarray) -> Float[np.ndarray, " row"]:
    p, labels = checked(probabilities, y)
    squares = (p - np.eye(p.shape[1])[labels]) ** 2
    return squares[:, 1] if np.ndim(probabilities) == 1 else squares.sum(axis=1)


def _error(values: Float[np.ndarray, " row"]) -> float:
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return float("nan")
    return float(values.std(ddof=1) / len(values) ** 0.5)
