"""Regressions with made-up draws, and their predictions in 64 bits."""

import dataclasses

import numpy as np

from isotherm.draws import Moments
from isotherm.tables.families import Prior, family_of
from isotherm.tables.regressions import regression
from support import laws
from support.laws import CLASSES, FREEDOM, SCALES, target
from support.made_run import CHAINS, LENGTH, made_draws

TRUTH = np.array([-1.0, 0.02, 0.1, -0.5])
SPREAD = np.array([0.2, 0.003, 0.02, 0.1])
FEATURES = ["age", "dose", "sex"]


def table(rows, seed=0):
    """Return columns with means away from zero and different units."""
    rng = np.random.default_rng(seed)
    return {
        "age": rng.normal(50, 12, rows),
        "dose": rng.gamma(2, 3, rows),
        "sex": rng.choice(["f", "m"], rows).astype(object),
        "years": rng.uniform(0.5, 2, rows),
        "known": rng.normal(size=rows),
        "trials": rng.integers(20, 30, rows),
    }


def options(model):
    """Return offset and exposure, if the model can have them, and what it needs."""
    given = {"offset": "known", "exposure": "years", "trials": "trials", "order": CLASSES}
    return {role: name for role, name in given.items() if role in family_of(model).roles}


def is_count(model):
    """Return whether the model is one of counts."""
    return family_of(model).target.is_whole


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
        scale, axis = SCALES.get(auxiliary.name, 1.0), (...,) if auxiliary.elements is None else (..., None)
        posterior[auxiliary.name] = (0.5 * scale * base.posterior["sigma"])[axis]
    each = lambda f: {name: f(x) for name, x in posterior.items()}
    ones = each(lambda x: np.ones_like(x[:, 0]))
    moments = Moments(base.moments.count, each(lambda x: x.mean(axis=1)), each(lambda x: x.var(axis=1)), ones)
    about = dataclasses.replace(base.about, model=problem.description, title=f"Regression, {model}, of y")
    return dataclasses.replace(base, posterior=posterior, moments=moments, about=about, labels=problem.labels)


def flat(draws):
    """Return coefficients (draw, ...) and the other parameters (draw, 1, ...), chains end to end."""
    ends = {name: x.reshape(-1, *x.shape[2:]) for name, x in draws.posterior.items()}
    return ends.pop("coefficients"), {name: x[:, None] for name, x in ends.items()}


def predictor(model, draws, columns):
    """Return the linear predictor, (draw, row), or the scores of all classes, (draw, row, class)."""
    b, _ = flat(draws)
    ones = np.ones(len(columns["age"]))
    X = np.stack([ones, columns["age"], columns["dose"], columns["sex"] == "m"], axis=1).astype(float)
    if family_of(model).per_class:
        scores = np.einsum("mck,nk->mnc", b, X)
        return np.concatenate([0 * scores[..., :1], scores], axis=2)
    exposure = np.log(columns["years"]) if "exposure" in family_of(model).roles else 0.0
    return b @ X.T + columns["known"] + exposure


def expected(model, draws, columns):
    """Return the expected response, (draw, row), or the probabilities, (draw, row, class)."""
    return laws.response(model, predictor(model, draws, columns), flat(draws)[1], columns)


def family(model, draws, columns):
    """Return SciPy's distribution of a new observation at each draw."""
    return laws.law(model, predictor(model, draws, columns), flat(draws)[1], columns)
