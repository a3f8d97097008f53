"""Tests whether ranks are uniform: the band of Säilynoja, Bürkner & Vehtari (2022), with exact probabilities."""

import functools

import numpy as np


@functools.cache
def band(replicates: int, draws: int, false_alarm: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest allowed number of ranks below 1, 2, ... `draws`.

    Uniform ranks on 0..draws leave the band somewhere with probability at most `false_alarm`.
    """
    low, high = 1e-16, 1.0
    for _ in range(30):
        middle = np.sqrt(low * high)
        outside = 1 - probability_inside(*_intervals(middle, replicates, draws), replicates=replicates)
        low, high = (middle, high) if outside <= false_alarm else (low, middle)
    return _intervals(low, replicates, draws)


def p_value(ranks: np.ndarray, draws: int) -> float:
    """Return the probability that uniform ranks stray, at some point of the curve, as far as these do."""
    replicates, at = len(ranks), np.arange(draws)
    counts = cumulative_counts(ranks, draws)
    below, above = _tails(replicates, draws)
    level = 2 * min(below[counts, at].min(), above[counts, at].min())
    return 1 - probability_inside(*_intervals(level, replicates, draws), replicates=replicates)


def cumulative_counts(ranks: np.ndarray, draws: int) -> np.ndarray:
    """Return the number of ranks below 1, 2, ... `draws`."""
    return np.cumsum(np.bincount(ranks, minlength=draws + 1))[:-1]


def probability_inside(
    lower: np.ndarray, upper: np.ndarray, *, replicates: int, cells: np.ndarray | None = None
) -> float:
    """Return the probability that cumulative counts stay between `lower` and `upper`, both included.

    `cells` are the probabilities of the ranks; `None` means equal. The counts are independent Poisson numbers given
    their sum, so the path is a sum of independent steps and its distribution needs one convolution per rank.
    """
    from scipy import stats

    if cells is None:
        cells = np.full(len(lower) + 1, 1 / (len(lower) + 1))
    means, which = np.unique(replicates * cells, return_inverse=True)
    most = int(means[-1] + 12 * np.sqrt(means[-1])) + 40  # larger steps have probability below 1e-30
    steps = stats.poisson.pmf(np.arange(min(replicates, most) + 1)[None], means[:, None])
    first, weights = 0, np.ones(1)
    for step, a, b in zip(steps[which], (*lower, replicates), (*upper, replicates), strict=True):
        weights = np.convolve(weights, step)[max(a - first, 0) : max(b - first + 1, 0)]
        first = max(a, first)
        if len(weights) == 0:
            return 0.0
    return float(weights.sum() / stats.poisson.pmf(replicates, replicates))


def _intervals(level: float, replicates: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of counts whose smaller binomial tail, doubled, is above `level`, for each rank."""
    below, above = _tails(replicates, draws)
    return (2 * below <= level).sum(axis=0), replicates - (2 * above <= level).sum(axis=0)


@functools.cache
def _tails(replicates: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return P(count <= c) and P(count >= c) for c = 0..replicates (rows) and each rank (columns)."""
    from scipy import stats

    c, share = np.arange(replicates + 1)[:, None], np.arange(1, draws + 1)[None] / (draws + 1)
    return stats.binom.cdf(c, replicates, share), stats.binom.sf(c - 1, replicates, share)
