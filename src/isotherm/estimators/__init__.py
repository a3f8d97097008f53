"""Regressions of `iso.tables` with scikit-learn's interface. Needs the extra `sklearn`."""

from isotherm.estimators.classifier import BayesianClassifier as BayesianClassifier
from isotherm.estimators.regressor import BayesianRegressor as BayesianRegressor
