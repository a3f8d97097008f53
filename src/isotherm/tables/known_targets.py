"""Scores of predictions of rows whose target is known."""

import dataclasses

import numpy as np

from isotherm.draws import Draws
from isotherm.posterior import Posterior
from isotherm.prediction.likelihood import LogLikelihood, log_likelihood, refuse_nan
from isotherm.prediction.record import Prediction
from isotherm.scores.classification import ClassificationScores, classification
from isotherm.scores.regression import RegressionScores, regression
from isotherm.tables.families.likelihood import Likelihood
from isotherm.tables.fitted import Fitted
from isotherm.tables.new_rows import NewRows


def scores_of(
    model: Fitted, rows: NewRows, expected: Prediction, outcome: Prediction | None
) -> RegressionScores | ClassificationScores | None:
    """Return the scores of the rows whose target is known, and not censored; `None` if there are none."""
    assert rows.y is not None
    known = ~np.isnan(rows.y) & (rows.further.get("censored", np.zeros(1)) == 0)
    if not known.any():
        return None
    if outcome is None:
        return classification(expected.mean[known], rows.y[known].astype(int))
    known_outcome = dataclasses.replace(
        outcome,
        mean=outcome.mean[known],
        sd=outcome.sd[known],
        quantiles=outcome.quantiles[:, known],
        pit=None if outcome.pit is None else outcome.pit[known],
        crps=None if outcome.crps is None else outcome.crps[known],
    )
    return regression(known_outcome, rows.y[known])


def log_likelihood_of(
    draws: Draws,
    likelihood: Likelihood,
    data: dict[str, np.ndarray],
    rows: NewRows,
    densities: list[np.ndarray | None],
    rows_at_once: int | None,
) -> LogLikelihood:
    """Return the log predictive densities of the rows whose target is known."""
    assert rows.y is not None
    known = ~np.isnan(rows.y)
    given = [x for x in densities if x is not None]
    if given:
        values = np.concatenate(given)[known]
        refuse_nan(values, slice(0, len(values)))
        return LogLikelihood(values, draws.num_chains * draws.num_draws)
    known_rows = {name: x[known] for name, x in data.items()} | {"y": rows.y[known].astype(np.int32)}
    return log_likelihood(draws, Posterior(likelihood, batched=True), known_rows, rows_at_once=rows_at_once)
