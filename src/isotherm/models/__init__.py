"""The models of the paper's experiments, one of which has a posterior that is known exactly."""

from isotherm.models.classifiers import drbm as drbm
from isotherm.models.classifiers import logistic_regression as logistic_regression
from isotherm.models.classifiers import softmax_regression as softmax_regression
from isotherm.models.gaussian import gaussian as gaussian
