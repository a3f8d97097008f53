"""How far a chain's histogram is from the exact marginal, how much of that is chance, how slow it is."""

import numpy as np

from isotherm.models.gaussian import Marginal

BINS = 20
HALF_WIDTH = 4.0  # in standard deviations of the exact marginal


def bin_edges(marginal: Marginal, *, bins: int = BINS, half_width: float = HALF_WIDTH) -> np.ndarray:
    """Edges of equal bins over `half_width` exact standard deviations on either side of the exact mean."""
    return marginal.mean() + marginal.std() * np.linspace(-half_width, half_width, bins + 1)


def bin_probabilities(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Share of the draws in each bin; draws outside all bins count in the whole."""
    return np.histogram(x, edges)[0] / len(x)


def histogram_rmse(x: np.ndarray, marginal: Marginal) -> float:
    """Root mean square, over the bins, of the error of the bin's probability."""
    edges = bin_edges(marginal)
    return float(np.sqrt(np.mean((bin_probabilities(x, edges) - np.diff(marginal.cdf(edges))) ** 2)))


def chance_rmse(x: np.ndarray, marginal: Marginal, *, blocks: int = 25) -> float:
    """The `histogram_rmse` of a chain with the same memory but no bias, from the scatter of blocks.

    Blocks must be long against the autocorrelation time. The error of `x` beyond this is bias.
    """
    edges = bin_edges(marginal)
    p = np.stack([bin_probabilities(block, edges) for block in np.array_split(x, blocks)])
    return float(np.sqrt(np.mean(p.var(axis=0, ddof=1) / blocks)))


def autocorrelations(x: np.ndarray) -> np.ndarray:
    """rho_0 = 1, rho_1, ... of a series, by FFT; divisor n at every lag."""
    x = np.asarray(x, np.float64) - np.mean(x, dtype=np.float64)
    size = 1 << (2 * len(x) - 1).bit_length()  # padded, so that the end does not meet the start
    power = np.abs(np.fft.rfft(x, size)) ** 2
    covariance = np.fft.irfft(power, size)[: len(x)]
    return covariance / covariance[0]


def autocorrelation_time(x: np.ndarray) -> float:
    """1 + 2 sum of rho_k up to the first negative one: steps that are worth one independent draw."""
    rho = autocorrelations(x)
    negative = np.flatnonzero(rho < 0)
    end = negative[0] if len(negative) else len(rho)
    return float(1 + 2 * np.sum(rho[1:end]))
