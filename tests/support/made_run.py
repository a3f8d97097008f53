"""Made-up draws with everything that a report shows."""

import numpy as np

from isotherm.draws import Draws, Moments
from isotherm.draws.record import About, Reason
from isotherm.judging.diagnosis import Block, Diagnosis, Thermostat
from support.made import made_record

CHAINS, LENGTH = 4, 200


def made_draws(columns=6, *, shift=0.0, interrupted=False):
    """Return draws of an intercept, `columns` coefficients and a scale; the last chain is off by `shift` sd."""
    rng = np.random.default_rng(0)
    halves = rng.normal(size=(CHAINS, 2, LENGTH // 2, columns + 1))
    halves -= halves.mean(axis=2, keepdims=True)  # R-hat compares halves of chains
    b = (halves / halves.std(axis=2, keepdims=True)).reshape(CHAINS, LENGTH, columns + 1)
    b[-1] += shift
    posterior = {"coefficients": b, "sigma": np.exp(0.1 * rng.normal(size=(CHAINS, LENGTH)))}
    mean = {name: x.mean(axis=1) for name, x in posterior.items()}
    variance = {name: x.var(axis=1) for name, x in posterior.items()}
    heat = {name: np.ones_like(x) for name, x in mean.items()}
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
        record=made_record(
            num_data=12345,
            num_parameters=columns + 2,
            num_chains=CHAINS,
            num_draws=LENGTH,
            batch_size=32,
            interrupted=interrupted,
            s=0.01,
            reasons=(Reason("step_size", "0.5", "0.7 over the stiffest frequency, 1.4"),),
            setup_passes=12.0,
            setup_seconds=3.0,
        ),
        labels={"coefficients": [["intercept", *names]]},
        about=About(
            title="Linear regression of y",
            model={"model": "linear", "target": "y", "features": names, "levels": {"sex": ["f", "m"]}},
            data={"file": "patients.csv", "rows": 12345, "columns": columns + 1, "sha256": "0f" * 32},
        ),
    )


def made_diagnosis(draws):
    """Return what `iso.diagnose` would return for them."""
    summary = draws.summary()
    blocks = tuple(
        Block(name, 1, 1.0, 1500.0, float("nan"), None, 1.01, 0.02, 0.01, 0.03, None, None)
        for name in draws.flat()
    )
    verdict = summary.verdict if summary.problems else "No fault found: the chains agree."
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
