"""The rows of a new table in the form that a fitted regression takes."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int64

from isotherm.errors import must
from isotherm.tables.checks import (
    Gaps,
    NumberCheck,
    Rows,
    as_floats,
    as_matrix,
    as_numbers,
    check_column,
    is_missing,
)
from isotherm.tables.families.roles import ROLES
from isotherm.tables.families.together import TogetherCheck
from isotherm.tables.fitted import Fitted
from isotherm.tables.known_levels import LevelCheck, codes_of, some
from isotherm.tables.statistics import Moments
from isotherm.tables.survey import Complete
from isotherm.tables.table import Columns, Table

EMPTY = (
    "Fill it in, or leave the predictions of such rows empty with `--missing empty`, in Python "
    '`missing="empty"`.'
)
UNSEEN = ("error", "missing", "mean", "sample")
OTHER_LEVEL = (
    "Leave such rows out, sample again from a table that has this level, or choose what is predicted for them by "
    '`--unseen missing` or `--unseen mean`, in Python `unseen="mean"`.'
)
_OTHER_CLASS = "Correct it, or leave the column out: only the scores need it."


@dataclasses.dataclass(frozen=True, eq=False)
class NewRows:
    """The rows of a table without missing values.

    - `complete`: which rows of the table these are, and `numbers`, the numbers of these rows in the table.
    - `x`: the columns of the model minus `center`, so that 32 bits can tell the rows apart.
    - `offset`: what is added to the linear predictor, offset plus log exposure; `None` if there is neither.
    - `y`: the target as numbers, NaN where it is unknown; `None` if it is unknown for every row.
    - `unseen`: by feature, the numbers of the rows with a level that was not seen at fitting, if there are any.
    - `further`: the columns that the family asks for, by their names in the rows.
    - `terms`: of a formula, what the rows have beside these: levels of groups, bases of smooths.
    - `new_levels`: by group, the levels that were not seen at fitting. They are numbered after those that were.
    """

    complete: Bool[np.ndarray, " N"]
    numbers: Int64[np.ndarray, " n"]
    x: Float[np.ndarray, "n F"]
    center: Float[np.ndarray, " F"]
    offset: Float[np.ndarray, " n"] | None
    y: Float[np.ndarray, " n"] | None
    unseen: dict[str, np.ndarray]
    further: dict[str, Float[np.ndarray, " n"]]
    terms: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    new_levels: dict[str, list[str]] = dataclasses.field(default_factory=dict)


class NewTable:
    """Reads the columns of a table that a model needs: first to check every value, then as `NewRows`.

    Rows with a missing value are refused, or left out with `missing="empty"`. Rows with a level that was not seen at
    fitting are refused, left out with `unseen="missing"`, or with `unseen="mean"` get the average of the coefficients
    of all levels, each counted once: the run does not record how frequent they were. Other columns are ignored.
    `see` takes all rows, some at a time; `finish` raises if one of them cannot be used.
    """

    def __init__(self, model: Fitted, table: Table, *, missing: str, unseen: str = "error") -> None:
        if unseen == "sample":
            raise must("unseen", '"error", "missing" or "mean" for a model without groups', unseen)
        roles = [("features", name) for name in model.features]
        self._has_target = model.target in table.kinds
        special = model.special(with_target=self._has_target)
        for role, name in [*roles, *special.items()]:
            check_column(role, name, table.kinds)
        self._model, self._refuses, self._unseen = model, missing == "refuse", unseen
        self._together: TogetherCheck | None = None
        self._used = list(dict.fromkeys([*model.features, *special.values()]))
        self.names = [*self._used, *([model.target] if self._has_target else [])]
        parts = {name: _names(name, table.shapes[name], model.levels.get(name)) for name in model.features}
        if (found := tuple(name for names in parts.values() for name in names)) != model.names:
            raise must("table", f"one with the columns of the model, {some(model.names)}", some(found))
        self._gaps, self._complete = {name: Gaps(name) for name in self._used}, Complete(self._used)
        self._checks: list[tuple[str, NumberCheck | LevelCheck]] = []
        self._means: dict[str, Moments] = {}
        for name, names in parts.items():
            if name in model.levels and unseen != "error":
                continue
            if name in model.levels:
                self._checks.append((name, LevelCheck(name, model.levels[name], OTHER_LEVEL)))
            else:
                self._checks.append((name, NumberCheck(names, table.kinds[name])))
                self._means[name] = Moments(len(names))
        for role, name in special.items():
            self._checks.append((name, NumberCheck([name], table.kinds[name], ROLES[role].rule)))
        if self._has_target:
            self._checks.append((model.target, target_check(model, table.kinds[model.target])))
            self._together = TogetherCheck(model.family, model.target, special)

    def see(self, columns: Columns, rows: Rows) -> None:
        """Check some rows."""
        complete = self._complete.see(columns)
        for name, gaps in self._gaps.items():
            gaps.see(is_missing(columns[name]), rows)
        for name, check in self._checks:
            if isinstance(check, NumberCheck) and check.is_number:
                values = check.see(filled(columns[name]), rows, ~is_missing(columns[name]))
                if name in self._means:
                    self._means[name].see(values[complete])
            else:
                check.see(columns[name], rows)
        if self._together is not None:
            self._together.see(columns, rows)

    def finish(self) -> None:
        """Raise if a row cannot be used."""
        for gaps in self._gaps.values():
            if self._refuses and gaps.count:
                raise ValueError(gaps.sentence(EMPTY))
        self._complete.check()
        for _, check in self._checks:
            check.check()
        if self._together is not None:
            self._together.check()

    def rows(self, columns: Columns, numbers: Rows) -> NewRows:
        """Return some rows in the form that the model takes. All rows were checked before."""
        complete = ~np.any([is_missing(columns[name]) for name in self._used], axis=0)
        codes = {name: codes_of(columns[name], self._model.levels[name]) for name in self._model.levels}
        unknown = {name: (x < 0) & complete for name, x in codes.items()}
        unseen = {name: numbers[x] for name, x in unknown.items() if x.any()}
        if self._unseen == "missing" and unseen:
            complete &= ~np.any(list(unknown.values()), axis=0)
        kept = {name: columns[name][complete] for name in self.names}
        x, center, j = np.empty((int(complete.sum()), len(self._model.names)), np.float32), [], 0
        for name in self._model.features:
            if name in self._means:
                values, middle = as_matrix(as_floats(kept[name])), self._means[name].mean
            else:
                levels = self._model.levels[name]
                of_rows = codes[name][complete, None]
                values = np.where(of_rows < 0, 1 / len(levels), of_rows == np.arange(1, len(levels)))
                middle = np.zeros(len(levels) - 1)
            x[:, j : j + len(middle)] = values - middle
            center.append(middle)
            j += len(middle)
        return NewRows(
            complete,
            numbers[complete],
            x,
            np.concatenate(center),
            added_of(self._model, kept),
            target_of(self._model, kept) if self._has_target else None,
            unseen,
            further_of(self._model, kept, with_target=self._has_target),
        )


def added_of(model: Fitted, columns: Columns) -> Float[np.ndarray, " n"] | None:
    """Return offset plus log exposure; `None` if there is neither."""
    added = [] if model.offset is None else [as_floats(columns[model.offset])]
    added += [] if model.exposure is None else [np.log(as_floats(columns[model.exposure]))]
    return np.sum(added, axis=0).astype(np.float32) if added else None


def further_of(model: Fitted, columns: Columns, *, with_target: bool) -> dict[str, Float[np.ndarray, " n"]]:
    """Return the columns that the family asks for."""
    return {
        name: as_floats(columns[column]).astype(np.float32)
        for role, column in model.special(with_target=with_target).items()
        if (name := ROLES[role].row_name) is not None
    }


def target_of(model: Fitted, columns: Columns) -> Float[np.ndarray, " n"] | None:
    """Return the target as numbers, NaN where it is missing; `None` if it is missing in all rows."""
    values = columns[model.target]
    gaps = is_missing(values)
    if gaps.all():
        return None
    if model.family.has_classes:
        return np.where(gaps, np.nan, codes_of(values, model.classes))
    return np.where(gaps, np.nan, as_floats(filled(values)))


def target_check(model: Fitted, kind: str) -> NumberCheck | LevelCheck:
    """Return the check of a target."""
    if model.family.has_classes:
        return LevelCheck(model.target, model.classes, _OTHER_CLASS)
    return NumberCheck([model.target], kind, model.family.target.rule)


def _names(name: str, shape: tuple[int, ...], levels: Sequence[str] | None) -> list[str]:
    """Return the names of the matrix columns that a feature makes."""
    if levels is not None:
        return [f"{name}={level}" for level in levels[1:]]
    return [f"{name}.{i}" for i in range(math.prod(shape))] if shape else [name]


def filled(values: np.ndarray) -> np.ndarray:
    """Return numbers with 1 in place of missing ones."""
    numbers = as_numbers(values)
    return np.where(np.isnan(numbers), 1.0, numbers) if numbers.dtype.kind == "f" else numbers
