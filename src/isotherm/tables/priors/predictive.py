"""Prior predictive draws: what a regression expects of its target before it sees it."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from isotherm.data.sources.base import Source as Rows
from isotherm.errors import check_count
from isotherm.prediction.blocks import blocks
from isotherm.printed import Printed
from isotherm.sums.fold import num_rows
from isotherm.tables.assembled import Regression
from isotherm.tables.families.base import LocationFamily
from isotherm.tables.families.likelihood import Likelihood
from isotherm.tables.families.statistics import OF_NUMBERS, Statistic
from isotherm.tables.fitted import Fitted, fitted_from
from isotherm.tables.marginal.given import Source, some_rows
from isotherm.tables.marginal.grid import as_column, known_levels, values_along
from isotherm.tables.marginal.means import averages
from isotherm.tables.marginal.typical import typical_row
from isotherm.tables.priors.parameters import prior_draws
from isotherm.tables.priors.sentences import judged
from isotherm.tables.replicated import Block, replicated, varying

_ROWS, _LINES, _MOST_COLUMNS = 500, 40, 6
_ALONG_ROWS = 2000  # from which the values of a column are taken


@dataclasses.dataclass(frozen=True)
class PriorStatistic:
    """A statistic of the target: in the data, and at each draw from the priors."""

    name: str
    data: float
    draws: Float[np.ndarray, " draw"]

    def quantiles(self) -> tuple[float, float, float]:
        """The quantiles of 5 %, 50 % and 95 % under the priors."""
        low, middle, high = np.quantile(self.draws, (0.05, 0.5, 0.95))
        return float(low), float(middle), float(high)


@dataclasses.dataclass(frozen=True)
class PriorLines:
    """Expected responses along a column, the others at typical values; of the last class if there are several."""

    column: str
    values: tuple[Any, ...]
    draws: Float[np.ndarray, "draw value"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PriorPredictive(Printed):
    """What the priors say of the target of some rows; prints what is ordinary under them, and warnings.

    - `model`: the regression. `params`: draws of the parameters, (draw, ...).
    - `response`, `target`: expected responses, (draw, row) or (draw, row, class), and targets that were made up,
      (draw, row); of classes their indices. `data`: the target of the rows.
    - `statistics`: of the target. `lines`: predictions along columns, if a table was given.
    - `sentences`: what the priors say, and `warnings`, if it is absurd.
    """

    model: Fitted
    params: Mapping[str, np.ndarray]
    response: Float[np.ndarray, "draw row ..."]
    target: Float[np.ndarray, "draw row"]
    data: Float[np.ndarray, " row"]
    statistics: tuple[PriorStatistic, ...]
    lines: tuple[PriorLines, ...]
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]

    def _parts(self) -> Iterator[Any]:
        yield f"{len(self.target):,} draws from the priors, {self.target.shape[1]:,} rows"
        yield from self.sentences
        for text in self.warnings:
            yield f"warning: {text}"


def prior_predictive(
    regression: Regression, table: Source | None = None, *, num_draws: int = 500, seed: int = 0
) -> PriorPredictive:
    """Return draws of the parameters of a regression from their priors, and the targets that these make up.

    Nothing is fitted. `regression` is what `iso.tables.regression` returns. With the `table` that it was made of,
    predictions along its columns are computed, too.
    """
    check_count("num_draws", num_draws, minimum=10)
    check_count("seed", seed, minimum=0)
    model = fitted_from(regression.description, regression.labels)
    rng, rows = np.random.default_rng(seed), _some(regression.data)
    params = prior_draws(regression, num_draws, rng)
    likelihood = regression.posterior.log_likelihood
    assert isinstance(likelihood, Likelihood)
    origin, unit = 0.0, 1.0
    if isinstance(model.family, LocationFamily):
        origin, unit = float(likelihood.standard.origin), float(likelihood.standard.unit)
    with np.errstate(over="ignore"):
        parts = [values for _, values in blocks(likelihood.expected, params, rows)]
    response = origin + unit * np.concatenate(parts, axis=1).astype(np.float64)
    aux = varying(likelihood, params, rows)
    aux |= {x.name: params[x.name] for x in model.family.auxiliaries if x.name not in aux}
    further = {name: x for name, x in rows.items() if x.ndim == 1}
    response = np.clip(response, -_LARGEST, _LARGEST)
    made = replicated(model, Block(slice(0, len(rows["y"])), response, aux, further), rng)
    data = origin + unit * np.asarray(rows["y"], np.float64)
    statistics = tuple(
        PriorStatistic(name, float(of(data)), np.asarray(of(made), np.float64))
        for name, of in statistics_of(model).items()
    )
    lines = () if table is None else tuple(_lines(model, params, table, seed))
    sentences, warnings = judged(model, response, made, data, rows)
    return PriorPredictive(
        model, params, response, made, data, statistics, lines, tuple(sentences), tuple(warnings)
    )


_LARGEST = 1e30


def statistics_of(model: Fitted) -> Mapping[str, Statistic]:
    """Return statistics of a target by name: of classes, their shares."""
    if not model.family.has_classes:
        return model.family.statistics or OF_NUMBERS
    names = list(enumerate(model.classes))
    shown = names[1:] if model.family.is_binary else names
    return {f"share of {name}": lambda y, i=i: np.mean(y == i, axis=-1) for i, name in shown}


def _some(data: dict[str, np.ndarray] | Rows) -> dict[str, np.ndarray]:
    """Return evenly spaced rows."""
    count = data.num_rows if isinstance(data, Rows) else num_rows(data)
    index = np.unique(np.linspace(0, count - 1, _ROWS).round().astype(np.int64))
    return data.take(index) if isinstance(data, Rows) else jax.tree.map(lambda x: np.asarray(x)[index], data)


def _lines(model: Fitted, params: Mapping[str, np.ndarray], table: Source, seed: int) -> Iterator[PriorLines]:
    """Yield predictions along columns, of the last class if there are several."""
    given = some_rows(model, table, _ALONG_ROWS, seed)
    few = {name: x[:_LINES] for name, x in params.items()}
    levels, typical = known_levels(model), typical_row(model, given)
    names = [
        x for x in given.columns if given.columns[x].ndim == 1 and len(levels.get(x, ())) <= _ALONG_LEVELS
    ]
    special = model.special(with_target=False).values()
    for name in [x for x in names if x not in special][:_MOST_COLUMNS]:
        values = values_along(model, given, name, None)
        draws = averages(model, few, typical, name, as_column(model, name, values)).draws
        yield PriorLines(name, values, draws if draws.ndim == 2 else draws[..., -1])


_ALONG_LEVELS = 20
