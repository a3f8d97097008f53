"""What the regressor and the classifier share: checks of the input, the fit, and the draws as data frames."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data  # pyrefly: ignore

from isotherm.draws import Draws
from isotherm.errors import check_choice, check_count, must
from isotherm.estimators import fitting, frames
from isotherm.judging.summary import Summary
from isotherm.tables.families.base import Family
from isotherm.tables.families.prior import Prior
from isotherm.tables.families.registry import family_of
from isotherm.tables.fitted import fitted

if TYPE_CHECKING:
    from pandas import DataFrame


class BayesianEstimator(BaseEstimator):
    """A regression whose coefficients are sampled. The two subclasses say what it returns for new rows."""

    family: Any
    prior: Prior | Mapping[str, Any] | None
    categorical: Sequence[str]
    standardize: bool
    num_draws: int
    num_chains: int
    random_state: Any
    progress: bool

    draws_: Draws
    summary_: Summary
    verdict_: str
    coef_: np.ndarray
    coef_names_: np.ndarray
    intercept_: Any
    n_features_in_: int

    def sample_posterior(self, n: int | None = None) -> "DataFrame":
        """Return draws of the parameters: a row for each draw, and a named column for each parameter.

        - `n`: how many, evenly spaced; all if `None`.
        """
        check_is_fitted(self)
        table = self.draws_.to_pandas()
        if n is not None:
            check_count("n", n, minimum=1, below=len(table) + 1, repair="Fit with more `num_draws`.")
            table = table.iloc[_spaced(len(table), n)]
        kind = self._kind_out(None)
        if kind in (None, frames.PANDAS):
            return table
        return frames.make_frame(kind, {str(name): table[name].to_numpy() for name in table})

    def set_output(self, *, transform: str | None = None) -> "BayesianEstimator":
        """Choose what `predict_interval`, `predict_proba` and `sample_posterior` return, and return the estimator.

        - `transform`: `"pandas"`, `"polars"` or `"pyarrow"` for data frames; `"default"` for arrays from arrays and,
          except for `predict_proba`, data frames from data frames; `None` for no change.
        """
        if transform is not None:
            check_choice("transform", transform, ("default", frames.PANDAS, frames.POLARS, frames.ARROW))
            self._sklearn_output_config = {"transform": transform}
        return self

    def _sample(
        self,
        columns: Mapping[str, np.ndarray],
        y: np.ndarray,
        sample_weight: Any,
        family: str | Family,
        roles: Mapping[str, str | None],
        quantile: float | None = None,
    ) -> None:
        """Sample, and set the attributes that regressors and classifiers have."""
        weights = None if sample_weight is None else weights_of(sample_weight, y)
        settings = fitting.Settings(
            family,
            {role: name for role, name in roles.items() if name is not None},
            self.categorical,
            quantile,
            self.standardize,
            self.prior,
            self.num_draws,
            self.num_chains,
            seed_of(self.random_state),
            self.progress,
        )
        found = fitting.fit(columns, y, weights, settings)
        self.draws_, self._column_names = found.draws, list(columns)
        self.summary_ = found.draws.summary()
        self.verdict_ = self.summary_.verdict
        self._set_coefficients(found.constant)
        if self.summary_.problems:
            warnings.warn(self.verdict_, ConvergenceWarning, stacklevel=3)

    def _set_coefficients(self, constant: tuple[str, ...]) -> None:
        """Set posterior means, with a zero where a column does not vary."""
        model, mean = fitted(self.draws_), np.asarray(self.draws_.mean()[0]["coefficients"], np.float64)
        at, names, width = [], [], 0
        used = iter(model.names)
        for name in self._column_names:
            if name in constant:
                names.append(name)
            elif name in model.features:
                count = len(model.levels[name]) - 1 if name in model.levels else 1
                names += [next(used) for _ in range(count)]
                at += range(width, width + count)
            width = len(names)
        self.coef_names_ = np.array(names, dtype=object)
        slopes = np.zeros((*mean.shape[:-1], width))
        slopes[..., at] = mean[..., 1:]
        self.coef_, self.intercept_ = slopes, mean[..., 0]

    def _read(self, X: Any, *, fit: bool) -> dict[str, np.ndarray]:
        """Return the columns of `X` by name, after scikit-learn's checks of what it is and of its features."""
        kind = frames.kind_of_frame(X)
        if kind is None:
            X = validate_data(self, X, reset=fit, ensure_min_samples=2 if fit else 1)
            columns = list(X.T)
        else:
            validate_data(self, X, reset=fit, skip_check_array=True)
            columns = frames.columns_of(X)
            if not columns or len(columns[0]) < (2 if fit else 1):
                raise must("X", "a table with a column and at least two rows", X)
        if not fit:
            names = self._column_names
        elif kind is None:
            names = [f"x{i}" for i in range(len(columns))]
        else:
            names = _texts(X.column_names if kind == frames.ARROW else X.columns)
        return dict(zip(names, columns, strict=True))

    def _target(self, columns: Mapping[str, np.ndarray], y: Any) -> np.ndarray:
        """Return the target as an array with a value for each row."""
        if y is None:
            raise ValueError(f"`{type(self).__name__}` requires y to be passed, but the target y is None.")
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        check_consistent_length(next(iter(columns.values())), y)
        return y

    def _new(self, X: Any) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        if isinstance(self.family, Family):
            family_of(self.family)  # registers it, as a process that has loaded the estimator must
        return self._read(X, fit=False)

    def _kind_out(self, X: Any) -> Any:
        """Return the kind of data frame that `set_output` asks for, or else that of `X`; `None` for arrays."""
        chosen = (
            getattr(self, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
        )
        return frames.kind_of_frame(X) if chosen == "default" else chosen

    def _out(self, X: Any, columns: Mapping[str, np.ndarray], array: np.ndarray) -> Any:
        """Return the columns as a data frame if one is asked for, and the array otherwise."""
        kind = self._kind_out(X)
        return array if kind is None else frames.make_frame(kind, columns, like=X)


def interval_ends(level: float) -> tuple[float, float]:
    """Return the quantiles at the ends of the central interval of this probability."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise must("level", "a probability between 0 and 1", level)
    return (1 - level) / 2, (1 + level) / 2


def thinned(values: Float[np.ndarray, "draw row"], n: int | None) -> Float[np.ndarray, "n row"]:
    """Return `n` draws, evenly spaced; all if `None`."""
    if n is None:
        return values
    check_count("n", n, minimum=1, below=len(values) + 1, repair="Fit with more `num_draws`.")
    return values[_spaced(len(values), n)]


def checked_family(family: Any, *, of_classes: bool) -> Family:
    """Return the family, which must be for classes, or for numbers."""
    found = family_of(family)
    if found.has_classes != of_classes:
        kind, other = ("classes", "BayesianRegressor") if of_classes else ("numbers", "BayesianClassifier")
        raise must("family", f"one for a target of {kind}", found.name, f"Use `{other}`.")
    return found


def seed_of(random_state: Any) -> int:
    """Return the seed that an argument `random_state` of scikit-learn stands for."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def weights_of(sample_weight: Any, y: np.ndarray) -> Float[np.ndarray, " row"]:
    """Return a weight for each row."""
    weights = np.asarray(sample_weight, np.float64)
    weights = np.full(len(y), weights) if weights.ndim == 0 else weights
    if weights.shape != y.shape:
        raise must("sample_weight", f"an array of shape {y.shape}", weights)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        worst = weights.max() if np.isfinite(weights).all() and (weights >= 0).all() else weights.min()
        raise must("sample_weight", "finite numbers of at least zero, and not all zero", worst)
    return weights


def _spaced(total: int, n: int) -> np.ndarray:
    return np.linspace(0, total - 1, n).round().astype(int)


def _texts(names: Any) -> list[str]:
    texts = [str(name) for name in names]
    if len(set(texts)) < len(texts):
        raise must("X", "a data frame whose columns have different names", texts)
    return texts
