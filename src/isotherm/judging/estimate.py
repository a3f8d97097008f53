"""Means over correlated draws and their standard errors, for many quantities at once."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from isotherm.readable import Readable

_MAX_BATCHES = 32  # per chain; the means of batches are taken as independent
_MIN_LENGTH = 16  # draws in a batch
_FALSE_ALARMS = 1e-3  # probability of a false alarm among all quantities that are tested together


@dataclasses.dataclass(frozen=True, repr=False)
class Estimate(Readable):
    """Numbers, their standard errors, and the degrees of freedom of the errors."""

    value: np.ndarray
    error: np.ndarray
    freedom: int

    def __sub__(self, other: "Estimate") -> "Estimate":
        freedom = min(self.freedom, other.freedom)
        return Estimate(self.value - other.value, np.hypot(self.error, other.error), freedom)

    def __mul__(self, factor: float) -> "Estimate":
        return Estimate(self.value * factor, self.error * abs(factor), self.freedom)

    def __getitem__(self, part: slice) -> "Estimate":
        return Estimate(self.value[part], self.error[part], self.freedom)

    def worst(self) -> int:
        """Return the index of the largest significant value or, without any, of the largest value over its error."""
        distance = np.nan_to_num(np.abs(self.value) / np.maximum(self.error, 1e-300), nan=-1.0)
        clear = distance > significant(len(self.value), self.freedom)
        return int(np.argmax(np.where(clear, np.abs(self.value), -1.0) if clear.any() else distance))

    def stands_out(self, i: int) -> bool:
        """Whether value `i` differs from zero, allowing for its choice from among all of them."""
        return bool(abs(self.value[i]) > significant(len(self.value), self.freedom) * self.error[i])


def joined(parts: Sequence[Estimate]) -> Estimate:
    """Return the parts end to end."""
    value, error = (np.concatenate([getattr(p, name) for p in parts]) for name in ("value", "error"))
    return Estimate(value, error, min(p.freedom for p in parts))


def significant(tests: int, freedom: int) -> float:
    """Return how many standard errors make one of `tests` numbers significant (Student's t).

    If all of them are zero in truth, one exceeds it with a probability of one in a thousand.
    """
    from scipy.special import stdtrit  # SciPy comes with JAX

    return float(-stdtrit(freedom, _FALSE_ALARMS / (2 * tests)))


def mean(x: Float[np.ndarray, "chain draw k"]) -> Estimate:
    """Return the mean over chains and draws, with a standard error from the means of batches of each chain.

    It does not see autocorrelation much longer than a batch. R-hat does.
    """
    chains, draws = x.shape[:2]
    batches = max(1, min(_MAX_BATCHES, draws // _MIN_LENGTH))
    length = draws // batches
    parts = x[:, : batches * length].reshape(chains * batches, length, -1).mean(axis=1)
    if len(parts) < 2:
        return Estimate(parts.mean(axis=0), np.full(parts.shape[1], math.inf), 1)
    error = parts.std(axis=0, ddof=1) / len(parts) ** 0.5
    return Estimate(x.mean(axis=(0, 1)), error, len(parts) - 1)
