"""What an estimate of C tends to: what its kind of covariance keeps of the mean noise, from the definitions."""

from collections.abc import Callable

import numpy as np

from isotherm.covariance import Covariance, Dense, Diagonal, DiagonalLowRank, MatrixFree

_ROUNDS = 50


def kept(covariance: Covariance | None, C: np.ndarray, m: np.ndarray) -> np.ndarray | None:
    """The limit of the estimate of C, under diagonal mass m; `None` where it is not known here."""
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
    """The leading directions u of the whitened noise, and beside them a diagonal, such that u'C_hat u = u'C u."""
    scale = np.sqrt(np.outer(m, m))
    values, vectors = np.linalg.eigh(C / scale)
    values, vectors = values[-rank:], vectors[:, -rank:]
    added, whole = values, np.diag(C / scale)
    for _ in range(_ROUNDS):  # what a direction adds is what the diagonal that is left has not
        rest = np.maximum(whole - vectors**2 @ added, 0)
        added = np.maximum(values - rest @ vectors**2, 0)
    return ((vectors * added) @ vectors.T + np.diag(whole - vectors**2 @ added)) * scale


def inverted(covariance: Covariance | None) -> Callable[[np.ndarray], np.ndarray]:
    """What of S stands in the inverse of the symmetric scheme."""
    if isinstance(covariance, MatrixFree):
        return lambda S: S * np.eye(S.shape[-1])
    return lambda S: S
