"""Expected responses of new rows, and new observations, at the draws of a regression."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from isotherm.draws import Draws
from isotherm.prediction.blocks import chosen, in_a_row
from isotherm.prediction.record import Prediction, joined, over_draws
from isotherm.tables.families.classes import random_class
from isotherm.tables.fitted import Fitted, fitted
from isotherm.tables.new_rows import NewTable
from isotherm.tables.outcomes import outcome_of, outcomes
from isotherm.tables.reading import ReadTable
from isotherm.tables.responses import likelihood_of, responses_of
from isotherm.tables.survey import chunk_length
from isotherm.tables.table import MemoryTable


class Part(NamedTuple):
    """Expected responses of some rows at every draw, the numbers of the rows, and their further columns."""

    values: Float[np.ndarray, "draw row ..."]
    numbers: np.ndarray
    further: dict[str, np.ndarray]


def expected(draws: Draws, columns: Mapping[str, np.ndarray], levels: tuple[float, ...] = ()) -> Prediction:
    """Return mean, sd and quantiles over the draws of the expected response or probabilities of each row."""
    return joined([over_draws(part.values, levels) for part in _parts(draws, columns)])


def observations(
    draws: Draws, columns: Mapping[str, np.ndarray], levels: tuple[float, ...], seed: int = 0
) -> Prediction:
    """Return mean, sd and quantiles of new observations of each row: those of `forecast`."""
    model, params = fitted(draws), in_a_row(chosen(draws))
    found, means = [], []
    for part in _parts(draws, columns):
        found.append(over_draws(_observed(model, part, params, seed), levels))
        means.append(over_draws(part.values, levels))
    return outcome_of(model, joined(found), joined(means))


def sampled_observations(
    draws: Draws, columns: Mapping[str, np.ndarray], seed: int
) -> Float[np.ndarray, "draw row"]:
    """Return a new observation of each row at each draw; of classes, its index."""
    model, params = fitted(draws), in_a_row(chosen(draws))
    if not model.family.has_classes:
        return np.concatenate(
            [_observed(model, part, params, seed) for part in _parts(draws, columns)], axis=1
        )
    rng, found = np.random.default_rng(seed), []
    for part in _parts(draws, columns):
        p = part.values.astype(np.float64)
        found.append(
            random_class(rng, p if model.family.has_probabilities else np.stack([1 - p, p], axis=-1))
        )
    return np.concatenate(found, axis=1)


def _observed(
    model: Fitted, part: Part, params: Mapping[str, np.ndarray], seed: int
) -> Float[np.ndarray, "draw row"]:
    seeds = [(seed, int(row)) for row in part.numbers]
    return outcomes(model, part.values, params, part.further, seeds)


def _parts(draws: Draws, columns: Mapping[str, np.ndarray]) -> Iterator[Part]:
    """Yield the expected responses at every draw, for some rows after others. All values are checked first."""
    model, table = fitted(draws), MemoryTable(columns)
    table = table if model.reading.is_plain else ReadTable(table, model.reading)
    new = NewTable(model, table, missing="refuse")
    length = chunk_length(table, new.names)
    for numbers, piece in table.chunks(new.names, length):
        new.see(piece, numbers)
    new.finish()
    params = in_a_row(chosen(draws))
    for numbers, piece in table.chunks(new.names, length):
        rows = new.rows(piece, numbers)
        likelihood, data = likelihood_of(model, rows)
        for found in responses_of(likelihood, params, data, rows, None, len(model.classes)):
            further = {name: x[found.rows] for name, x in rows.further.items()}
            yield Part(found.values, rows.numbers[found.rows], further)
