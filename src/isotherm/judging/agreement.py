"""Up to which R-hat chains agree, if there are many parameters.

Of many parameters one exceeds any limit by chance, and the more easily the fewer independent draws there are.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri

_FEW = 100  # parameters up to which the limit is the usual one


def r_hats_by_chance(
    within_size: Float[np.ndarray, " number"], chains: int, chance: float
) -> Float[np.ndarray, " number"]:
    """Return what R-hat of any of these parameters exceeds with this probability though chains agree.

    Means of m halves of chains then scatter as independent normal numbers whose variance is that of a draw divided by
    the effective number of draws of a half. Bonferroni's bound is for all parameters, each with two R-hats.
    """
    m = 2 * max(chains, 2)
    return np.sqrt(1 + m / within_size * _largest(m, len(within_size), chance) / (m - 1))


def r_hat_limits(
    within_size: Float[np.ndarray, " number"], chains: int, *, limit: float, chance: float
) -> Float[np.ndarray, " number"]:
    """Return the limit of R-hat for each of many parameters: `limit`, or more where one exceeds that by chance.

    Its distance from 1 is at most as many times that of `limit` as chance gives all of them what it gives a hundred.
    """
    m, number = 2 * max(chains, 2), len(within_size)
    most = _largest(m, number, chance) / _largest(m, min(number, _FEW), chance)
    return np.clip(r_hats_by_chance(within_size, chains, chance), limit, 1 + (limit - 1) * most)


def _largest(m: int, number: int, chance: float) -> float:
    """Return what the largest of as many pairs of chi-square numbers exceeds with this probability."""
    return float(chdtri(m - 1, chance / (2 * max(number, 1))))
