"""Whether some columns of a design are linearly dependent, so that only the prior tells their coefficients apart."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from isotherm.errors import IsothermWarning
from isotherm.tables.checks import Rows
from isotherm.tables.design import Design
from isotherm.tables.statistics import Moments
from isotherm.tables.table import Columns, joined
from isotherm.text import visible

_DEPENDENT = 1e-6  # eigenvalue of the correlation matrix below which columns are linearly dependent
_MAX_COLUMNS = 2000  # most columns that are checked
_ROWS = 2**14  # that are encoded at once
_SAMPLE_ROWS, _SAMPLE_NUMBERS = 2**13, 2**23  # rows of the sample at least, and numbers in it otherwise


class Sample:
    """Evenly spaced rows of the features, all of them if they are few."""

    def __init__(self, features: Sequence[str], num_rows: int, width: int) -> None:
        self._features = features
        self.stride = -(-num_rows // max(_SAMPLE_ROWS, _SAMPLE_NUMBERS // width))
        self._parts: list[Columns] = []

    def see(self, columns: Columns, rows: Rows) -> None:
        """Keep the rows that belong to the sample."""
        chosen = rows % self.stride == 0
        if chosen.all():
            self._parts.append({name: columns[name] for name in self._features})
        elif chosen.any():
            self._parts.append({name: columns[name][chosen] for name in self._features})

    def blocks(self, design: Design) -> Iterator[Float[np.ndarray, "n F"]]:
        """Yield the rows, encoded."""
        columns = joined(self._parts) if self._parts else {}
        count = len(next(iter(columns.values()))) if columns else 0
        for begin in range(0, count, _ROWS):
            part = {name: x[begin : begin + _ROWS] for name, x in columns.items()}
            x = np.empty((min(_ROWS, count - begin), len(design.names)), np.float32)
            design.matrix(part, x)
            yield x


@runtime_checkable
class SampledRows(Protocol):
    """Rows of a matrix: all of them if `stride` is 1."""

    stride: int

    def blocks(self, design: Any) -> Iterator[Float[np.ndarray, "n F"]]:
        """Yield the rows, encoded."""
        ...


@runtime_checkable
class NamedColumns(Protocol):
    """The columns of a matrix: their names, and standard deviation and scale as in `Design`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names."""
        ...

    @property
    def sd(self) -> Float[np.ndarray, " F"]:
        """The standard deviations."""
        ...

    @property
    def scale(self) -> Float[np.ndarray, " F"]:
        """What they are divided by."""
        ...


def warn_if_dependent(
    sample: SampledRows,
    design: NamedColumns,
    all_rows: Callable[[], Iterator[Float[np.ndarray, "n F"]]],
    *,
    stacklevel: int,
) -> None:
    """Warn if some columns are linearly dependent in the sample and, if that is not all rows, in all rows too.

    `all_rows` returns the encoded rows. It is called only if the columns of the sample are dependent.
    """
    width = len(design.names)
    if width > _MAX_COLUMNS:
        return
    count, total, square = 0, np.zeros(width), np.zeros((width, width))
    for block in sample.blocks(design):
        part = block.astype(np.float64)
        count, total, square = count + len(part), total + part.sum(axis=0), square + part.T @ part
    if width > count - 1:
        return
    covariance = square / count - np.outer(total, total) / count**2
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    varying = sd > _DEPENDENT * design.sd / design.scale  # a rare level may be missing from the sample
    if not varying.any():
        return
    chosen = np.flatnonzero(varying)
    correlation = covariance[np.ix_(chosen, chosen)] / np.outer(sd[chosen], sd[chosen])
    values, vectors = np.linalg.eigh(correlation)
    if not values[0] < _DEPENDENT:
        return
    weights = np.zeros(width)
    weights[chosen] = vectors[:, 0] / sd[chosen]
    if sample.stride > 1 and not _is_constant(weights, design, all_rows()):
        return
    sizes = np.zeros(width)
    sizes[chosen] = np.abs(vectors[:, 0])
    dependent = [f"`{visible(design.names[i])}`" for i in range(width) if sizes[i] > 0.01 * sizes.max()]
    more = f" and {len(dependent) - 10} more" if len(dependent) > 10 else ""
    warnings.warn(
        f"The columns {', '.join(dependent[:10])}{more} are linearly dependent, like shares that sum to one: "
        "only the prior tells their coefficients apart. Leave one of them out to compare the others with it.",
        IsothermWarning,
        stacklevel=stacklevel + 1,
    )


def _is_constant(
    weights: Float[np.ndarray, " F"], design: NamedColumns, blocks: Iterator[Float[np.ndarray, "n F"]]
) -> bool:
    """Return whether the weighted sum of the columns hardly varies over all rows."""
    sums = Moments(1)
    for block in blocks:
        sums.see(block @ weights)
    length = np.sum((weights * design.sd / design.scale) ** 2)
    return bool(sums.sd[0] ** 2 < _DEPENDENT * length)
