"""Log-likelihoods of rows: averaged over the posterior, and at each draw for ArviZ."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree

from isotherm.data.opening import as_source
from isotherm.data.rows import checked_rows
from isotherm.draws import Draws
from isotherm.draws.to_arviz import to_arviz
from isotherm.errors import check_count, must
from isotherm.posterior import Posterior
from isotherm.prediction.blocks import blocks, chosen, in_a_row, log_means
from isotherm.printed import Printed
from isotherm.signals import deferred
from isotherm.sums.fold import num_rows


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LogLikelihood(Printed):
    """The log predictive density of each row: log of the mean over the draws of p(row | params).

    `mean` is the mean over rows, with its standard error from the spread between rows. `total` is the sum over rows.
    """

    rows: Float[np.ndarray, " row"]
    num_draws: int

    @property
    def mean(self) -> float:
        """The mean over rows."""
        return float(self.rows.mean())

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, from the spread between rows; NaN for one row."""
        return float(self.rows.std(ddof=1) / len(self.rows) ** 0.5) if len(self.rows) > 1 else float("nan")

    @property
    def total(self) -> float:
        """The sum over rows."""
        return float(self.rows.sum())

    def _parts(self) -> Iterator[Any]:
        yield f"log predictive density per row: {self.mean:.5g} ± {self.standard_error:.2g}"
        yield f"{len(self.rows):,} rows, {self.num_draws:,} draws"


def log_likelihood(
    draws: Draws,
    posterior: Posterior,
    data: PyTree,
    *,
    draws_used: int | None = None,
    rows_at_once: int | None = None,
) -> LogLikelihood:
    """The log predictive density of rows that the chains should not have seen.

    The arguments are as for `iso.predict`. `posterior` is the one that was sampled, or one with the same parameters.
    """
    data, _ = _checked(posterior, data, rows_at_once)
    params = in_a_row(chosen(draws, draws_used))
    parts = []
    with deferred():
        for rows, values in log_means(posterior.row_log_likelihoods, params, data, rows_at_once=rows_at_once):
            refuse_nan(values, rows)
            parts.append(values)
    return LogLikelihood(np.concatenate(parts), num_rows(params))


def with_log_likelihood(
    draws: Draws,
    posterior: Posterior,
    data: PyTree,
    *,
    draws_used: int | None = None,
    coords: dict[str, Any] | None = None,
    dims: dict[str, list[str]] | None = None,
    largest: float = 2.0,
) -> Any:
    """`draws.to_arviz()` with the group `log_likelihood`, (chain, draw, row), that `arviz_stats.loo` needs.

    `data` are the rows that were sampled from. Failed chains are left out, and at most `draws_used` draws of the
    others are kept, evenly spaced. Raises if the array would take more than `largest` gigabytes.
    """
    data, N = _checked(posterior, data, None)
    draws = chosen(draws, draws_used)
    shape = (draws.num_chains, draws.num_draws, N)
    if (size := 4 * np.prod(shape, dtype=float) / 1e9) > largest:
        share = largest / size
        raise ValueError(
            f"`log_likelihood` of {shape[0]} chains x {shape[1]:,} draws x {N:,} rows would take {size:.3g} "
            f"GB, more than {largest:g}. Take fewer rows or fewer draws, such as "
            f"`draws_used={int(share * shape[0] * shape[1]):,}`, or raise `largest`; for the held-out density of "
            "many rows use `iso.log_likelihood`, which works in blocks."
        )
    out = np.empty((shape[0] * shape[1], N), np.float32)
    for rows, values in blocks(posterior.row_log_likelihoods, in_a_row(draws), data):
        refuse_nan(values.max(axis=0), rows)
        out[:, rows] = values
    group = {"log_likelihood": {"rows": out.reshape(shape)}}
    row = {} if "rows" in draws else {"rows": ["row"]}
    return to_arviz(draws, group, coords, {**row, **(dims or {})})


def _checked(posterior: Posterior, data: PyTree, rows_at_once: int | None) -> tuple[PyTree, int]:
    if not isinstance(posterior, Posterior):
        raise must("posterior", "an `iso.Posterior`", posterior, error=TypeError)
    if rows_at_once is not None:
        check_count("rows_at_once", rows_at_once, minimum=1)
    source = as_source(data)
    if source is not None:
        return source, source.num_rows
    rows = checked_rows(data)
    return rows.arrays, rows.num_data


def refuse_nan(values: Float[np.ndarray, " row"], rows: slice) -> None:
    """Raise if the value of a row over all draws is NaN."""
    bad = np.isnan(values)
    if bad.any():
        raise ValueError(
            f"`data` must have a log-likelihood at every draw; that of row {rows.start + int(np.argmax(bad))} is "
            "NaN. Check that the model allows its label."
        )
