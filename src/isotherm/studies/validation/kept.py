"""The limit of an estimate of C: the part of the mean noise that each kind of covariance keeps."""

from collections.abc import Callable

import numpy as np

from isotherm.covariance import Covariance, Dense, Diagonal, DiagonalLowRank, MatrixFree

_ITERATIONS = 50  # of the fixed point in `_low_rank`


def kept(covariance: Covariance | None, C: np.ndarray, m: np.ndarray) -> np.ndarray | None:
    """Return the limit of the estimate of C under diagonal mass m, or `None` if it is not known here."""
    match covariance:
        case None:
            return np.zeros_like(C)
        case Diagonal():
            return np.diag(np.diag(C))
        case Dense() | MatrixFree():
            return C
        case DiagonalLowRank(rank=rank):
            return _low_rank(C, m, rank)
    return None


def _low_rank(C: np.ndarray, m: np.ndarray, rank: int) -> np.ndarray:
    """Return the leading directions u of the whitened noise plus a diagonal, such that u'C_hat u = u'C u."""
    scale = np.sqrt(np.outer(m, m))
    values, vectors = np.linalg.eigh(C / scale)
    values, vectors = values[-rank:], vectors[:, -rank:]
    added, diagonal = values, np.diag(C / scale)
    for _ in range(_ITERATIONS):  # a direction adds what the remaining diagonal lacks
        remaining = np.maximum(diagonal - vectors**2 @ added, 0)
        added = np.maximum(values - remaining @ vectors**2, 0)
    return ((vectors * added) @ vectors.T + np.diag(diagonal - vectors**2 @ added)) * scale


def inverted(covariance: Covariance | None) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that maps S to the part of it that the symmetric scheme inverts."""
    if isinstance(covariance, MatrixFree):
        return lambda S: S * np.eye(S.shape[-1])
    return lambda S: S
