"""Scores and calibration curves of predictions, given the outcomes."""

from isotherm.scores.calibration import Calibration as Calibration
from isotherm.scores.calibration import calibration as calibration
from isotherm.scores.calibration import pit_calibration as pit_calibration
from isotherm.scores.classification import ClassificationScores as ClassificationScores
from isotherm.scores.classification import accuracy as accuracy
from isotherm.scores.classification import brier as brier
from isotherm.scores.classification import classification as classification
from isotherm.scores.classification import negative_log_likelihood as negative_log_likelihood
from isotherm.scores.ranking import auc as auc
from isotherm.scores.regression import Interval as Interval
from isotherm.scores.regression import RegressionScores as RegressionScores
from isotherm.scores.regression import crps as crps
from isotherm.scores.regression import pit as pit
from isotherm.scores.regression import regression as regression
from isotherm.scores.regression import rmse as rmse
