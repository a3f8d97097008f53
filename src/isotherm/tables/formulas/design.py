"""The design of a formula, found while the rows of a table are read, and the encoding of rows."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from isotherm.errors import must
from isotherm.tables.checks import as_floats, is_missing
from isotherm.tables.formulas.groups import GroupDesign
from isotherm.tables.formulas.levels import KnownLevels
from isotherm.tables.formulas.matrix import INTERCEPT, TermsMatrix, Values
from isotherm.tables.formulas.smooth import SmoothDesign
from isotherm.tables.table import Columns
from isotherm.text import visible

_TILE = 2**20  # numbers of the matrix that are made at once


@dataclasses.dataclass(frozen=True)
class Unseen:
    """Which rows have a level that was not seen at fitting: by category, and by group."""

    levels: dict[str, Bool[np.ndarray, " n"]]
    groups: dict[str, Bool[np.ndarray, " n"]]


@dataclasses.dataclass(frozen=True, eq=False)
class FormulaDesign:
    """The rows of a formula, and how they are made from those of a table.

    - `features`: the columns of the table that are read.
    - `names`: the columns of the matrix `x` without the intercept, then the straight part of each curve.
    - `center`, `scale`, `sd`: `x` is (column - center) / scale. The scale is the standard deviation or, for a column
      of two values, the distance between them. `sd` are the standard deviations before standardising.
    - `numbers`, `categories`: the columns that are read as numbers, and the levels of those that are categories.
    """

    features: tuple[str, ...]
    matrix: TermsMatrix
    center: Float[np.ndarray, " F"]
    scale: Float[np.ndarray, " F"]
    sd: Float[np.ndarray, " F"]
    numbers: tuple[str, ...]
    categories: dict[str, KnownLevels]
    groups: tuple[GroupDesign, ...]
    smooths: tuple[SmoothDesign, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the matrix `x`."""
        return matrix_names(self.matrix, [smooth.column for smooth in self.smooths])

    @property
    def has_intercept(self) -> bool:
        """Whether the formula has an intercept."""
        return self.matrix.has_intercept

    @property
    def levels(self) -> dict[str, list[str]]:
        """The levels of each category."""
        return {name: known.levels for name, known in self.categories.items()}

    @property
    def row(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes and dtypes of one row."""
        row = {"x": jax.ShapeDtypeStruct((len(self.names),), np.float32)}
        for group in self.groups:
            row[f"level_{group.name}"] = jax.ShapeDtypeStruct((), np.int32)
            if not group.is_intercept:
                row[f"terms_{group.name}"] = jax.ShapeDtypeStruct((len(group.terms),), np.float32)
        for smooth in self.smooths:
            row[f"smooth_{smooth.name}"] = jax.ShapeDtypeStruct((smooth.size - 2,), np.float32)
        return row

    def encode(self, columns: Columns, out: Mapping[str, np.ndarray], *, unseen: str = "refuse") -> None:
        """Write some rows of the table to `out`.

        Levels of groups that are not known are -1. Rows with an unknown level of a category are refused or, with
        `unseen="mean"`, get the mean over all levels of the category, each counted once.
        """
        for group in self.groups:
            out[f"level_{group.name}"][:] = group.codes(columns)
        count = len(out["x"])
        step = max(256, _TILE // max(1, len(self.names)))
        for begin in range(0, count, step):
            part = {name: columns[name][begin : begin + step] for name in self.features}
            self._encode(part, {name: x[begin : begin + step] for name, x in out.items()}, unseen)

    def codes(self, name: str, columns: Columns) -> Int[np.ndarray, " n"]:
        """Return the index of the level of a category in each row, -1 where it is missing or unknown."""
        return self.categories[name].codes(columns[name])

    def unseen(self, columns: Columns) -> Unseen:
        """Return which rows have levels that were not seen at fitting; a missing value is none."""
        levels = {
            name: (self.codes(name, columns) < 0) & ~is_missing(columns[name]) for name in self.categories
        }
        groups = {}
        for group in self.groups:
            gaps = np.any([is_missing(columns[name]) for name in group.factor.columns], axis=0)
            groups[group.name] = (group.codes(columns) < 0) & ~gaps
        return Unseen(levels, groups)

    def record(self) -> dict[str, Any]:
        """Return the design as plain JSON values, all that is needed to encode rows."""
        return {
            "features": list(self.features),
            "matrix": self.matrix.record(),
            "center": self.center.tolist(),
            "scale": self.scale.tolist(),
            "sd": self.sd.tolist(),
            "numbers": list(self.numbers),
            "levels": self.levels,
            "groups": [group.record() for group in self.groups],
            "smooths": [smooth.record() for smooth in self.smooths],
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "FormulaDesign":
        """Return the design that `record` was made of."""
        return FormulaDesign(
            tuple(record["features"]),
            TermsMatrix.from_record(record["matrix"]),
            np.array(record["center"], np.float64),
            np.array(record["scale"], np.float64),
            np.array(record["sd"], np.float64),
            tuple(record["numbers"]),
            {name: KnownLevels(levels) for name, levels in record["levels"].items()},
            tuple(GroupDesign.from_record(group) for group in record["groups"]),
            tuple(SmoothDesign.from_record(smooth) for smooth in record["smooths"]),
        )

    def _encode(self, columns: Columns, out: Mapping[str, np.ndarray], unseen: str) -> None:
        values = Values(
            {name: as_floats(columns[name]) for name in self.numbers},
            {name: self.codes(name, columns) for name in self.categories},
            len(out["x"]),
        )
        unknown = [name for name, codes in values.codes.items() if (codes < 0).any()]
        if unknown and unseen != "mean":
            raise self._unknown(unknown[0], columns, values)
        lines = [smooth.column for smooth in self.smooths]
        x = (
            self._mean(self.matrix, lines, values, unknown)
            if unknown
            else full_matrix(self.matrix, lines, values)
        )
        x -= self.center
        x *= 1 / self.scale
        out["x"][:] = x
        for group in self.groups:
            if not group.is_intercept:
                rows = self._mean(group.matrix, [], values, unknown) if unknown else group.matrix(values)
                out[f"terms_{group.name}"][:] = rows
        for smooth in self.smooths:
            out[f"smooth_{smooth.name}"][:] = smooth.spline(values.numbers[smooth.column])

    def _mean(
        self, matrix: TermsMatrix, lines: Sequence[str], values: Values, unknown: Sequence[str]
    ) -> Float[np.ndarray, "n F"]:
        """Return the matrix with, in rows with unknown levels, its mean over all levels of these categories."""
        known = {name: np.maximum(codes, 0) for name, codes in values.codes.items()}
        made = _all_columns(matrix, lines, Values(values.numbers, known, values.count))
        affected = np.any([values.codes[name] < 0 for name in unknown], axis=0)
        for which in _patterns(values, unknown, affected):
            names = [name for name in unknown if values.codes[name][which[0]] < 0]
            rows, total, count = Values(values.numbers, known, values.count).part(which), 0.0, 0
            for levels in itertools.product(*(range(len(self.categories[name].levels)) for name in names)):
                chosen = {name: np.full(len(which), level) for name, level in zip(names, levels, strict=True)}
                part = Values(rows.numbers, {**rows.codes, **chosen}, rows.count)
                total, count = total + _all_columns(matrix, lines, part), count + 1
            made[which] = total / count
        return _without_intercept(matrix, made) if matrix is self.matrix else made

    def _unknown(self, name: str, columns: Columns, values: Values) -> Exception:
        column, codes = columns[name], values.codes[name]
        i = int(np.argmax(codes < 0))
        if is_missing(column)[i]:
            return ValueError(f"column `{visible(name)}` must have a value in every row; one is missing.")
        levels = self.categories[name].levels
        shown = ", ".join(levels[:10]) + (f" and {len(levels) - 10} more" if len(levels) > 10 else "")
        repair = "Leave such rows out, or start again if the table has changed."
        return must(name, f"one of the levels that the model knows, {shown}", column[i], repair)


def matrix_names(matrix: TermsMatrix, lines: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a matrix without its intercept, and those of the straight parts of curves."""
    return (*(name for name in matrix.names if name != INTERCEPT), *(f"s({name}).linear" for name in lines))


def full_matrix(matrix: TermsMatrix, lines: Sequence[str], values: Values) -> Float[np.ndarray, "n F"]:
    """Return the columns that `matrix_names` names, for some rows."""
    return _without_intercept(matrix, _all_columns(matrix, lines, values))


def _all_columns(matrix: TermsMatrix, lines: Sequence[str], values: Values) -> Float[np.ndarray, "n F"]:
    return np.concatenate([matrix(values), *(values.numbers[name][:, None] for name in lines)], axis=1)


def _without_intercept(matrix: TermsMatrix, columns: Float[np.ndarray, "n F"]) -> Float[np.ndarray, "n G"]:
    if not matrix.has_intercept:
        return columns
    return np.delete(columns, matrix.names.index(INTERCEPT), axis=1)


def _patterns(values: Values, unknown: Sequence[str], affected: Bool[np.ndarray, " n"]) -> list[np.ndarray]:
    """Return the affected rows, those with unknown levels in the same categories together."""
    rows = np.flatnonzero(affected)
    bits = sum((values.codes[name][rows] < 0).astype(np.int64) * 2**i for i, name in enumerate(unknown))
    return [rows[bits == pattern] for pattern in np.unique(bits)]
