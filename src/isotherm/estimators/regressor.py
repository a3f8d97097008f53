"""A regressor: a target of numbers or counts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, assert_all_finite  # pyrefly: ignore

from isotherm.estimators import predicting
from isotherm.estimators.base import BayesianEstimator, checked_family, interval_ends, seed_of, thinned
from isotherm.tables.checks import COUNTS, POSITIVE
from isotherm.tables.families.base import Family
from isotherm.tables.families.prior import Prior
from isotherm.tables.families.registry import family_of


class BayesianRegressor(RegressorMixin, BayesianEstimator):
    """The regression of a number or a count on the columns of `X`, by posterior sampling.

    `fit` samples, and warns if the draws are not to be trusted. `predict` returns posterior means.

    **Arguments:**

    - `family`: a family of `isotherm.tables.families` for numbers or counts, such as `"linear"`, `"student-t"`,
      `"poisson"`, `"negative-binomial"`, `"gamma"` or `"quantile"`; or a `Family`.
    - `prior`: a `Prior`, or its scales by name, such as `{"coefficients": 1.0}`. They are for standardised columns.
    - `standardize`: whether the priors are on standardised columns or on the columns as given.
    - `categorical`: columns of numbers that are categories. Columns of text are so in any case.
    - `exposure`, `offset`, `trials`, `censored`: names of columns of `X` with these roles, as for
      `isotherm.tables.regression`. Columns of an array are called `x0`, `x1`, ...
    - `quantile`: of a `"quantile"` regression.
    - `num_draws`, `num_chains`: draws per chain, and chains.
    - `random_state`: the seed; `None` takes one from NumPy's global generator.
    - `progress`: show a bar while chains run.

    **Attributes:**

    - `coef_`, `intercept_`: posterior means, per unit of the column; 0 for a column that does not vary.
    - `coef_names_`: the names of the coefficients, one for each level but the first of a category.
    - `draws_`, `summary_`, `verdict_`: the `iso.Draws`, their summary, and its sentence on how far to trust them.
    - `n_features_in_`, `feature_names_in_`: of `X`.
    """

    def __init__(
        self,
        family: str | Family = "linear",
        *,
        prior: Prior | Mapping[str, Any] | None = None,
        standardize: bool = True,
        categorical: Sequence[str] = (),
        exposure: str | None = None,
        offset: str | None = None,
        trials: str | None = None,
        censored: str | None = None,
        quantile: float | None = None,
        num_draws: int = 1000,
        num_chains: int = 4,
        random_state: Any = 0,
        progress: bool = False,
    ) -> None:
        self.family = family
        self.prior = prior
        self.standardize = standardize
        self.categorical = categorical
        self.exposure = exposure
        self.offset = offset
        self.trials = trials
        self.censored = censored
        self.quantile = quantile
        self.num_draws = num_draws
        self.num_chains = num_chains
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BayesianRegressor":
        """Sample the posterior given rows `X` and their targets `y`, and return the estimator.

        - `sample_weight`: factors of the log-likelihood of each row.
        """
        columns = self._read(X, fit=True)
        y = self._target(columns, y).astype(np.float64)
        assert_all_finite(y, input_name="y")
        family = checked_family(self.family, of_classes=False)
        roles = {name: getattr(self, name) for name in ("exposure", "offset", "trials", "censored")}
        self._sample(columns, y, sample_weight, family, roles, self.quantile)
        self.intercept_ = float(self.intercept_)
        return self

    def predict(
        self, X: Any, return_std: bool = False
    ) -> Float[np.ndarray, " row"] | tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
        """Return the posterior mean of the expected response of each row.

        - `return_std`: also return the standard deviation of a new observation, noise included.
        """
        columns = self._new(X)
        if not return_std:
            return predicting.expected(self.draws_, columns).mean
        found = predicting.observations(self.draws_, columns, ())
        return found.mean, found.sd

    def predict_interval(self, X: Any, level: float = 0.9) -> Any:
        """Return the central interval of a new observation of each row, noise included: columns `low` and `high`."""
        low, high = predicting.observations(self.draws_, self._new(X), interval_ends(level)).quantiles
        return self._out(X, {"low": low, "high": high}, np.stack([low, high], axis=1))

    def sample_predictive(
        self, X: Any, n: int | None = None, random_state: Any = 0
    ) -> Float[np.ndarray, "draw row"]:
        """Return new observations of each row, one for each draw of the parameters, or for `n` of these."""
        columns = self._new(X)
        return thinned(predicting.sampled_observations(self.draws_, columns, seed_of(random_state)), n)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # pyrefly: ignore
        rule = family_of(self.family).target.rule
        tags.target_tags.positive_only = rule in (POSITIVE, COUNTS)
        return tags
