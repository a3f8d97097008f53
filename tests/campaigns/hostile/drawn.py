"""Case i of a seed: its kind, and then everything about it, follow from the two numbers."""

import warnings

import numpy as np

from .case import Case
from .inputs import data, init
from .likelihoods import likelihood
from .places import place, seed
from .schedules import schedule
from .settings import count, setting

KINDS = (
    (data, 34),
    (init, 15),
    (setting, 25),
    (count, 8),
    (schedule, 7),
    (seed, 4),
    (likelihood, 6),
    (place, 1),
)


def case(seed: int, number: int) -> Case:
    """Return a case."""
    rng = np.random.default_rng([seed, number])
    weights = np.array([weight for _, weight in KINDS], float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries whose objects are made
        return KINDS[rng.choice(len(KINDS), p=weights / weights.sum())][0](rng)
