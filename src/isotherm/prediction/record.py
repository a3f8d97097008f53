"""Predictions of rows, summarised over the draws."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from isotherm.errors import must
from isotherm.printed import Printed

_SHOWN = 10
_VALUES = 2**18  # that are summarised at once


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Prediction(Printed):
    """Mean, standard deviation and quantiles over the draws, for each row; prints as a table.

    - `mean`, `sd`: (row, ...).
    - `levels`, `quantiles`: the levels, and the quantiles at them, (level, row, ...).
    - `num_draws`: the number of draws.
    - `pit`, `crps`: the share of draws below the observed outcome, and the continuous ranked probability score,
      (row, ...); `None` if no outcomes were given.
    """

    mean: Float[np.ndarray, "row ..."]
    sd: Float[np.ndarray, "row ..."]
    levels: tuple[float, ...]
    quantiles: Float[np.ndarray, "level row ..."]
    num_draws: int
    pit: Float[np.ndarray, "row ..."] | None = None
    crps: Float[np.ndarray, "row ..."] | None = None

    def quantile(self, level: float) -> Float[np.ndarray, "row ..."]:
        """The quantile at `level`, which must be one of `levels`."""
        near = np.flatnonzero(np.isclose(self.levels, level, rtol=0, atol=1e-6))
        if len(near) == 0:
            repair = f"Predict with `quantiles=({level:.6g}, ...)`."
            raise must("level", f"one of {self.levels}", round(level, 6), repair)
        return self.quantiles[near[0]]

    def interval(
        self, probability: float
    ) -> tuple[Float[np.ndarray, "row ..."], Float[np.ndarray, "row ..."]]:
        """The central interval of this probability. Both of its ends must be among `levels`."""
        ends = (1 - probability) / 2, (1 + probability) / 2
        if not all(np.any(np.isclose(self.levels, end, rtol=0, atol=1e-6)) for end in ends):
            wanted = ", ".join(f"{end:.6g}" for end in ends)
            raise must(
                "probability",
                f"that of an interval between two of the quantiles {self.levels}",
                probability,
                f"Predict with `quantiles=({wanted})`.",
            )
        return self.quantile(ends[0]), self.quantile(ends[1])

    def __len__(self) -> int:
        return len(self.mean)

    def _parts(self) -> Iterator[Any]:
        from isotherm.terminal import Table

        table = Table(box=None, header_style="bold")
        for title in ("row", "mean", "sd", *(f"{100 * level:g} %" for level in self.levels)):
            table.add_column(title, justify="right")
        columns = [np.asarray(x) for x in (self.mean, self.sd, *self.quantiles)]
        for index in itertools.islice(np.ndindex(self.mean.shape), _SHOWN):
            table.add_row(", ".join(map(str, index)), *(f"{x[index]:.4g}" for x in columns))
        yield f"{len(self):,} rows{_each(self.mean.shape[1:])}, {self.num_draws:,} draws"
        yield table
        if self.mean.size > _SHOWN:
            yield "..."


def _each(shape: tuple[int, ...]) -> str:
    return f" of {' x '.join(map(str, shape))}" if shape else ""


def over_draws(
    values: Float[np.ndarray, "draw row ..."],
    levels: tuple[float, ...],
    observed: np.ndarray | None = None,
) -> Prediction:
    """The prediction of rows from their values at every draw. Quantiles are interpolated between draws.

    Rows are summarised a few at a time, which keeps intermediate results in the cache.
    """
    count = max(1, _VALUES * values.shape[1] // max(1, values.size))
    if count < values.shape[1]:
        slices = [slice(start, start + count) for start in range(0, values.shape[1], count)]
        of_rows = lambda rows: None if observed is None else observed[rows]
        return joined([over_draws(values[:, rows], levels, of_rows(rows)) for rows in slices])
    m, ordered = len(values), np.sort(values, axis=0)
    mean, sd = moments(values)
    position = (m - 1) * np.asarray(levels, np.float64)
    low = np.floor(position).astype(int)
    share = (position - low).reshape(-1, *[1] * mean.ndim)
    quantiles = (1 - share) * ordered[low] + share * ordered[np.minimum(low + 1, m - 1)]
    quantiles = np.where(np.isnan(mean), np.nan, quantiles)  # NaN sorts to the end
    as_given = lambda x: x.astype(values.dtype)
    judged = {}
    if observed is not None:
        observed = observed.astype(values.dtype)  # so that ties are detected
        judged = {
            "pit": as_given(share_below(ordered, observed)),
            "crps": as_given(ranked_score(ordered, observed)),
        }
    return Prediction(as_given(mean), as_given(sd), levels, as_given(quantiles), m, **judged)


def moments(
    values: Float[np.ndarray, "draw row ..."],
) -> tuple[Float[np.ndarray, "row ..."], Float[np.ndarray, "row ..."]]:
    """The mean and standard deviation over the draws, in float64.

    Differences from the first draw are summed, in the precision of the draws: they lose no digits where the mean is
    far from zero, and take a third of the time of sums in float64.
    """
    m, shift = len(values), np.where(np.isfinite(values[0]), values[0], 0)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = values - shift
        mean = apart.mean(axis=0)
        apart -= mean
        squares = np.einsum("i...,i...->...", apart, apart, dtype=values.dtype).astype(np.float64)
    sd = np.sqrt(squares / (m - 1)) if m > 1 else np.full(mean.shape, np.nan)
    return shift.astype(np.float64) + mean, sd


def share_below(
    values: Float[np.ndarray, "draw row ..."], observed: Float[np.ndarray, "row ..."]
) -> Float[np.ndarray, "row ..."]:
    """(k + 1/2) / (m + 1) if k of m draws are below the observed value; a tie counts half. NaN if any draw is NaN."""
    below, ties = (values < observed).sum(axis=0), (values == observed).sum(axis=0)
    share = (below + 0.5 * ties + 0.5) / (len(values) + 1)
    return np.where(np.isnan(values).any(axis=0), np.nan, share)


def ranked_score(
    ordered: Float[np.ndarray, "draw row ..."], observed: Float[np.ndarray, "row ..."]
) -> Float[np.ndarray, "row ..."]:
    """The mean of |x - y| minus half the mean of |x - x'| over pairs of different draws. `ordered` must be sorted."""
    m = len(ordered)
    difference = ordered - observed.astype(np.float64)
    weights = (2.0 * np.arange(m) - (m - 1)) / max(1, m * (m - 1))
    return np.abs(difference).mean(axis=0) - np.tensordot(weights, difference, axes=1)


def joined(parts: Sequence[Prediction]) -> Prediction:
    """The rows of several predictions, concatenated."""
    concatenated = lambda name, axis=0: np.concatenate([getattr(part, name) for part in parts], axis=axis)
    first = parts[0]
    judged = first.pit is not None
    return Prediction(
        concatenated("mean"),
        concatenated("sd"),
        first.levels,
        concatenated("quantiles", 1),
        first.num_draws,
        concatenated("pit") if judged else None,
        concatenated("crps") if judged else None,
    )


def checked_levels(levels: Sequence[float]) -> tuple[float, ...]:
    """The levels as floats. Raises if one is not between 0 and 1."""
    values = tuple(float(level) for level in levels)
    if not all(0 <= level <= 1 for level in values):
        raise must("quantiles", "between 0 and 1", tuple(levels))
    return values
