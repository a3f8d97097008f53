"""Means over correlated draws, with errors, for many quantities at once."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

_BATCHES, _LENGTH = (
    32,
    16,
)  # of each chain, at most, whose means are taken for independent; draws of one, at least
_CHANCE = 1e-3  # of one false alarm among all quantities that are looked at together


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Numbers and their standard errors, and the degrees of freedom of those."""

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
        """The largest value of those that stand out; where none does, the one farthest from zero for its error."""
        distance = np.nan_to_num(np.abs(self.value) / np.maximum(self.error, 1e-300), nan=-1.0)
        out = distance > significant(len(self.value), self.freedom)
        return int(np.argmax(np.where(out, np.abs(self.value), -1.0) if out.any() else distance))

    def stands_out(self, i: int) -> bool:
        """Whether one value differs from zero, given that it was picked from all of them."""
        return bool(abs(self.value[i]) > significant(len(self.value), self.freedom) * self.error[i])


def joined(parts: Sequence[Estimate]) -> Estimate:
    """One after the other."""
    value, error = (np.concatenate([getattr(p, name) for p in parts]) for name in ("value", "error"))
    return Estimate(value, error, min(p.freedom for p in parts))


def significant(tests: int, freedom: int) -> float:
    """Standard errors that none of so many numbers exceeds, but for a chance of one in a thousand (Student's t)."""
    from scipy.special import stdtrit  # as jax has it

    return float(-stdtrit(freedom, _CHANCE / (2 * tests)))


def mean(x: Float[np.ndarray, "chain draw k"]) -> Estimate:
    """The mean over chains and draws, its error by the means of batches of each chain.

    Of autocorrelation much longer than a batch it knows nothing: R-hat does.
    """
    chains, draws = x.shape[:2]
    batches = max(1, min(_BATCHES, draws // _LENGTH))
    length = draws // batches
    parts = x[:, : batches * length].reshape(chains * batches, length, -1).mean(axis=1)
    if len(parts) < 2:
        return Estimate(parts.mean(axis=0), np.full(parts.shape[1], math.inf), 1)
    error = parts.std(axis=0, ddof=1) / len(parts) ** 0.5
    return Estimate(x.mean(axis=(0, 1)), error, len(parts) - 1)
