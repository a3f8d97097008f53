"""A published multilevel model: the posterior of brms, which had the same priors.

Every parameter is compared: coefficients, scales, correlations and the effects of groups. Differences of means and of
standard deviations are divided by the Monte Carlo errors of both runs. All 40 of a model are below 4.5 with a
probability of 0.9997; the seed is fixed.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "published"
SPEC = importlib.util.spec_from_file_location("published_compare", FOLDER / "compare.py")
compare = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = compare  # of which a dataclass asks its module
SPEC.loader.exec_module(compare)

LIMIT = 4.5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cbpp"])
def test_the_posterior_is_that_of_brms(name):
    entry = compare.reference()[name]
    draws, _ = compare.run(entry, seed=0)
    found = compare.differences(entry["brms"], compare.moments_of(draws))
    assert len(found) == len(entry["brms"])
    wrong = [x for x in found if max(abs(x.in_errors), abs(x.sd_in_errors)) > LIMIT]
    assert not wrong
