"""Grand means over independent chains, their standard errors, and the tolerance that follows from them."""

import dataclasses

import numpy as np
from scipy import stats


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A grand mean over independent chains and its standard error."""

    value: np.ndarray
    se: np.ndarray

    @staticmethod
    def of(per_chain: np.ndarray) -> "Estimate":
        """Return the estimate from one value (or array of values) per chain."""
        x = np.asarray(per_chain, np.float64)
        return Estimate(x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(len(x)))

    def map(self, scale: np.ndarray | float, shift: np.ndarray | float = 0.0) -> "Estimate":
        """Return `scale * self + shift` for exact numbers."""
        return Estimate(scale * self.value + shift, np.abs(scale) * self.se)

    def z(self, theory: np.ndarray | float) -> np.ndarray:
        """Return the departure from theory in standard errors."""
        return (self.value - theory) / self.se


def extrapolated(coarse: Estimate, fine: Estimate) -> Estimate:
    """Return 2 x(h/2) - x(h), free of first-order bias, for independent estimates at h and h/2."""
    return Estimate(2 * fine.value - coarse.value, np.sqrt(4 * fine.se**2 + coarse.se**2))


def assert_agrees(
    estimate: Estimate,
    theory: np.ndarray | float,
    what: str,
    *,
    chains: int,
    seed: int,
    alpha: float = 1e-4,
    bias: np.ndarray | float = 0.0,
) -> None:
    """Fail if an entry departs from theory by more than Monte Carlo error explains.

    `alpha` is the chance that a right sampler fails under another seed (Student's t over chains, Bonferroni
    over entries). `bias` is a bound on the discretisation error that the caller has derived; it widens the
    tolerance.
    """
    t = stats.t.ppf(1 - alpha / (2 * np.size(estimate.value)), chains - 1)
    error = np.abs(estimate.value - theory)
    assert np.all(np.isfinite(estimate.value)), f"{what} is not finite (seed {seed}): {estimate.value}"
    assert np.all(error <= t * estimate.se + bias), (
        f"{what} (seed {seed}): measured {estimate.value}, theory {theory}, z {estimate.z(theory)}, "
        f"allowed |z| {t:.2f} + bias {bias}"
    )
