"""The coefficients of a regression as effects: per unit and per standard deviation of a column."""

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from isotherm.draws.elements import elements_of, labels_of
from isotherm.judging.summary import Summary
from isotherm.tables.fitted import Fitted, fitted

if TYPE_CHECKING:
    from isotherm.draws import Draws

_MOST_COMPARED = 1000  # coefficients whose correlations are computed
_DRAWS_COMPARED = 10_000
LINEAR = ").linear"  # ends the name of the straight part of a curve s(column)


@dataclasses.dataclass(frozen=True)
class Effect:
    """One coefficient, per unit of its column: posterior mean, sd and the ends of the 90 % interval.

    `column_sd` is the standard deviation of the column, NaN if it was not recorded.
    """

    name: str
    mean: float
    sd: float
    low: float
    high: float
    column_sd: float

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def per_sd(self) -> "Effect":
        """Return the effect of one standard deviation of the column, or of one unit if that is not known."""
        if math.isnan(self.column_sd):
            return self
        s = self.column_sd
        return Effect(self.name, s * self.mean, s * self.sd, s * self.low, s * self.high, 1.0)


def is_regression(draws: "Draws") -> bool:
    """Return whether `draws.about` describes a regression that this library knows by name."""
    return {"model", "levels"} <= draws.about.model.keys() and "coefficients" in draws.labels


def effects(draws: "Draws", summary: Summary) -> list[Effect]:
    """Return the coefficients without the intercept, those with the largest effect per standard deviation first.

    The straight parts of curves are left out: a curve is read as a whole.
    """
    model, names = fitted(draws), list(itertools.chain(*labels_of(draws).values()))
    assert len(names) >= len(summary.rows)
    first = 0
    for leaf, labels in labels_of(draws).items():
        if leaf == "coefficients":
            break
        first += len(labels)
    found = [
        Effect(row.name, row.mean, row.sd, row.low, row.high, sd)
        for row, sd in zip(summary.rows[first:], _column_sd(model, len(labels)), strict=False)
        if sd is not None and not row.name.endswith(LINEAR)
    ]
    return sorted(found, key=lambda effect: -abs(effect.per_sd().mean))


def _column_sd(model: Fitted, count: int) -> list[float | None]:
    """Return the sd of the column of each coefficient; `None` for an intercept."""
    known = model.column_sd if len(model.column_sd) == len(model.names) else (math.nan,) * len(model.names)
    first = [None] if model.has_intercept else []
    each = [*first, *known]
    return each * (count // len(each))


def correlations(draws: "Draws") -> list[tuple[str, str, float]]:
    """Return posterior correlations of pairs of coefficients of a class, the largest first, without intercepts."""
    names, per_class = labels_of(draws)["coefficients"], len(draws.labels["coefficients"][-1])
    first = 1 if fitted(draws).has_intercept else 0
    if not 2 + first <= per_class <= _MOST_COMPARED:
        return []
    values = _thinned(draws, "coefficients", _DRAWS_COMPARED)
    pairs = []
    above = np.triu_indices(per_class - first, 1)
    for begin in range(0, len(names), per_class):
        block = values[:, begin + first : begin + per_class]
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.nan_to_num(np.atleast_2d(np.corrcoef(block.T)))[above]
        for k in np.argsort(-np.abs(r))[:_MOST_COMPARED]:
            i, j = above[0][k], above[1][k]
            pairs.append((names[begin + first + i], names[begin + first + j], float(r[k])))
    return sorted(pairs, key=lambda pair: -abs(pair[2]))


def thinned(draws: "Draws", count: int) -> dict[str, np.ndarray]:
    """Return at most about `count` draws of the chains that did not fail, evenly spaced: leaves (draw, ...)."""
    return {
        name: _thinned(draws, name, count).reshape(-1, *leaf.shape[2:]) for name, leaf in draws.flat().items()
    }


def _thinned(draws: "Draws", name: str, count: int) -> Float[np.ndarray, "draw element"]:
    chains = np.flatnonzero(draws.complete)
    each = min(draws.num_draws, max(1, count // len(chains)))
    index = np.ix_(chains, np.linspace(0, draws.num_draws - 1, each).round().astype(int))
    # One element at a time: the draws may be on the disk.
    return np.stack([x[index].ravel() for x in elements_of(draws.flat()[name])], axis=1)
