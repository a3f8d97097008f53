"""Tables for regressions by formula, and made-up draws of their parameters."""

import dataclasses

import jax
import numpy as np

from isotherm.draws import Moments
from support.made_run import CHAINS, LENGTH, made_draws


def table(rows=60, seed=0):
    """Return columns: numbers, two categories, levels of groups, and targets of several kinds."""
    rng = np.random.default_rng(seed)
    x = rng.normal(3, 2, rows)
    return {
        "x": x,
        "z": rng.uniform(size=rows),
        "sex": rng.choice(["f", "m"], rows).astype(object),
        "region": np.array([f"r{k}" for k in rng.integers(5, size=rows)], object),
        "year": rng.integers(2020, 2023, rows),
        "area": rng.uniform(0.5, 2, rows),
        "trials": rng.integers(5, 9, rows),
        "y": 1 + 0.3 * x + rng.normal(size=rows),
        "count": rng.poisson(3, rows),
        "successes": rng.integers(0, 5, rows),
        "yes": rng.integers(0, 2, rows),
        "grade": rng.integers(1, 4, rows),
    }


def made(regression, seed=0):
    """Return draws with what `isotherm sample` records. Parameters are around the start, positive where they must be."""
    rng = np.random.default_rng(seed)
    constraint = regression.posterior.constraint
    free = jax.tree.map(np.asarray, constraint.free(regression.init))

    def one(x):
        return (x + 0.3 * rng.standard_normal((CHAINS * LENGTH, *x.shape))).astype(np.float32)

    noisy = jax.tree.map(one, free)
    flat = jax.tree.map(np.asarray, jax.vmap(constraint.constrained)(noisy))
    posterior = {name: x.reshape(CHAINS, LENGTH, *x.shape[1:]) for name, x in flat.items()}
    base = made_draws(1)
    each = lambda f: {name: f(x) for name, x in posterior.items()}
    ones = each(lambda x: np.ones_like(x[:, 0]))
    moments = Moments(base.moments.count, each(lambda x: x.mean(axis=1)), each(lambda x: x.var(axis=1)), ones)
    about = dataclasses.replace(base.about, model=regression.description, title="Regression")
    return dataclasses.replace(
        base, posterior=posterior, moments=moments, about=about, labels=regression.labels
    )


def flat(draws):
    """Return parameters with chains end to end, in float64."""
    return {name: x.reshape(-1, *x.shape[2:]).astype(np.float64) for name, x in draws.posterior.items()}
