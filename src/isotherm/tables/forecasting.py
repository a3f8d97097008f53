"""Predictions of a regression for new rows: the expected response, new observations, and their scores."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, Int64, Shaped

from isotherm.draws import Draws
from isotherm.errors import check_count, must
from isotherm.prediction.blocks import chosen, in_a_row
from isotherm.prediction.likelihood import LogLikelihood
from isotherm.prediction.record import Prediction, joined, over_draws
from isotherm.prediction.thinning import check_precision, thinned
from isotherm.progress import Progress
from isotherm.readable import Readable
from isotherm.scores.classification import ClassificationScores
from isotherm.scores.regression import RegressionScores
from isotherm.tables.decision import Decision, decision_of
from isotherm.tables.fitted import Fitted, fitted
from isotherm.tables.identifiers import check_kept
from isotherm.tables.known_targets import log_likelihood_of, scores_of
from isotherm.tables.new_formula import AnyNewTable, computed, new_table, with_new_levels
from isotherm.tables.new_rows import NewRows
from isotherm.tables.outcomes import outcome_of, outcomes
from isotherm.tables.reading import ReadTable
from isotherm.tables.responses import likelihood_of, responses_of
from isotherm.tables.survey import chunk_length, progressing
from isotherm.tables.table import MemoryTable, Table

_LOOKED_AT = 100  # rows that decide how many draws are used


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Forecast(Readable):
    """Predictions for the rows of a table.

    - `model`: the regression.
    - `columns`: one entry per row of the table: first the columns that are kept, then predictions, NaN or `None` if
      the row has a missing value. For a number or a count, `mean`, `mean_low` and `mean_high` are the posterior mean
      and interval of the expected response; `low` and `high` are the interval of a new observation, noise included,
      and are counts if observations are. For two classes, `probability`, `low` and `high` are the posterior mean and
      interval of the probability of the second; for more there is one `probability_CLASS` each. `predicted` is the
      class of least expected cost, by default the most probable one.
    - `complete`: which rows have no missing value. The remaining attributes are for these rows.
    - `expected`: expected responses or probabilities, as `iso.predict` returns them.
    - `outcome`: new observations; `None` for classes.
    - `codes`, `y`: the index of the predicted class, `None` for other models; the target, NaN where it is unknown,
      `None` if the table has none.
    - `unseen`: the numbers of rows with levels that were not seen at fitting, by feature.
    - `log_likelihood`, `scores`: for the rows whose target the table has; `None` if it has none.
    """

    model: Fitted
    columns: dict[str, Shaped[np.ndarray, " N"]]
    complete: Bool[np.ndarray, " N"]
    expected: Prediction
    outcome: Prediction | None
    log_likelihood: LogLikelihood | None
    scores: RegressionScores | ClassificationScores | None
    codes: Int[np.ndarray, " n"] | None = None
    y: Float[np.ndarray, " n"] | None = None
    unseen: Mapping[str, Int64[np.ndarray, " k"]] = dataclasses.field(default_factory=dict)


def forecast(
    draws: Draws,
    columns: Mapping[str, np.ndarray],
    *,
    interval: float = 0.9,
    seed: int = 0,
    missing: str = "refuse",
    unseen: str = "error",
    threshold: int | float | None = None,
    costs: Mapping[str, int | float] | None = None,
    precision: float | None = None,
    rows_at_once: int | None = None,
) -> Forecast:
    """Return the predictions of the regression behind `draws` for the rows of a new table.

    Memory is bounded as in `iso.predict`. Each row has its own stream of noise, so its prediction does not depend,
    up to rounding, on the rows after it.

    **Arguments:**

    - `draws`: of `isotherm sample` or of `iso.tables.regression`, with its `description` and `labels` in
      `draws.about.model` and `draws.labels`.
    - `columns`: arrays of equal length by name, as `isotherm.tables.reader.read_table(path).columns`: the features,
      and exposure and offset if the model has them. If the target is among them, the predictions are scored.
    - `interval`: probability of the central intervals.
    - `missing`: `"refuse"` refuses rows with a missing value; `"empty"` makes no prediction for them.
    - `unseen`: what to do with levels that were not seen at fitting. `"error"` refuses them, `"missing"` makes no
      prediction for their rows, and `"mean"` takes the average of the coefficients of all levels in their place.
      For levels of groups, `"mean"` is an effect of zero, and `"sample"` draws their effects.
    - `threshold`: the probability of the second of two classes above which it is predicted.
    - `costs`: in its place, what it costs to predict another class for a row of each class, such as
      `{"yes": 10, "no": 1}`; 1 for those that are left out. The class of least expected cost is predicted.
    - `precision`: use as few draws, evenly spaced, as give each mean a Monte Carlo error of at most this share of its
      posterior sd. It is judged by a sample of the rows. `None` uses all draws.
    """
    table = MemoryTable(columns)
    (whole,) = forecasts(
        draws,
        table,
        interval=interval,
        seed=seed,
        missing=missing,
        unseen=unseen,
        threshold=threshold,
        costs=costs,
        precision=precision,
        rows_at_once=rows_at_once,
        length=table.num_rows,
    )
    return whole


def forecasts(
    draws: Draws,
    table: Table,
    *,
    interval: float = 0.9,
    seed: int = 0,
    missing: str = "refuse",
    unseen: str = "error",
    threshold: int | float | None = None,
    costs: Mapping[str, int | float] | None = None,
    keep: Sequence[str] = (),
    keep_from: Table | None = None,
    precision: float | None = None,
    rows_at_once: int | None = None,
    length: int | None = None,
    progress: bool = False,
) -> Iterator[Forecast]:
    """Yield the predictions for the rows of a table in order, `length` rows at a time.

    The table is read twice: all values are checked before anything is computed. Memory is bounded. The columns of
    `keep_from`, by default `table`, that `keep` names are copied as they are, before the predictions. The other
    arguments are as for `forecast`.
    """
    model = fitted(draws)
    if not 0 < interval < 1:
        raise must("interval", "a probability between 0 and 1", interval)
    check_count("seed", seed, minimum=0)
    check_precision(precision)
    decision = decision_of(model, threshold, costs)
    keep_from = table if keep_from is None else keep_from
    check_kept(keep, keep_from, model)
    table = table if model.reading.is_plain else ReadTable(table, model.reading)
    table = computed(table, model)
    new = new_table(model, table, missing=missing, unseen=unseen)
    length = chunk_length(table, new.names) if length is None else length
    for rows, columns in progressing(table, new.names, length, title="pass 1 of 2: checks", show=progress):
        new.see(columns, rows)
    new.finish()
    draws = chosen(draws)
    if precision is not None:
        draws = _few(draws, model, table, new, precision)
    levels = ((1 - interval) / 2, (1 + interval) / 2)
    kept = keep_from.chunks(keep, length) if keep else itertools.repeat((None, {}))
    pieces = zip(table.chunks(new.names, length), kept, strict=False)
    with Progress("pass 2 of 2: predictions", table.num_rows, show=progress) as bar:
        for (rows, columns), (_, copied) in pieces:
            given = new.rows(columns, rows)
            bar.count_rows(len(rows) - len(given.x))
            part = _predicted(draws, model, given, levels, decision, seed, rows_at_once, bar)
            yield dataclasses.replace(part, columns={**copied, **part.columns})


def _predicted(
    draws: Draws,
    model: Fitted,
    rows: NewRows,
    levels: tuple[float, float],
    decision: Decision | None,
    seed: int,
    rows_at_once: int | None,
    bar: Progress,
) -> Forecast:
    """Return the predictions for some rows."""
    likelihood, data = likelihood_of(model, rows)
    params = with_new_levels(in_a_row(draws), model, rows, seed)
    expected_parts, outcome_parts, densities = [], [], []
    parts = responses_of(likelihood, params, data, rows, rows_at_once, len(model.classes))
    for which, values, density in parts:
        expected_parts.append(over_draws(values, levels))
        densities.append(density)
        if not model.family.has_classes:
            seeds = [(seed, int(row)) for row in rows.numbers[which]]
            further, terms = ({k: x[which] for k, x in part.items()} for part in (rows.further, rows.terms))
            new = outcomes(model, values, params, further, seeds, terms)
            outcome_parts.append(over_draws(new, levels, None if rows.y is None else rows.y[which]))
        bar.count_rows(which.stop - which.start)
    expected = joined(expected_parts)
    outcome = outcome_of(model, joined(outcome_parts), expected) if outcome_parts else None
    scores = found = None
    if rows.y is not None:
        scores = scores_of(model, rows, expected, outcome)
        shape = (draws.num_chains, draws.num_draws)
        in_chains = {name: x.reshape(*shape, *x.shape[1:]) for name, x in params.items()}
        extended = dataclasses.replace(draws, posterior=in_chains) if rows.new_levels else draws
        found = log_likelihood_of(extended, likelihood, data, rows, densities, rows_at_once)
    codes = None if decision is None else decision.codes(expected.mean)
    columns = _columns(model, expected, outcome, codes)
    return Forecast(
        model,
        {name: _in_place(x, rows.complete) for name, x in columns.items()},
        rows.complete,
        expected,
        outcome,
        found,
        scores,
        codes,
        rows.y,
        rows.unseen,
    )


def _few(draws: Draws, model: Fitted, table: Table, new: AnyNewTable, precision: float) -> Draws:
    """Return as few draws as the precision takes, judged by rows from all parts of the table."""
    index = np.unique(np.linspace(0, table.num_rows - 1, _LOOKED_AT).round().astype(np.int64))
    rows = dataclasses.replace(new.rows(table.take(new.names, index), index), y=None)
    if not len(rows.x):
        return draws
    likelihood, data = likelihood_of(model, rows)
    params = with_new_levels(in_a_row(draws), model, rows, 0)
    parts = responses_of(likelihood, params, data, rows, None, len(model.classes))
    return thinned(draws, np.concatenate([part.values for part in parts], axis=1), precision)


def _columns(
    model: Fitted, expected: Prediction, outcome: Prediction | None, codes: Int[np.ndarray, " n"] | None
) -> dict[str, np.ndarray]:
    predicted = {} if codes is None else {"predicted": np.array(model.classes, object)[codes]}
    if model.family.has_probabilities:
        return {
            f"probability_{name}": expected.mean[:, i] for i, name in enumerate(model.classes)
        } | predicted
    low, high = expected.quantiles
    if outcome is None:
        return {"probability": expected.mean, "low": low, "high": high} | predicted
    response = {"mean": expected.mean, "mean_low": low, "mean_high": high}
    return response | dict(zip(("low", "high"), outcome.quantiles, strict=True))


def _in_place(values: np.ndarray, complete: Bool[np.ndarray, " N"]) -> np.ndarray:
    """Return one entry per row of the table: the values in complete rows, NaN or `None` in the others."""
    placed = np.full(len(complete), None if values.dtype == object else np.nan, values.dtype)
    placed[complete] = values
    return placed
