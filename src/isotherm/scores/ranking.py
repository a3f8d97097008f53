"""How well predicted probabilities separate two classes."""

import math

import numpy as np
from jaxtyping import Array

from isotherm.errors import must
from isotherm.scores.labels import checked


def auc(probabilities: Array | np.ndarray, y: Array | np.ndarray) -> tuple[float, float]:
    """Return the area under the ROC curve, and its standard error by DeLong's method.

    It is the probability that a row of the second class has a higher predicted probability than one of the first,
    with ties counted half: 0.5 by chance alone. `probabilities` are those of the second of two classes, (row,).
    """
    if np.ndim(probabilities) != 1:
        raise must(
            "probabilities", "of shape (row,), those of the second of two classes", np.asarray(probabilities)
        )
    from scipy.stats import rankdata

    p, labels = checked(probabilities, y)
    second, first = p[labels == 1, 1], p[labels == 0, 1]
    if len(second) == 0 or len(first) == 0:
        raise must("y", "labels of both classes", np.unique(labels).tolist())
    ranks = rankdata(np.concatenate([second, first]))
    # The share of the other class that each row is ahead of, or behind.
    ahead = (ranks[: len(second)] - rankdata(second)) / len(first)
    behind = 1 - (ranks[len(second) :] - rankdata(first)) / len(second)
    variance = sum(x.var(ddof=1) / len(x) if len(x) > 1 else math.nan for x in (ahead, behind))
    return float(ahead.mean()), float(np.sqrt(variance))
