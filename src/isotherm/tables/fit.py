"""How well a regression describes its data: the outcomes beside outcomes replicated by the model."""

import dataclasses
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float

from isotherm import scores
from isotherm.data.stream import some_rows
from isotherm.prediction.blocks import blocks
from isotherm.tables.coefficients import is_regression, thinned
from isotherm.tables.families.base import Family, LocationFamily
from isotherm.tables.families.likelihood import Likelihood
from isotherm.tables.fitted import fitted

if TYPE_CHECKING:
    from isotherm.draws import Draws

_DRAWS, _MOST_ROWS, _VALUES = 400, 50_000, 2**24  # at most: draws, rows, and their product times the classes
_NUMBERS = 2**25  # in the rows, at most
_TAILS = (0.005, 0.995)


@dataclasses.dataclass(frozen=True)
class Check:
    """A statistic of the outcomes beside its mean and 99 % interval over replicated data."""

    statistic: str
    data: float
    mean: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the data are inside the interval."""
        return self.low <= self.data <= self.high


@dataclasses.dataclass(frozen=True)
class Curve:
    """A calibration curve: `isotherm.scores.Calibration` in plain numbers."""

    predicted: list[float]
    observed: list[float]
    error: list[float]
    count: list[float]
    predicted_as: str
    observed_as: str

    def as_scores(self) -> scores.Calibration:
        """Return the curve for `isotherm.plots.calibration`."""
        predicted, observed, error, count = map(
            np.array, (self.predicted, self.observed, self.error, self.count)
        )
        return scores.Calibration(predicted, observed, error, count, self.predicted_as, self.observed_as)


@dataclasses.dataclass(frozen=True)
class Fit:
    """How well a regression describes some of the rows that it was fitted to.

    - `num_rows`, `num_draws`: what was compared.
    - `checks`: statistics of numbers and counts, unless some are censored.
    - `curve`: the calibration of the probabilities of classes; `auc`, `auc_error`: for two classes.
    """

    num_rows: int
    num_draws: int
    checks: list[Check]
    curve: Curve | None = None
    auc: float | None = None
    auc_error: float | None = None


def fit_of(draws: "Draws", *, seed: int = 0) -> Fit | None:
    """Return how well the regression behind `draws` describes its data; `None` if draws or data are of another kind.

    It needs the setup of the run, which holds the rows: draws from a file have none.
    """
    if draws.setup is None or not is_regression(draws) or not draws.complete.any() or draws.num_draws == 0:
        return None
    problem = draws.setup.problem
    likelihood = problem.posterior.log_likelihood
    if not isinstance(likelihood, Likelihood):
        return None
    params = thinned(draws, _DRAWS)
    num_draws = len(params["coefficients"])
    classes = len(fitted(draws).classes) if likelihood.family.has_probabilities else 1
    width = params["coefficients"].shape[-1]
    count = max(1, min(_MOST_ROWS, _VALUES // (num_draws * classes), _NUMBERS // width))
    rows = jax.tree.map(np.asarray, some_rows(problem.data, min(count, problem.num_data))[0])
    y = rows["y"]
    parts = [values for _, values in blocks(likelihood.expected, params, rows)]
    expected = np.concatenate(parts, axis=1)
    family = likelihood.family
    if not (family.statistics or family.has_classes) or np.any(rows.get("censored", 0)):
        return Fit(len(y), num_draws, [])
    if family.has_classes:
        return _of_classes(expected.mean(axis=0, dtype=np.float64), y, num_draws)
    origin, unit = _scale(likelihood) if isinstance(family, LocationFamily) else (0.0, 1.0)
    replicated = _replicated(likelihood, origin + unit * expected.astype(np.float64), params, rows, seed)
    checks = _checks(family, origin + unit * y.astype(np.float64), replicated)
    return Fit(len(y), num_draws, checks)


def _scale(likelihood: Likelihood) -> tuple[float, float]:
    return float(likelihood.standard.origin), float(likelihood.standard.unit)


def _of_classes(p: Float[np.ndarray, "row ..."], y: np.ndarray, num_draws: int) -> Fit:
    p = np.clip(p, 0, 1)
    curve = scores.calibration(p, y.astype(int), equal_mass=True)
    predicted, observed, error, count = (
        x.tolist() for x in (curve.predicted, curve.observed, curve.error, curve.count)
    )
    stored = Curve(predicted, observed, error, count, curve.predicted_as, curve.observed_as)
    if p.ndim == 2 or len(np.unique(y)) < 2:
        return Fit(len(y), num_draws, [], stored)
    return Fit(len(y), num_draws, [], stored, *scores.auc(p, y.astype(int)))


def _replicated(
    likelihood: Likelihood,
    response: Float[np.ndarray, "draw row"],
    params: dict[str, np.ndarray],
    rows: dict[str, np.ndarray],
    seed: int,
) -> Float[np.ndarray, "draw row"]:
    """Return new outcomes of all rows, one data set for each draw."""
    family, varying = likelihood.family, {x.name: x for x in likelihood.predictors}
    rng, out = np.random.default_rng(seed), np.empty(response.shape, np.float32)
    aux = {
        x.name: np.asarray(varying[x.name].at_draws(params, rows)).T if x.name in varying else params[x.name]
        for x in family.auxiliaries
    }
    for i in range(len(response)):
        out[i] = family.random(rng, response[i], {name: np.float64(x[i]) for name, x in aux.items()}, rows)
    return out


def _checks(
    family: Family, y: Float[np.ndarray, " row"], replicated: Float[np.ndarray, "draw row"]
) -> list[Check]:
    found = []
    for name, statistic in family.statistics.items():
        values = np.asarray(statistic(replicated), np.float64)
        low, high = np.quantile(values, _TAILS)
        found.append(Check(name, float(statistic(y)), float(values.mean()), float(low), float(high)))
    return found
