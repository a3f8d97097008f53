"""The rows that a batch needs, and the levels whose rows are better used in every step."""

import numpy as np
from jaxtyping import Array, Bool

from isotherm.tuning.groups.noise import LevelNoise, Moved

SMALLEST = 32  # rows in a batch
QUIET, HEATED = 0.15, 0.02  # limits of s, and of the rise of a variance by noise, as in `tuning.estimator`
# Limit of the rise of the temperature in the tails of a level. Noise that grows in proportion to the distance makes
# tails fall off as a power, and a level far out can take the scale of its group with it. At a rise of 1 at 8 sd the
# density there is that of a normal distribution at 6.7.
LOOSE = 1.0
ENOUGH = 8  # all rows are used if a step would use more than one in this many
ENOUGH_OF_A_STREAM = 2  # the same for rows that are not in memory, of which a step cannot use all
USUAL = 0.7  # step size and friction by which it is decided which rows are used in every step
_MOST = 2.0**31
_LESS = 0.7  # of the rows of a step, above which no rows are used in every step


def rows_needed(
    mean: Array | np.ndarray | float,
    heat: Array | np.ndarray | float,
    tails: Array | np.ndarray | float,
    h: float,
    A: float,
) -> np.ndarray:
    """Return the rows in a batch that keep s and the rises of a variance and of the tails below their limits.

    There are no more than 2^31, also where remainders are not finite.
    """
    by_s, by_heat = h * h * np.asarray(mean) / QUIET, h * np.asarray(heat) / (2 * A * HEATED)
    rows = np.maximum(np.maximum(by_s, by_heat), h * np.asarray(tails) / (2 * A * LOOSE))
    return np.where(rows < _MOST, rows, _MOST)


def few_rows(noise: dict[Moved, LevelNoise], num_data: int) -> dict[int, Bool[np.ndarray, " _"]]:
    """Return the levels whose rows are best used in every step, by factor; empty if there are none.

    They are those that call for the largest batches. With their rows left out, all others are drawn more often.
    """
    needs, counts, roots, sizes = [], [], [], []
    factors = sorted({moved.factor for moved in noise})
    if not factors:
        return {}
    for factor in factors:
        effects = [x for moved, x in noise.items() if moved.factor == factor]
        needs.append(np.max([rows_needed(x.mean, x.heat, x.tails, USUAL, USUAL) for x in effects], axis=0))
        counts.append(effects[0].counts)
        roots.append(effects[0].roots)
        sizes.append(len(effects[0].counts))
    order = np.argsort(-np.concatenate(needs), kind="stable")
    before = lambda x: np.append(0.0, np.cumsum(np.concatenate(x)[order]))
    left = np.maximum(1 - before(roots) / max(float(np.sum(roots[0])), 1e-300), 0)
    batch = np.maximum(np.append(np.concatenate(needs)[order], 0.0) * left, SMALLEST)
    total = before(counts) + batch
    best = int(np.argmin(total))
    if not total[best] < min(_LESS * total[0], num_data / ENOUGH):
        return {}
    chosen = np.zeros(len(order), bool)
    chosen[order[:best]] = True
    levels = zip(factors, np.split(chosen, np.cumsum(sizes)[:-1]), strict=True)
    return {factor: mask for factor, mask in levels if mask.any()}
