"""Regressions of `iso.tables` with scikit-learn's interface. Needs the extra `sklearn`."""

from isotherm.errors import missing_extra

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise missing_extra("iso.estimators", "sklearn") from error

from isotherm.estimators.classifier import BayesianClassifier as BayesianClassifier
from isotherm.estimators.regressor import BayesianRegressor as BayesianRegressor
