"""As few draws as a precision takes."""

import warnings

import numpy as np
from jaxtyping import Float

from isotherm.draws import Draws
from isotherm.draws.convergence import mean_sizes
from isotherm.errors import IsothermWarning, must
from isotherm.prediction.blocks import chosen

_FEWEST = 100  # draws, so that there are some beyond the ends of an interval


def check_precision(precision: float | None) -> None:
    """Refuse what is not a share of a standard deviation."""
    if precision is not None and not 0 < precision < 1:
        raise must("precision", "a share of the posterior sd, between 0 and 1", precision)


def thinned(draws: Draws, values: Float[np.ndarray, "draw ..."], precision: float) -> Draws:
    """Return evenly spaced draws, as few as give means with a Monte Carlo error of `precision` posterior sd.

    `values` are some predictions at all draws, chains end to end. Their autocorrelations are taken to fall
    geometrically, at the rate that gives the least effective size among them. If all draws are too few, they are
    returned with a warning.
    """
    chains, length = draws.num_chains, draws.num_draws
    flat = np.asarray(values, np.float64).reshape(chains, length, -1)
    varies = np.ptp(flat, axis=(0, 1)) > 0
    if length < 4 or not varies.any():
        return draws
    effective = mean_sizes(np.moveaxis(flat[..., varies], 2, 0))
    if not np.isfinite(effective).all():
        return draws
    total = chains * length
    time = max(1.0, total / float(effective.min()))  # the integrated autocorrelation time, in draws
    counts = np.arange(1, length + 1)  # of draws per chain
    rho = ((time - 1) / (time + 1)) ** (length / counts)
    reached = ((1 + rho) / (1 - rho) / (chains * counts)) ** 0.5
    if reached[-1] > precision:
        warnings.warn(
            f"`precision` of {precision:g} posterior sd takes more draws than there are: all {total:,} are used, "
            f"which give {reached[-1]:.2g}. Sample more draws for a smaller error.",
            IsothermWarning,
            stacklevel=3,
        )
        return draws
    count = int(counts[np.argmax(reached <= precision)])
    return chosen(draws, min(total, max(chains * count, _FEWEST + -_FEWEST % chains)))
