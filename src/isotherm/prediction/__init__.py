"""Predictions from draws: means, intervals and log-likelihoods of rows."""

from isotherm.prediction.likelihood import log_likelihood as log_likelihood
from isotherm.prediction.likelihood import with_log_likelihood as with_log_likelihood
from isotherm.prediction.predict import predict as predict
