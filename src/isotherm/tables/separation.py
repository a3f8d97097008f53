"""Whether columns tell the two classes of a target apart without an error, so that only the prior bounds them."""

import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linprog

from isotherm.errors import IsothermWarning
from isotherm.text import visible

SEPARATED = "is perfectly separated"
_MOST_COLUMNS = 100
_FIRST, _ADDED = 1000, 1000  # rows with which the search begins, and that it takes from a block it had wrong
_MARGIN = 1e-6  # in standard deviations of the columns
_PASSES = 10

Blocks = Iterator[dict[str, np.ndarray]]


def warn_if_separated(
    blocks: Callable[[], Blocks],
    target: str,
    names: Sequence[str],
    *,
    has_intercept: bool,
    stacklevel: int,
) -> None:
    """Warn if a weighted sum of the columns `x` is larger in all rows with `y` = 1 than in all others.

    `blocks` returns all rows. They are read until those seen cannot be told apart: of nearly all tables, the first
    block.
    """
    if not 0 < len(names) <= _MOST_COLUMNS:
        return
    search = _Search(len(names), has_intercept)
    for _ in range(_PASSES):
        wrong = False
        for block in blocks():
            wrong |= search.see(block["x"], block["y"])
            if not search.may_be_separated:
                return
        if not wrong:
            break
    else:
        return
    if not search.has_both:
        return
    found = [f"`{visible(names[i])}`" for i in search.columns]
    which = (
        found[0]
        if len(found) == 1
        else ", ".join(found[:10]) + (" together" if len(found) <= 10 else ", ...")
    )
    warnings.warn(
        f"`{visible(target)}` {SEPARATED}: {which} tells its two classes apart in every row, so only the "
        "prior bounds the coefficients. Leave a column out that is made from the target, or choose the prior with "
        "care.",
        IsothermWarning,
        stacklevel=stacklevel + 1,
    )


class _Search:
    """Looks for weights whose sum is at least a margin in rows of one class, and at most minus that in the others.

    Weights are those of the largest margin for some rows. A block adds rows that they have wrong, so that the rows
    that are held grow until no weights are left, or until they are right everywhere.
    """

    def __init__(self, width: int, has_intercept: bool) -> None:
        self._rows = np.zeros((0, width + has_intercept))  # times -1 in rows of class 0
        self._weights = np.zeros(width + has_intercept)
        self._low, self._high = np.full((2, width), np.inf), np.full((2, width), -np.inf)
        self._intercept = has_intercept
        self.may_be_separated, self.has_both = True, False

    def see(self, x: Float[np.ndarray, "n F"], y: Float[np.ndarray, " n"]) -> bool:
        """Return whether the weights were wrong in some of these rows, of which some are then held."""
        positive = y > 0
        for k, rows in enumerate((x[~positive], x[positive])):
            if len(rows):
                self._low[k] = np.minimum(self._low[k], rows.min(axis=0))
                self._high[k] = np.maximum(self._high[k], rows.max(axis=0))
        self.has_both = bool(np.isfinite(self._low).all())
        signed = np.where(positive[:, None], 1.0, -1.0) * self._with_intercept(x)
        wrong = np.flatnonzero(signed @ self._weights < _MARGIN)
        if len(wrong) == 0:
            return False
        most = _ADDED if len(self._rows) else _FIRST
        chosen = _of_both(wrong, positive, most)
        self._rows = np.concatenate([self._rows, signed[chosen]])
        self._weights, margin = _widest(self._rows)
        self.may_be_separated = margin > _MARGIN
        return True

    @property
    def columns(self) -> list[int]:
        """The columns that separate the classes: each that does so alone, or all with a weight."""
        alone = np.flatnonzero((self._low[1] > self._high[0]) | (self._low[0] > self._high[1]))
        sizes = np.abs(self._weights[: self._low.shape[1]])
        return alone.tolist() or np.flatnonzero(sizes > 0.01 * sizes.max()).tolist()

    def _with_intercept(self, x: Float[np.ndarray, "n F"]) -> Float[np.ndarray, "n W"]:
        one = np.ones((len(x), int(self._intercept)))
        return np.concatenate([x.astype(float), one], axis=1)


def _of_both(wrong: np.ndarray, positive: Bool[np.ndarray, " n"], most: int) -> np.ndarray:
    """Return some of these rows, spread evenly, about as many of one class as of the other."""
    parts = [wrong[positive[wrong]], wrong[~positive[wrong]]]
    spread = lambda part: part[:: max(1, -(-2 * len(part) // most))]
    return np.concatenate([spread(part) for part in parts])


def _widest(rows: Float[np.ndarray, "n W"]) -> tuple[Float[np.ndarray, " W"], float]:
    """Return the weights between -1 and 1 with the largest margin in these rows, and the margin."""
    width = rows.shape[1]
    bound = np.concatenate([-rows, np.ones((len(rows), 1))], axis=1)
    goal = np.append(np.zeros(width), -1.0)
    found = linprog(
        goal, A_ub=bound, b_ub=np.zeros(len(rows)), bounds=[*[(-1, 1)] * width, (0, 1)], method="highs"
    )
    return (found.x[:width], float(found.x[width])) if found.success else (np.zeros(width), 0.0)
