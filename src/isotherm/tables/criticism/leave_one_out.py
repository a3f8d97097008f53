"""Leave-one-out cross-validation from the draws alone, of some of the rows where there are many."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from isotherm.draws import Draws
from isotherm.draws.convergence import mean_sizes
from isotherm.errors import check_count
from isotherm.prediction.blocks import chosen, in_a_row
from isotherm.printed import Printed
from isotherm.tables.criticism.pointwise import log_densities, mean_params
from isotherm.tables.fitted import Fitted, fitted
from isotherm.tables.marginal.given import Source, all_rows, no_rows, rows_at
from isotherm.tables.table import Columns

ROWS = 2000
_DRAWS = 4000  # at most: Pareto smoothing needs a tail
_VALUES = 2**24  # log-densities that are in memory at once
_EFFICIENCY_ROWS = 50  # from which the share of independent draws is estimated
_K_LIMIT = 0.7


class Pointwise(NamedTuple):
    """Log-densities at the posterior mean of all rows, and leave-one-out ones of some of them.

    - `numbers`: of all rows in the table, and `plug_in`, their log-densities at the posterior mean.
    - `chosen`: which of them were left out one at a time; `elpd`, `pareto_k`, `p_loo`: of these.
    """

    numbers: Int64[np.ndarray, " N"]
    plug_in: Float[np.ndarray, " N"]
    chosen: Int64[np.ndarray, " n"]
    elpd: Float[np.ndarray, " n"]
    pareto_k: Float[np.ndarray, " n"]
    p_loo: Float[np.ndarray, " n"]


class Total(NamedTuple):
    """A sum over all rows; its standard error as a sample of rows; and the error from the choice of some of them."""

    value: float
    error: float
    subsampling_error: float


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Loo(Printed):
    """The expected log predictive density of rows that the chains did not see: the sum over rows, as `elpd`.

    - `standard_error`: of `elpd`, from the spread between rows, and `subsampling_error`, from the choice of rows.
    - `p_loo`: the effective number of parameters.
    - `num_rows`, `num_chosen`: all rows, and those that were left out one at a time.
    - `pareto_k`: of these. Above 0.7 the draws do not tell what the posterior would be without the row.
    - `pointwise`: values by row.
    """

    elpd: float
    standard_error: float
    subsampling_error: float
    p_loo: float
    num_rows: int
    num_chosen: int
    pareto_k: Float[np.ndarray, " n"]
    pointwise: Pointwise

    @property
    def num_bad(self) -> int:
        """The number of rows whose Pareto k is above 0.7."""
        return int(np.sum(~(self.pareto_k <= _K_LIMIT)))

    def words(self) -> str:
        """Return elpd, its standard error, and the effective number of parameters."""
        return f"elpd {self.elpd:,.1f} ± {short(self.standard_error)}, p_loo {self.p_loo:,.1f}"

    def _parts(self) -> Iterator[Any]:
        yield f"{self.words()}{by_choice(self.subsampling_error)}"
        yield (
            f"{self.elpd / self.num_rows:.4g} per row; {self.num_chosen:,} of {self.num_rows:,} rows were left out "
            "one at a time"
        )
        if self.num_bad:
            yield (
                f"Pareto k is above {_K_LIMIT} in {self.num_bad:,} of them: without such a row the posterior "
                "would be another, and the value is too optimistic"
            )


def short(error: float) -> str:
    """Return an error with two digits, or in whole numbers."""
    return f"{error:,.0f}" if error >= 10 else f"{error:.2g}"


def by_choice(error: float) -> str:
    """Return the error from the choice of rows, if there is one."""
    return f"; ± {short(error)} from the choice of rows" if error else ""


def loo(draws: Draws, table: Source, *, rows: int | None = ROWS, seed: int = 0) -> Loo:
    """Return PSIS-LOO: how well the regression predicts rows that it has not seen, from the draws alone.

    `table` has the rows that the regression was fitted to. If they are more than `rows`, that many are left out one
    at a time, and the others are represented by their log-density at the posterior mean (the difference estimator of
    Magnusson, Andersen, Jonasson and Vehtari, 2020). Each row counts once, whatever its weight. To compare two runs,
    see `iso.tables.compare`.
    """
    model = fitted(draws)
    found = pointwise(draws, model, table, rows, seed)
    elpd = total(found.plug_in, found.elpd, found.chosen)
    p_loo = len(found.numbers) * float(found.p_loo.mean())
    return Loo(*elpd, p_loo, len(found.numbers), len(found.chosen), found.pareto_k, found)


def pointwise(draws: Draws, model: Fitted, table: Source, rows: int | None, seed: int) -> Pointwise:
    """Return log-densities of all rows, and those of some when they are left out."""
    check_count("seed", seed, minimum=0)
    kept = chosen(draws)
    middle = mean_params(in_a_row(kept))
    numbers, plug_in = [], []
    for columns, index in all_rows(model, table, with_target=True):
        numbers.append(index)
        plug_in.append(log_densities(model, middle, columns)[0])
    if not numbers:
        raise no_rows(0)
    every, N = np.concatenate(numbers), sum(map(len, numbers))
    if rows is not None:
        check_count("rows", rows, minimum=2)
    some = np.arange(N)
    if rows is not None and rows < N:
        some = np.sort(np.random.default_rng([seed, N]).choice(N, rows, replace=False))
    few = chosen(kept, _DRAWS) if kept.num_chains * kept.num_draws > _DRAWS else kept
    columns = rows_at(model, table, every[some], with_target=True)
    parts = list(_left_out(few, model, columns))
    elpd, k, p = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Pointwise(every, np.concatenate(plug_in), some, elpd, k, p)


def total(
    cheap: Float[np.ndarray, " N"], exact: Float[np.ndarray, " n"], which: Int64[np.ndarray, " n"]
) -> Total:
    """Return the sum over all rows of values that are known `exact` in some, and nearly, as `cheap`, in all."""
    N, n = len(cheap), len(exact)
    error = float(N**0.5 * exact.std(ddof=1)) if n > 1 else float("nan")
    if n == N:
        return Total(float(exact.sum()), error, 0.0)
    difference = exact - cheap[which]
    spread = float(N * difference.std(ddof=1) * ((1 - n / N) / n) ** 0.5)
    return Total(float(cheap.sum() + N * difference.mean()), error, spread)


def _left_out(draws: Draws, model: Fitted, columns: Columns) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield log-densities of rows if they are left out, their Pareto k, and effective numbers of parameters."""
    from arviz_stats.base import array_stats

    params, chains = in_a_row(draws), draws.num_chains
    count, efficiency = len(next(iter(columns.values()))), None
    step = max(1, _VALUES // (chains * draws.num_draws))
    for begin in range(0, count, step):
        part = {name: x[begin : begin + step] for name, x in columns.items()}
        values = log_densities(model, params, part).T.reshape(-1, chains, draws.num_draws)
        if efficiency is None:
            efficiency = _efficiency(values)
        with np.errstate(all="ignore"):  # of a row so far from all draws that no tail can be fitted
            elpd, k, p = array_stats.loo(values, chain_axis=-2, draw_axis=-1, r_eff=efficiency)
        lost = ~np.isfinite(elpd)
        worst = values.min(
            axis=(1, 2)
        )  # stands in for the density of such a row, whose k says that it is unknown
        yield np.where(lost, worst, elpd), np.where(lost, np.inf, k), np.where(lost, 0.0, p)


def _efficiency(values: Float[np.ndarray, "row chain draw"]) -> float:
    """Return the effective number of draws over their number, for the densities of rows."""
    count = values[0].size
    index = np.unique(np.linspace(0, len(values) - 1, _EFFICIENCY_ROWS).round().astype(int))
    some = np.exp(values[index] - values[index].max(axis=(1, 2), keepdims=True))
    some = some[np.ptp(some, axis=(1, 2)) > 0]
    if values.shape[2] < 4 or len(some) == 0:
        return 1.0
    return float(np.clip(np.nanmedian(mean_sizes(some)) / count, 1 / count, 1.0))
