"""Tolerances derived from Monte Carlo error, shared by the statistical tests.

A test that compares one number uses `LIMIT` standard errors: a correct library fails it with probability 6e-7
at a new seed. A test that compares a whole table uses a chi-square statistic at the same level. Seeds are
fixed, so what passes once passes always.
"""

import numpy as np
from scipy import stats

LIMIT = 5.0
FALSE_ALARM = 2 * stats.norm.sf(LIMIT)


def z_score(samples, expected) -> float:
    """Return how many standard errors the mean of independent `samples` is from `expected`."""
    samples = np.asarray(samples, np.float64)
    error = samples.std(ddof=1) / np.sqrt(len(samples))
    return float((samples.mean() - expected) / error)


def assert_mean(samples, expected) -> None:
    """Assert that the mean of independent samples is `expected`, to `LIMIT` standard errors."""
    assert abs(z_score(samples, expected)) < LIMIT, (np.mean(samples), expected, z_score(samples, expected))


def assert_chi_square(statistic: float, degrees: int) -> None:
    """Assert that a chi-square statistic is neither too large nor implausibly small."""
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], degrees)
    assert low < statistic < high, (statistic, degrees)


def assert_uniform(cells, num_cells: int) -> None:
    """Assert that independent draws of a cell number fall into all cells with equal probability."""
    counts = np.bincount(np.asarray(cells), minlength=num_cells)
    assert len(counts) == num_cells
    expected = len(cells) / num_cells
    assert expected >= 5, "too few draws for the chi-square approximation"
    assert_chi_square(float(np.sum((counts - expected) ** 2) / expected), num_cells - 1)
