"""Regressions with made-up draws, and their predictions in 64 bits."""

import dataclasses

import numpy as np
import scipy.special
import scipy.stats

from isotherm.draws import Moments
from isotherm.tables.families import Prior, family_of
from isotherm.tables.regression import regression
from support.made_run import CHAINS, LENGTH, made_draws

TRUTH = np.array([-1.0, 0.02, 0.1, -0.5])
SPREAD = np.array([0.2, 0.003, 0.02, 0.1])
FREEDOM = 5.0
FEATURES = ["age", "dose", "sex"]
CLASSES = ["a", "b", "c"]


def table(rows, seed=0):
    """Return columns with means away from zero and different units."""
    rng = np.random.default_rng(seed)
    return {
        "age": rng.normal(50, 12, rows),
        "dose": rng.gamma(2, 3, rows),
        "sex": rng.choice(["f", "m"], rows).astype(object),
        "years": rng.uniform(0.5, 2, rows),
        "known": rng.normal(size=rows),
    }


def options(model):
    """Return offset and exposure, if the model can have them."""
    columns = {"offset": "known", "exposure": "years"}
    return {role: name for role, name in columns.items() if role in family_of(model).roles}


def is_count(model):
    """Return whether the model is one of counts."""
    return family_of(model).target.is_whole


def target(model, rows, seed=0):
    """Return outcomes of the right kind, otherwise arbitrary."""
    rng = np.random.default_rng(seed)
    if model in ("logistic", "softmax"):
        return rng.choice(CLASSES[: 3 if model == "softmax" else 2], rows).astype(object)
    return rng.poisson(3, rows) if is_count(model) else rng.normal(100, 5, rows)


def made_forecast(model, *, shift=0.0, columns=None, **given):
    """Return draws around `TRUTH` with what `isotherm sample` records. The last chain is off by `shift` sd."""
    columns = table(100) if columns is None else columns
    given = options(model) | given
    prior = Prior(degrees_of_freedom=FREEDOM)
    problem = regression(model, columns | {"y": target(model, 100)}, "y", FEATURES, prior=prior, **given)
    shape = problem.init["coefficients"].shape
    base = made_draws(int(np.prod(shape)) - 1, shift=shift)
    z = base.posterior["coefficients"].reshape(CHAINS, LENGTH, *shape)
    posterior = {"coefficients": TRUTH + SPREAD * z}
    if model == "softmax":
        posterior["coefficients"][:, :, 1] *= -2
    for auxiliary in family_of(model).auxiliaries:
        posterior[auxiliary.name] = 0.5 * base.posterior["sigma"]
    each = lambda f: {name: f(x) for name, x in posterior.items()}
    ones = each(lambda x: np.ones_like(x[:, 0]))
    moments = Moments(base.moments.count, each(lambda x: x.mean(axis=1)), each(lambda x: x.var(axis=1)), ones)
    about = dataclasses.replace(base.about, model=problem.description, title=f"Regression, {model}, of y")
    return dataclasses.replace(base, posterior=posterior, moments=moments, about=about, labels=problem.labels)


def flat(draws):
    """Return coefficients (draw, ...) and scale (draw, 1), chains end to end."""
    ends = {name: x.reshape(-1, *x.shape[2:]) for name, x in draws.posterior.items()}
    b = ends.pop("coefficients")
    return b, (next(iter(ends.values()))[:, None] if ends else None)


def expected(model, draws, columns):
    """Return the expected response, (draw, row), or the probabilities, (draw, row, class)."""
    b, _ = flat(draws)
    ones = np.ones(len(columns["age"]))
    X = np.stack([ones, columns["age"], columns["dose"], columns["sex"] == "m"], axis=1).astype(float)
    if model == "softmax":
        scores = np.einsum("mck,nk->mnc", b, X)
        return scipy.special.softmax(np.concatenate([0 * scores[..., :1], scores], axis=2), axis=2)
    eta = b @ X.T + columns["known"]
    if model == "logistic":
        return scipy.special.expit(eta)
    return columns["years"] * np.exp(eta) if is_count(model) else eta


def family(model, draws, columns):
    """Return SciPy's distribution of a new observation at each draw."""
    center, scale = expected(model, draws, columns), flat(draws)[1]
    if model == "linear":
        return scipy.stats.norm(center, scale)
    if model == "student-t":
        return scipy.stats.t(FREEDOM, center, scale)
    if model == "poisson":
        return scipy.stats.poisson(center)
    return scipy.stats.nbinom(1 / scale, 1 / (1 + center * scale))
