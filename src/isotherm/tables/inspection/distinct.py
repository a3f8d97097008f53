"""Whether all values of a column differ, and whether they number the rows, in bounded memory."""

import numpy as np
from jaxtyping import Shaped

_MOST = 2**20  # values that are compared; if they all differ, so do the rest in all likelihood
_PARTS = 4  # pieces that are compared together


class Distinct:
    """Compares the first million values of a column with each other, until two are equal."""

    def __init__(self) -> None:
        self.are_distinct, self.count = True, 0
        self._hashes: list[np.ndarray] = []
        self._kept = 0

    def see(self, values: Shaped[np.ndarray, " n"]) -> None:
        """Add values, none of which is missing."""
        self.count += len(values)
        if not self.are_distinct or self._kept >= _MOST:
            return
        import pandas as pd

        hashes = np.sort(pd.util.hash_array(values[: _MOST - self._kept]))
        self.are_distinct = _all_differ(hashes)
        self._hashes.append(hashes)
        self._kept += len(hashes)
        if len(self._hashes) == _PARTS:
            self._compare()

    def finish(self) -> bool:
        """Return whether all values that were compared differ; there must be two at least."""
        if self.are_distinct and self._hashes:
            self._compare()
        self._hashes = []
        return self.are_distinct and self.count > 1

    def _compare(self) -> None:
        whole = np.sort(np.concatenate(self._hashes))
        self.are_distinct = self.are_distinct and _all_differ(whole)
        self._hashes = [whole] if self.are_distinct else []


def _all_differ(ordered: Shaped[np.ndarray, " n"]) -> bool:
    return bool(np.all(ordered[1:] != ordered[:-1]))


class Counting:
    """Whether the integers of a column are numbers of rows: each is one more than the one before."""

    def __init__(self) -> None:
        self._fails, self._last = False, None

    @property
    def holds(self) -> bool:
        """Whether there were numbers, and all of them count."""
        return self._last is not None and not self._fails

    def see(self, values: Shaped[np.ndarray, " n"]) -> None:
        """Add numbers."""
        if self._fails or len(values) == 0:
            return
        before = [] if self._last is None else [self._last]
        self._fails = bool(np.any(np.diff(np.concatenate([before, values])) != 1))
        self._last = values[-1]
