"""A classifier: a target of classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags  # pyrefly: ignore
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from isotherm.errors import must
from isotherm.estimators import predicting
from isotherm.estimators.base import (
    BayesianEstimator,
    checked_family,
    interval_ends,
    seed_of,
    thinned,
    weights_of,
)
from isotherm.prediction.record import Prediction
from isotherm.tables.families.base import Family
from isotherm.tables.families.prior import Prior
from isotherm.tables.families.registry import family_of
from isotherm.tables.fitted import fitted


class BayesianClassifier(ClassifierMixin, BayesianEstimator):
    """The regression of a class on the columns of `X`, by posterior sampling.

    `fit` samples, and warns if the draws are not to be trusted. `predict_proba` returns posterior means of the
    probabilities, and `predict` the most probable class.

    **Arguments:**

    - `family`: a family of `isotherm.tables.families` for classes: `"logistic"`, `"probit"`, `"softmax"` or, for
      numbers in order, `"ordinal"`; or a `Family`. If `None`, it is `"logistic"` for two classes and `"softmax"` for
      more.
    - `prior`: a `Prior`, or its scales by name, such as `{"coefficients": 1.0}`. They are for standardised columns.
    - `standardize`: whether the priors are on standardised columns or on the columns as given.
    - `categorical`: columns of numbers that are categories. Columns of text are so in any case.
    - `offset`: the name of a column of `X` that is added to the linear predictor. Columns of an array are called
      `x0`, `x1`, ...
    - `num_draws`, `num_chains`: draws per chain, and chains.
    - `random_state`: the seed; `None` takes one from NumPy's global generator.
    - `progress`: show a bar while chains run.

    **Attributes:**

    - `classes_`: the classes in order.
    - `coef_`, `intercept_`: posterior means, per unit of the column, with a row for each class under `"softmax"`,
      where that of the first is zero, and one row otherwise; 0 for a column that does not vary.
    - `coef_names_`: the names of the coefficients, one for each level but the first of a category.
    - `draws_`, `summary_`, `verdict_`: the `iso.Draws`, their summary, and its sentence on how far to trust them.
    - `n_features_in_`, `feature_names_in_`: of `X`.
    """

    classes_: np.ndarray

    def __init__(
        self,
        family: str | Family | None = None,
        *,
        prior: Prior | Mapping[str, Any] | None = None,
        standardize: bool = True,
        categorical: Sequence[str] = (),
        offset: str | None = None,
        num_draws: int = 1000,
        num_chains: int = 4,
        random_state: Any = 0,
        progress: bool = False,
    ) -> None:
        self.family = family
        self.prior = prior
        self.standardize = standardize
        self.categorical = categorical
        self.offset = offset
        self.num_draws = num_draws
        self.num_chains = num_chains
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BayesianClassifier":
        """Sample the posterior given rows `X` and their classes `y`, and return the estimator.

        - `sample_weight`: factors of the log-likelihood of each row.
        """
        columns = self._read(X, fit=True)
        y = self._target(columns, y)
        check_classification_targets(y)
        self.classes_ = np.unique(y if sample_weight is None else y[weights_of(sample_weight, y) > 0])
        family = self._family_for(y)
        self._sample(columns, y, sample_weight, family, {"offset": self.offset})
        if family.per_class:
            self.coef_ = np.concatenate([np.zeros_like(self.coef_[:1]), self.coef_])
            self.intercept_ = np.concatenate([[0.0], self.intercept_])
        else:
            self.coef_, self.intercept_ = self.coef_[None], self.intercept_[None]
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, " row"]:
        """Return the most probable class of each row, by the posterior means of the probabilities."""
        p = self._probability(X).mean
        return self.classes_[(p > 0.5).astype(np.int64) if p.ndim == 1 else p.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        """Return the posterior mean of the probability of each class, one column each in the order of `classes_`.

        It is an array, and a data frame only if `set_output` asks for one.
        """
        p = self._probability(X).mean
        p = p if p.ndim == 2 else np.stack([1 - p, p], axis=1)
        asked = self._kind_out(None)
        return p if asked is None else self._out(X, dict(zip(self._labels, p.T, strict=True)), p)

    def predict_interval(self, X: Any, level: float = 0.9) -> Any:
        """Return the central posterior interval of the probability of the second of two classes, or of each class.

        An array has the shape (row, 2), or (row, class, 2). A data frame has the columns `low` and `high`, or
        `low_CLASS` and `high_CLASS`.
        """
        low, high = self._probability(X, interval_ends(level)).quantiles
        columns = {"low": low, "high": high}
        if low.ndim == 2:
            columns = {
                f"{end}_{label}": x[:, i]
                for i, label in enumerate(self._labels)
                for end, x in (("low", low), ("high", high))
            }
        return self._out(X, columns, np.stack([low, high], axis=-1))

    def sample_predictive(
        self, X: Any, n: int | None = None, random_state: Any = 0
    ) -> Shaped[np.ndarray, "draw row"]:
        """Return a class for each row, drawn anew for each draw of the parameters, or for `n` of these."""
        columns = self._new(X)
        codes = predicting.sampled_observations(self.draws_, columns, seed_of(random_state))
        return self.classes_[thinned(codes, n).astype(np.int64)]

    def _probability(self, X: Any, levels: tuple[float, ...] = ()) -> Prediction:
        columns = self._new(X)
        return predicting.expected(self.draws_, columns, levels)

    def _family_for(self, y: np.ndarray) -> Family:
        """Return the family, and refuse a target with too few or too many classes for it."""
        if len(self.classes_) < 2:
            raise must("y", "a target of at least two classes", f"one class, {self.classes_[0]!r}")
        default = "logistic" if len(self.classes_) == 2 else "softmax"
        family = checked_family(default if self.family is None else self.family, of_classes=True)
        if family.is_binary and len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported by the family {family.name}. The type of the target is "
                f'{type_of_target(y)}, of {len(self.classes_)} classes. Use `family=None` or `"softmax"`.'
            )
        return family

    @property
    def _labels(self) -> tuple[str, ...]:
        return fitted(self.draws_).classes

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # pyrefly: ignore
        tags.classifier_tags.multi_class = self.family is None or not family_of(self.family).is_binary
        return tags
