"""Checks of probabilities and labels, in every form that the scores accept."""

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from isotherm.errors import must

_ROUNDING = 1e-3  # by which the sum of the probabilities of a row may differ from 1


def checked(
    probabilities: Array | np.ndarray, y: Array | np.ndarray
) -> tuple[Float[np.ndarray, "row class"], Int[np.ndarray, " row"]]:
    """The probability of each class and the class of each row, in one form for two or more classes."""
    p, labels = np.asarray(probabilities, np.float64), np.asarray(y)
    repair = "Predict probabilities, not scores: `jax.nn.sigmoid` or `jax.nn.softmax`."
    if p.ndim not in (1, 2) or p.size == 0 or (p.ndim == 2 and p.shape[1] < 2):
        raise must("probabilities", "of shape (row,) for two classes or (row, class)", np.asarray(p))
    if not np.all((p >= 0) & (p <= 1 + 1e-6)):
        raise must("probabilities", "between 0 and 1", float(p[~((p >= 0) & (p <= 1 + 1e-6))][0]), repair)
    if labels.shape != p.shape[:1]:
        raise must("y", f"one label for each of {len(p)} rows", labels)
    p = np.minimum(p, 1.0)
    if p.ndim == 1:
        p = np.column_stack([1 - p, p])
        known = set(np.unique(labels).tolist())
        if not (known <= {0, 1} or known <= {-1, 1}):
            raise must("y", "0 or 1, or -1 or 1, for two classes", sorted(known)[:5])
        return p, (labels > 0).astype(int)
    if not np.all(fits := np.abs(p.sum(axis=1) - 1) < _ROUNDING):
        raise must("probabilities", "of sum 1 in each row", float(p[~fits][0].sum()), repair)
    if not np.all((labels == np.round(labels)) & (labels >= 0) & (labels < p.shape[1])):
        raise must("y", f"an integer from 0 to {p.shape[1] - 1}", np.unique(labels)[:5].tolist())
    return p, labels.astype(int)


def events(
    probabilities: Array | np.ndarray, y: Array | np.ndarray
) -> tuple[Float[np.ndarray, " row"], Bool[np.ndarray, " row"], str]:
    """One event per row: its probability, whether it came true, and a description."""
    p, labels = checked(probabilities, y)
    if np.ndim(probabilities) == 1:
        return p[:, 1], labels == 1, "probability of the second class"
    return p.max(axis=1), labels == p.argmax(axis=1), "probability of the most probable class"
