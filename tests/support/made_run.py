"""Draws that no sampler drew, with all that a report shows."""

import numpy as np

from isotherm.draws import Draws, Moments
from isotherm.judging.record import Block, Diagnosis, Thermostat

CHAINS, LENGTH = 4, 200


def made_draws(columns=6, *, shift=0.0, interrupted=False):
    """Normal draws of an intercept, `columns` coefficients and a scale; the last chain is off by `shift` sd."""
    rng = np.random.default_rng(0)
    halves = rng.normal(size=(CHAINS, 2, LENGTH // 2, columns + 1))
    halves -= halves.mean(axis=2, keepdims=True)  # R-hat compares halves of chains
    b = (halves / halves.std(axis=2, keepdims=True)).reshape(CHAINS, LENGTH, columns + 1)
    b[-1] += shift
    posterior = {"coefficients": b, "sigma": np.exp(0.1 * rng.normal(size=(CHAINS, LENGTH)))}
    mean = {name: x.mean(axis=1) for name, x in posterior.items()}
    variance = {name: x.var(axis=1) for name, x in posterior.items()}
    heat = {name: np.ones_like(x) for name, x in mean.items()}
    sampler = {"name": "CCAdL", "scheme": "symmetric", "step_size": 0.5, "friction": 1.0, "thermal_mass": 8.0}
    names = [f"a_rather_long_name_of_a_column_{i}" for i in range(columns)]
    return Draws(
        posterior=posterior,
        stats={
            "kinetic_temperature": 1 + 0.1 * rng.normal(size=(CHAINS, LENGTH)),
            "xi": 1 + 0.3 * rng.normal(size=(CHAINS, LENGTH)),
            "configurational_temperature": np.ones(CHAINS),
        },
        moments=Moments(np.full(CHAINS, LENGTH), mean, variance, heat),
        status=("completed 1000 steps",) * CHAINS,
        lengths=np.full(CHAINS, LENGTH),
        complete=np.ones(CHAINS, bool),
        settings={
            "sampler": sampler | {"covariance": {"name": "Dense"}, "temperature": 1.0},
            "num_data": 12345,
            "num_parameters": columns + 2,
            "num_draws": LENGTH,
            "batch_size": 32,
            "interrupted": interrupted,
            "s": 0.01,
            "seconds": 1.0,
            "labels": {"coefficients": [["intercept", *names]]},
            "versions": {"isotherm": "0.1.0", "jax": "0.10.2"},
            "warmup": {
                "passes": 12.0,
                "seconds": 3.0,
                "choices": {"step_size": {"value": "0.5", "why": "0.7 over the stiffest frequency, 1.4"}},
            },
            "model": {"model": "linear", "target": "y", "features": names, "levels": {"sex": ["f", "m"]}},
            "data": {"file": "patients.csv", "rows": 12345, "columns": columns + 1, "sha256": "0f" * 32},
            "title": "Linear regression of y",
        },
    )


def made_diagnosis(draws):
    """What `iso.diagnose` would return of them."""
    summary = draws.summary()
    blocks = tuple(
        Block(name, 1, 1.0, 1500.0, float("nan"), None, 1.01, 0.02, 0.01, 0.03, None, None)
        for name in draws.flat()
    )
    verdict = summary.verdict if summary.problems else "No fault found: chains agree."
    return Diagnosis(
        ok=not summary.problems,
        verdict=verdict,
        problems=summary.problems,
        notes=("A note <about> xi.",),
        blocks=blocks,
        thermostat=Thermostat(1.0, 0.01, 1.0, 0.0),
        summary=summary,
        heat=None,
        halving=None,
        modes=None,
    )
