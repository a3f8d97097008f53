"""Design matrices: the columns of a table as a standardised matrix with named columns and coded categories."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from isotherm.errors import must
from isotherm.tables.checks import NumberCheck, Rows, as_matrix, as_numbers, check_one_value
from isotherm.tables.statistics import Levels, Moments, level_codes
from isotherm.tables.table import TEXT, Columns, Table

FAR = 1e4  # largest distance of a mean from zero, in sd: beyond it, 32 bits cannot hold the intercept
_TILE = 2**15  # numbers that are standardised at once: they stay in the processor's cache


@dataclasses.dataclass(frozen=True, eq=False)
class Design:
    """The columns of a standardised matrix, (x - center) / scale, and how they are made from those of a table.

    The scale is the standard deviation or, for a column of two values, the distance between them. `sd` are the
    standard deviations before standardising. Of the levels of a category, the first is the reference level;
    `codes` has the index of the level for each value of the category.
    """

    features: tuple[str, ...]
    names: tuple[str, ...]
    center: Float[np.ndarray, " F"]
    scale: Float[np.ndarray, " F"]
    sd: Float[np.ndarray, " F"]
    levels: dict[str, list[str]]
    codes: dict[str, dict[Any, int]]

    has_intercept = True

    @property
    def row(self) -> dict[str, jax.ShapeDtypeStruct]:
        """What `encode` writes for a row: shapes and dtypes."""
        return {"x": jax.ShapeDtypeStruct((len(self.names),), np.float32)}

    def encode(self, columns: Columns, out: Mapping[str, np.ndarray]) -> None:
        """Write the matrix for some rows of the table to `out["x"]`."""
        self.matrix(columns, out["x"])

    def matrix(self, columns: Columns, out: Float[np.ndarray, "n F"]) -> None:
        """Write the matrix for some rows of the table to `out`."""
        j = 0
        for name in self.features:
            if name in self.codes:
                codes = level_codes(name, columns[name], self.codes[name])
                for level in range(1, len(self.levels[name])):
                    out[:, j] = (codes == level) - self.center[j]
                    out[:, j] /= self.scale[j]
                    j += 1
            else:
                values = as_matrix(as_numbers(columns[name]))
                last = j + values.shape[1]
                self._standardize(values, slice(j, last), out[:, j:last])
                j = last

    def _standardize(self, values: np.ndarray, which: slice, out: np.ndarray) -> None:
        center, factor = self.center[which], 1 / self.scale[which]
        step = max(1, _TILE // values.shape[1])
        for begin in range(0, len(out), step):
            tile = np.subtract(values[begin : begin + step], center, dtype=np.float64)
            np.multiply(tile, factor, out=out[begin : begin + step], casting="same_kind")


class DesignPass:
    """Reads the features of a table once, and returns their design."""

    second_pass = False

    def __init__(self, table: Table, features: Sequence[str], categorical: Sequence[str]) -> None:
        self._features = self.columns = tuple(features)
        self._parts: dict[str, _NumberColumn | _Category] = {}
        for name in features:
            kind, shape = table.kinds[name], table.shapes[name]
            if name in categorical or kind == TEXT:
                check_one_value("categorical", name, table.shapes)
                self._parts[name] = _Category(name, kind)
            elif len(shape) > 1:
                raise must(name, "a column of numbers", f"rows of shape {shape}", "Leave the column out.")
            else:
                names = [f"{name}.{i}" for i in range(shape[0])] if shape else [name]
                self._parts[name] = _NumberColumn(names, kind)

    def see(self, columns: Columns, rows: Rows) -> None:
        """Read some rows."""
        for name, part in self._parts.items():
            part.see(columns[name], rows)

    def finish(self, *, standardize: bool) -> Design:
        """Return the design. Raises if a column cannot be used."""
        found = [part.finish() for part in self._parts.values()]
        names = [name for part in found for name in part.names]
        mean, sd, spread, first = (
            np.concatenate([getattr(part, field) for part in found])
            for field in ("mean", "sd", "spread", "first")
        )
        for i, name in enumerate(names):
            if not sd[i] > 0:
                raise constant(name, float(first[i]))
            check_near(name, mean[i], sd[i])
        levels = {name: part.levels for name, part in zip(self._parts, found, strict=True) if part.levels}
        codes = {name: part.codes for name, part in zip(self._parts, found, strict=True) if part.levels}
        center, scale = (mean, spread) if standardize else (np.zeros(len(names)), np.ones(len(names)))
        return Design(self._features, tuple(names), center, scale, sd, levels, codes)


@dataclasses.dataclass(frozen=True, eq=False)
class _Finished:
    """What the columns of the matrix that one feature gives are: spread is the scale of a standardised column."""

    names: list[str]
    mean: np.ndarray
    sd: np.ndarray
    spread: np.ndarray
    first: np.ndarray
    levels: list[str] = dataclasses.field(default_factory=list)
    codes: dict[Any, int] = dataclasses.field(default_factory=dict)


class _NumberColumn:
    def __init__(self, names: list[str], kind: str) -> None:
        self._names, self._check, self._moments = names, NumberCheck(names, kind), Moments(len(names))

    def see(self, values: np.ndarray, rows: Rows) -> None:
        self._moments.see(self._check.see(values, rows))

    def finish(self) -> _Finished:
        self._check.check()
        m = self._moments
        # If one of two values is rare, the standard deviation is small and a prior in its units absurdly wide.
        return _Finished(self._names, m.mean, m.sd, np.where(m.binary, m.high - m.low, m.sd), m.low)


class _Category:
    def __init__(self, name: str, kind: str) -> None:
        self._name, self._levels = name, Levels(name, kind)

    def see(self, values: np.ndarray, rows: Rows) -> None:
        self._levels.see(values, rows)

    def finish(self) -> _Finished:
        levels, codes, counts = self._levels.finish()
        if len(levels) < 2:
            raise constant(self._name, levels[0])
        share = counts[1:] / counts.sum()
        names = [f"{self._name}={level}" for level in levels[1:]]
        ones = np.ones(len(names))
        return _Finished(names, share, np.sqrt(share * (1 - share)), ones, 0 * ones, levels, codes)


def constant(name: str, value: object) -> Exception:
    """The exception for a column that has the same value in all rows."""
    return must(name, "a column that varies", value, "All rows have this value: leave the column out.")


def check_near(name: str, mean: float, sd: float) -> None:
    """Refuse a column whose mean is too far from zero."""
    if abs(mean) > FAR * sd:
        rule = f"within {FAR:g} standard deviations of zero"
        raise must(name, rule, float(mean), "Subtract a round number near its mean.")
