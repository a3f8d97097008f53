"""Curves along a column: natural cubic splines, as a straight line and a part whose curvature is penalised.

A spline with knots t_1 < ... < t_k is given by its values at the knots and is linear beyond them. Its penalty, the
integral of the squared second derivative, is v' S v for the values v. With S = U diag(d) U', where d has two zeros
for the straight lines, the penalised part is Z = B U diag(d)^(-1/2), B the values of the cardinal splines: the
penalty of Z b is b' b, before Z is divided by one number.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from isotherm.errors import must

_FEWEST = 4  # different values of a column along which a curve is estimated


@dataclasses.dataclass(frozen=True, eq=False)
class Spline:
    """A natural cubic spline in its penalised part: `size` - 2 columns, centred, and of mean squared norm 1 in the
    sample, so that the sd of their coefficients is about that of the bent part of the curve.

    - `knots`, from the least to the greatest value of the column.
    - `weights`: from the values of the cardinal splines to the columns, times `unit`.
    - `center`: the means of the columns in the sample.
    """

    knots: Float[np.ndarray, " K"]
    weights: Float[np.ndarray, "K Q"]
    center: Float[np.ndarray, " Q"]

    @property
    def size(self) -> int:
        """The number of knots."""
        return len(self.knots)

    def __call__(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n Q"]:
        """Return the columns of the penalised part."""
        return cardinal(x, self.knots) @ self.weights - self.center


def fit_spline(name: str, x: Float[np.ndarray, " n"], size: int) -> Spline:
    """Return the spline for a sample of a column, with knots at its quantiles."""
    distinct = np.unique(x)
    if len(distinct) < _FEWEST:
        values = ", ".join(f"{value:g}" for value in distinct)
        repair = f"They are {values}: use `{name}` or `C({name})` in place of `s({name})`."
        raise must(
            name, f"a column with at least {_FEWEST} different values, for a curve", len(distinct), repair
        )
    knots = distinct if len(distinct) <= size else np.unique(np.quantile(x, np.linspace(0, 1, size)))
    if len(knots) < _FEWEST:  # most rows share a value
        knots = np.unique(np.quantile(distinct, np.linspace(0, 1, size)))
    return _spline(x, knots)


def _spline(x: Float[np.ndarray, " n"], knots: Float[np.ndarray, " K"]) -> Spline:
    weights = _bent(knots)
    columns = cardinal(x, knots) @ weights
    center = columns.mean(axis=0)
    unit = np.sqrt(np.mean(np.sum((columns - center) ** 2, axis=1)))
    return Spline(knots, weights / unit, center / unit)


def _bent(knots: Float[np.ndarray, " K"]) -> Float[np.ndarray, "K Q"]:
    """Return U diag(d)^(-1/2), the smoothest columns first.

    The eigenvectors of S are lost in rounding if knots are very unequally spaced, so values with the penalty b' b are
    summed up from the changes of slope, D v = R b with W = R R', and lines are taken out.
    """
    h, band = np.diff(knots), _bands(knots)[1]
    slopes = np.cumsum(np.linalg.cholesky(band), axis=0)
    slopes = np.concatenate([np.zeros((1, len(h) - 1)), slopes])
    values = np.concatenate([np.zeros((1, len(h) - 1)), np.cumsum(h[:, None] * slopes, axis=0)])
    lines, _ = np.linalg.qr(np.stack([np.ones(len(knots)), (knots - knots.mean()) / np.ptp(knots)], axis=1))
    values -= lines @ (lines.T @ values)
    vectors, sizes, _ = np.linalg.svd(values, full_matrices=False)
    return vectors * sizes


def penalty(knots: Float[np.ndarray, " K"]) -> Float[np.ndarray, "K K"]:
    """Return S: v' S v is the integral of the squared second derivative of the spline with values v at the knots."""
    D, band = _bands(knots)
    return D.T @ np.linalg.solve(band, D)


def cardinal(x: Float[np.ndarray, " n"], knots: Float[np.ndarray, " K"]) -> Float[np.ndarray, "n K"]:
    """Return the splines that are 1 at one knot and 0 at the others, at x; they are linear beyond the knots."""
    h, n = np.diff(knots), len(x)
    bends = np.zeros((len(knots), len(knots)))  # second derivatives at the knots, from the values there
    D, band = _bands(knots)
    bends[1:-1] = np.linalg.solve(band, D)
    inside = np.clip(x, knots[0], knots[-1])
    j = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(h) - 1)
    left, right, step = inside - knots[j], knots[j + 1] - inside, h[j]
    rows = np.arange(n)
    out = (((right**3 / step - step * right) / 6)[:, None]) * bends[j]
    out += (((left**3 / step - step * left) / 6)[:, None]) * bends[j + 1]
    out[rows, j] += right / step
    out[rows, j + 1] += left / step
    first, last = _slopes(h, bends)
    out += np.minimum(x - knots[0], 0)[:, None] * first
    out += np.maximum(x - knots[-1], 0)[:, None] * last
    return out


def _bands(knots: Float[np.ndarray, " K"]) -> tuple[Float[np.ndarray, "M K"], Float[np.ndarray, "M M"]]:
    """Return D and W: the second derivatives at the inner knots are W^-1 D v (Green and Silverman, 1994)."""
    h, k = np.diff(knots), len(knots)
    D, band = np.zeros((k - 2, k)), np.zeros((k - 2, k - 2))
    i = np.arange(k - 2)
    D[i, i], D[i, i + 2] = 1 / h[:-1], 1 / h[1:]
    D[i, i + 1] = -1 / h[:-1] - 1 / h[1:]
    band[i, i] = (h[:-1] + h[1:]) / 3
    band[i[1:], i[:-1]] = band[i[:-1], i[1:]] = h[1:-1] / 6
    return D, band


def _slopes(
    h: Float[np.ndarray, " H"], bends: Float[np.ndarray, "K K"]
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Return the slopes of the cardinal splines at the first and the last knot."""
    first, last = -h[0] * bends[1] / 6, h[-1] * bends[-2] / 6
    first[0] -= 1 / h[0]
    first[1] += 1 / h[0]
    last[-2] -= 1 / h[-1]
    last[-1] += 1 / h[-1]
    return first, last


@dataclasses.dataclass(frozen=True, eq=False)
class SmoothDesign:
    """The curve along a column: rows get the penalised part as `smooth_<name>`."""

    name: str
    spline: Spline

    @property
    def column(self) -> str:
        """The column of the table."""
        return self.name

    @property
    def size(self) -> int:
        """The number of knots."""
        return self.spline.size

    @property
    def low(self) -> float:
        """The least value at fitting; the curve is straight below it."""
        return float(self.spline.knots[0])

    @property
    def high(self) -> float:
        """The greatest value at fitting; the curve is straight above it."""
        return float(self.spline.knots[-1])

    def record(self) -> dict[str, Any]:
        """Return the curve as plain JSON values."""
        spline = self.spline
        parts = {"knots": spline.knots, "weights": spline.weights, "center": spline.center}
        return {"name": self.name, **{key: x.tolist() for key, x in parts.items()}}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "SmoothDesign":
        """Return the curve that `record` was made of."""
        parts = (np.array(record[key], np.float64) for key in ("knots", "weights", "center"))
        return SmoothDesign(record["name"], Spline(*parts))
