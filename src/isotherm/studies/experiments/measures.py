"""Accuracy and speed of a chain: histogram error, its share due to chance, and autocorrelation time."""

import numpy as np

from isotherm.models.gaussian import Marginal

BINS = 20
HALF_WIDTH = 4.0  # in standard deviations of the exact marginal


def bin_edges(marginal: Marginal, *, bins: int = BINS, half_width: float = HALF_WIDTH) -> np.ndarray:
    """Return edges of equal bins spanning the exact mean ± `half_width` exact standard deviations."""
    return marginal.mean() + marginal.std() * np.linspace(-half_width, half_width, bins + 1)


def bin_probabilities(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the share of all draws that falls in each bin. Draws outside every bin count in the total."""
    return np.histogram(x, edges)[0] / len(x)


def histogram_rmse(x: np.ndarray, marginal: Marginal) -> float:
    """Return the root mean square, over the bins, of the error of the bin probability."""
    edges = bin_edges(marginal)
    return float(np.sqrt(np.mean((bin_probabilities(x, edges) - np.diff(marginal.cdf(edges))) ** 2)))


def chance_rmse(x: np.ndarray, marginal: Marginal, *, blocks: int = 25) -> float:
    """Estimate the `histogram_rmse` of an unbiased chain with the same autocorrelation, from block averages.

    Blocks must be much longer than the autocorrelation time. Any larger error of `x` is bias.
    """
    edges = bin_edges(marginal)
    p = np.stack([bin_probabilities(block, edges) for block in np.array_split(x, blocks)])
    return float(np.sqrt(np.mean(p.var(axis=0, ddof=1) / blocks)))


def autocorrelations(x: np.ndarray) -> np.ndarray:
    """Return rho_0 = 1, rho_1, ... of a series, computed by FFT with divisor n at every lag."""
    x = np.asarray(x, np.float64) - np.mean(x, dtype=np.float64)
    size = 1 << (2 * len(x) - 1).bit_length()  # zero-padded, so that the ends do not wrap around
    power = np.abs(np.fft.rfft(x, size)) ** 2
    covariance = np.fft.irfft(power, size)[: len(x)]
    return covariance / covariance[0]


def autocorrelation_time(x: np.ndarray) -> float:
    """Return 1 + 2 sum of rho_k up to the first negative rho_k: the number of steps worth one independent draw."""
    rho = autocorrelations(x)
    negative = np.flatnonzero(rho < 0)
    end = negative[0] if len(negative) else len(rho)
    return float(1 + 2 * np.sum(rho[1:end]))
