"""Differences and ratios of predictions at two values of a column."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from isotherm.errors import must
from isotherm.judging.summary import fixed
from isotherm.tables.marginal.means import Averages, interval_of, row_error

_LEAST = 1e-5  # of a mean: the spread that digits show
Pairs = tuple[Any, Any] | Sequence[tuple[Any, Any]]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A posterior mean and the ends of a central interval."""

    mean: float
    low: float
    high: float

    def cells(self) -> tuple[str, str]:
        """Return the mean and the interval as text."""
        mean, low, high = digits(self.mean, self.low, self.high)
        return mean, f"{low} to {high}"


@dataclasses.dataclass(frozen=True)
class Contrast:
    """The prediction at the value `second` compared with that at `first`: `difference` is second minus first.

    - `of`: the class whose probability is compared, if there are several.
    - `ratio`: of the second to the first, at each draw; `None` if responses may be negative.
    - `row_error`: the standard error of the difference from the choice of rows.
    """

    first: Any
    second: Any
    difference: Estimate
    ratio: Estimate | None
    row_error: float
    of: str = ""


def digits(mean: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a mean and an interval with as many digits as the width of the interval calls for, and six at most."""
    spread = max((high - low) / 4, _LEAST * abs(mean))
    mean_text, low_text, high_text = (fixed(float(x), spread) for x in (mean, low, high))
    return mean_text, low_text, high_text


def pairs_of(compare: Pairs | None) -> list[tuple[Any, Any]]:
    """Return the pairs that are compared."""
    if compare is None:
        return []
    rule = 'two values, or a list of pairs of values, such as ("a", "b")'
    if isinstance(compare, str) or not isinstance(compare, Sequence) or len(compare) == 0:
        raise must("compare", rule, compare, error=TypeError)
    is_pair = lambda x: isinstance(x, Sequence) and not isinstance(x, str) and len(x) == 2
    if all(is_pair(x) for x in compare):
        return [(x[0], x[1]) for x in compare]
    if is_pair(compare):
        return [(compare[0], compare[1])]
    raise must("compare", rule, compare)


def contrasts_of(
    pairs: Sequence[tuple[Any, ...]],
    values: tuple[Any, ...],
    classes: tuple[str, ...],
    found: Averages,
    share_left: float,
    interval: float,
    ratio: bool,
) -> list[Contrast]:
    """Return the contrasts of pairs of values, of each class."""
    shape = (*found.draws.shape[:2], max(1, len(classes)))
    draws, rows = found.draws.reshape(shape), found.rows.reshape(*found.rows.shape[:2], -1)
    made = []
    for pair in pairs:
        i, j = (values.index(value) for value in pair)
        error = row_error(rows[[j]] - rows[[i]], share_left)[0]
        for k in range(shape[2]):
            first, second = draws[:, i, k], draws[:, j, k]
            quotient = estimate(second / first, interval) if ratio and np.all(first > 0) else None
            difference = estimate(second - first, interval)
            of = classes[k] if classes else ""
            made.append(Contrast(pair[0], pair[1], difference, quotient, float(error[k]), of))
    return made


def estimate(values: np.ndarray, interval: float) -> Estimate:
    """Return the mean and the central interval of draws."""
    return Estimate(*(float(x) for x in interval_of(np.asarray(values, np.float64), interval)))


def contrast_table(contrasts: Sequence[Contrast], interval: float) -> Any:
    """Return a table of contrasts for a terminal."""
    from isotherm.terminal import Table

    table = Table(box=None, header_style="bold")
    table.add_column("compared", overflow="fold")
    titles = ["difference", f"{100 * interval:g} %"]
    if any(x.ratio is not None for x in contrasts):
        titles += ["ratio", f"{100 * interval:g} %"]
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for x in contrasts:
        ratio = x.ratio.cells() if x.ratio is not None else ("",) * (len(titles) - 2)
        table.add_row(contrast_name(x), *x.difference.cells(), *ratio)
    return table


def contrast_name(contrast: Contrast) -> str:
    """Return what is compared."""
    first, second = (x if isinstance(x, str) else f"{x:g}" for x in (contrast.first, contrast.second))
    return f"{f'{contrast.of}: ' if contrast.of else ''}{second} against {first}"
