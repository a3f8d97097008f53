"""Regressions by formula with made-up draws, for what people read of them."""

import dataclasses

import numpy as np

import isotherm as iso
from isotherm.draws.record import About
from isotherm.tables.priors.parameters import prior_draws
from support.made import made

CHAINS, LENGTH = 2, 100
MIXED = "claims ~ s(age) + sex * km + exposure(years) + (1 + km | region) + (1 | broker)"
TIGHT = {"coefficients": 0.1, "intercept": 0.1, "groups": 0.2, "smooths": 0.3, "predictors": 0.1}


def rows(count, *, regions=6, seed=0):
    """Return columns of every kind: numbers, categories, groups, an exposure, and targets of several kinds."""
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.uniform(18, 80, count),
        "km": rng.gamma(3, 4, count),
        "sex": rng.choice(["f", "m"], count).astype(object),
        "region": np.array([f"r{i:05d}" for i in np.arange(count) % regions], object),
        "broker": rng.integers(0, 4, count),
        "years": rng.uniform(0.5, 1.5, count),
    }
    eta = -1 + 0.01 * columns["age"] + 0.02 * columns["km"]
    return columns | {
        "claims": rng.poisson(np.exp(eta) * columns["years"]),
        "cost": 10 + eta + 0.5 * rng.normal(size=count),
        "ill": np.where(rng.random(count) < 1 / (1 + np.exp(-eta)), "yes", "no").astype(object),
        "grade": np.digitize(eta + rng.logistic(size=count), [-1, 1]),
    }


def drawn(formula, columns, family, *, seed=0, **options):
    """Return draws of a regression from tight priors, as if from a run."""
    prior = iso.tables.families.Prior(**TIGHT)
    model = iso.tables.regression(formula, columns, family=family, prior=prior, progress=False, **options)
    flat = prior_draws(model, CHAINS * LENGTH, np.random.default_rng(seed))
    posterior = {name: x.reshape(CHAINS, LENGTH, *x.shape[1:]) for name, x in flat.items()}
    about = About(f"Regression: {formula}", model.description, {})
    draws = made(posterior, num_data=len(columns["age"]))
    return dataclasses.replace(draws, about=about, labels=model.labels)
