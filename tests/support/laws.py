"""The families in 64 bits, by SciPy: expected responses, distributions, and made-up targets and parameters."""

import dataclasses

import numpy as np
import scipy.special
from scipy import stats

from isotherm.tables.families import family_of

FREEDOM = 5.0
CLASSES = ["a", "b", "c"]
SCALES = {  # of made-up parameters; 1 for the others
    "precision": 40.0,
    "shape": 4.0,
    "thresholds": 3.0,
    "zero_inflation": 0.2,  # so that the quarter of the smallest counts is not all zeros
}


@dataclasses.dataclass(frozen=True)
class ZeroInflated:
    """A count that is zero with a probability, and otherwise follows a law."""

    law: object
    share: np.ndarray

    def logpmf(self, y):
        counted = np.log1p(-self.share) + self.law.logpmf(y)
        with np.errstate(invalid="ignore"):  # of an unknown y, as SciPy's laws do
            return np.where(np.asarray(y) == 0, np.logaddexp(np.log(self.share), counted), counted)

    def cdf(self, y):
        return np.where(np.asarray(y) >= 0, self.share + (1 - self.share) * self.law.cdf(y), 0.0)

    def rvs(self, random_state, size):
        return np.where(
            random_state.random(size) < self.share, 0, self.law.rvs(random_state=random_state, size=size)
        )


def _nbinom(mean, dispersion):
    return stats.nbinom(1 / dispersion, 1 / (1 + mean * dispersion))


def _asymmetric_laplace(eta, sigma, q):
    return stats.laplace_asymmetric(np.sqrt(q / (1 - q)), eta, sigma / np.sqrt(q * (1 - q)))


def law(model, eta, aux, rows, *, freedom=FREEDOM, quantile=0.5):
    """Return the distribution of numbers and counts at a linear predictor. Arrays are broadcast."""
    with np.errstate(over="ignore"):  # of a predictor that is no logarithm
        p, mean, trials = scipy.special.expit(eta), np.exp(eta), rows.get("trials", 1)
    share, spread, k = (aux.get(name, 0.5) for name in ("zero_inflation", "dispersion", "shape"))
    sigma, total = aux.get("sigma", 1.0), aux.get("precision", 1.0)
    return {
        "linear": lambda: stats.norm(eta, sigma),
        "student-t": lambda: stats.t(freedom, eta, sigma),
        "poisson": lambda: stats.poisson(mean),
        "negative-binomial": lambda: _nbinom(mean, spread),
        "binomial": lambda: stats.binom(trials, p),
        "zero-inflated-poisson": lambda: ZeroInflated(stats.poisson(mean), share),
        "zero-inflated-negative-binomial": lambda: ZeroInflated(_nbinom(mean, spread), share),
        "gamma": lambda: stats.gamma(k, scale=mean / k),
        "beta": lambda: stats.beta(total * p, total * scipy.special.expit(-eta)),
        "exponential": lambda: stats.expon(scale=mean),
        "weibull": lambda: stats.weibull_min(k, scale=mean),
        "quantile": lambda: _asymmetric_laplace(eta, sigma, quantile),
    }[model]()


def response(model, eta, aux, rows):
    """Return the expected response, or the probabilities of classes: of the second of two, or on an axis of more.

    The last axis of eta has the scores of a softmax, and that of thresholds their values.
    """
    if model == "softmax":
        return scipy.special.softmax(eta, axis=-1)
    if model == "ordinal":
        c = np.concatenate([0 * aux["thresholds"][..., :1], aux["thresholds"]], axis=-1)
        below = scipy.special.expit(c - eta[..., None])
        return np.diff(below, axis=-1, prepend=0, append=1)
    if model in ("linear", "student-t", "quantile"):
        return eta
    if model in ("logistic", "beta"):
        return scipy.special.expit(eta)
    if model == "probit":
        return stats.norm.cdf(eta)
    if model == "binomial":
        return rows["trials"] * scipy.special.expit(eta)
    if model == "weibull":
        return np.exp(eta) * scipy.special.gamma(1 + 1 / aux["shape"])
    return np.exp(eta) * (1 - aux.get("zero_inflation", 0.0))


def target(model, rows, seed=0):
    """Return outcomes of the right kind, otherwise arbitrary."""
    rng, found = np.random.default_rng(seed), family_of(model)
    if found.has_classes:
        return rng.choice(CLASSES[: 2 if found.is_binary else 3], rows).astype(object)
    if found.target.is_whole:
        return rng.poisson(3, rows)
    if model == "beta":
        return rng.beta(3, 2, rows)
    return rng.normal(100, 5, rows) if found.link.origin is None else rng.gamma(3, 1, rows)
