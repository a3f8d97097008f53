"""Statistics of a target that are compared with those of replicated data, by name."""

from collections.abc import Callable, Mapping

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]  # of the last axis

_MEAN: Mapping[str, Statistic] = {"mean": lambda x: x.mean(axis=-1, dtype=np.float64)}
_SPREAD: Mapping[str, Statistic] = {"standard deviation": lambda x: x.std(axis=-1, dtype=np.float64)}
_TAILS: Mapping[str, Statistic] = {
    "1 % quantile": lambda x: np.quantile(x, 0.01, axis=-1),
    "99 % quantile": lambda x: np.quantile(x, 0.99, axis=-1),
}
_MIDDLE: Mapping[str, Statistic] = {
    "width of the middle half": lambda x: np.subtract(*np.quantile(x, (0.75, 0.25), axis=-1))
}
_COUNTS: Mapping[str, Statistic] = {
    "share of zeros": lambda x: np.mean(x == 0, axis=-1),
    "largest": lambda x: x.max(axis=-1),
}

OF_NUMBERS = {**_MEAN, **_SPREAD, **_TAILS}
OF_LONG_TAILS = {**_MEAN, **_TAILS, **_MIDDLE}  # whose sd varies without bound
OF_COUNTS = {**_MEAN, **_SPREAD, **_COUNTS}
