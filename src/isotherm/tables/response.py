"""The response of a regression: target, offset, exposure and weights of the rows of a table."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from isotherm.errors import must
from isotherm.tables.checks import NumberCheck, Rows, as_floats, check_one_value
from isotherm.tables.design import check_near
from isotherm.tables.families.base import Facts, Family, LocationFamily
from isotherm.tables.families.roles import ROLES
from isotherm.tables.families.together import TogetherCheck
from isotherm.tables.statistics import Levels, Moments, level_codes, level_text
from isotherm.tables.table import TEXT, Columns, Table

_MORE_CLASSES = 'Use model = "softmax" for more.'
_FEWER_CLASSES = 'Use model = "logistic" for two.'


@dataclasses.dataclass(frozen=True, eq=False)
class Response:
    """How the response is made from the columns of a table.

    - `origin`, `unit`: of the response: where y = 0 is, and how much 1 is.
    - `classes`, `codes`: of a target of classes; the index of the class for each value of the target.
    - `class_counts`: the number of rows of each class.
    - `has_offset`: whether something is added to the linear predictor of some row.
    """

    family: Family
    target: str
    special: Mapping[str, str]
    origin: float
    unit: float
    classes: list[str]
    codes: dict[Any, int]
    class_counts: list[int]
    has_offset: bool
    mean: float

    @property
    def facts(self) -> Facts:
        """What the family is told of the target."""
        return Facts(self.mean, self.unit, self.classes, self.class_counts)

    @property
    def dtypes(self) -> dict[str, type]:
        """The numbers of a row beside x, and their types."""
        dtypes: dict[str, type] = {"y": np.int32 if self.family.has_probabilities else np.float32}
        dtypes |= {"offset": np.float32} if self.has_offset else {}
        return dtypes | dict.fromkeys(self._row_names.values(), np.float32)

    @property
    def _row_names(self) -> dict[str, str]:
        """The columns that go into the rows by themselves: their roles, and their names in the rows."""
        return {role: name for role in self.special if (name := ROLES[role].row_name) is not None}

    def encode(self, columns: Columns, out: Mapping[str, np.ndarray]) -> None:
        """Write the response of some rows of the table to `out`."""
        if self.classes:
            out["y"][:] = level_codes(self.target, columns[self.target], self.codes)
        else:
            y = as_floats(columns[self.target])
            if isinstance(self.family, LocationFamily):
                y = (y - _added(self.special, columns) - self.origin) / self.unit
            out["y"][:] = y
        if self.has_offset:
            out["offset"][:] = _added(self.special, columns)
        for role, name in self._row_names.items():
            out[name][:] = as_floats(columns[self.special[role]])


class ResponsePass:
    """Reads target, offset, exposure and weights of a table once, and returns the response."""

    def __init__(
        self,
        family: Family,
        table: Table,
        target: str,
        special: Mapping[str, str],
        positive: str | int | float | None,
        order: Sequence[str | int | float],
    ) -> None:
        for role, name in {"target": target, **special}.items():
            check_one_value(role, name, table.shapes)
        self.columns = list(dict.fromkeys([target, *special.values()]))
        self._family, self._target, self._special = family, target, dict(special)
        self._positive, self._order, self._is_text = positive, order, table.kinds[target] == TEXT
        self._classes = Levels(target, table.kinds[target]) if family.has_classes else None
        self._number = NumberCheck([target], table.kinds[target], family.target.rule)
        self._checks = {
            role: NumberCheck([name], table.kinds[name], ROLES[role].rule) for role, name in special.items()
        }
        self._together = TogetherCheck(family, target, special)
        self._y, self._factor, self._has_offset = Moments(1), Moments(1), False

    def see(self, columns: Columns, rows: Rows) -> None:
        """Read some rows."""
        for role, check in self._checks.items():
            check.see(columns[self._special[role]], rows)
        if self._classes is not None:
            self._classes.see(columns[self._target], rows)
        y = None if self._classes is not None else self._number.see(columns[self._target], rows)
        self._together.see(columns, rows)
        if any(check.example is not None for check in self._checks.values()):
            return  # a column of text, which is refused in the end
        with np.errstate(all="ignore"):  # exposures that are not positive are refused in the end
            added = _added(self._special, columns)
            self._factor.see(np.exp(added))
        self._has_offset |= bool(np.any(added))
        if y is not None:
            self._y.see(y - added if isinstance(self._family, LocationFamily) else y)

    def finish(self, *, standardize: bool) -> Response:
        """Return the response. Raises if a column cannot be used."""
        classes, codes, counts = self._finished_classes()
        if self._classes is None:
            self._number.check()
        for role, check in self._checks.items():
            if role != "weights":
                check.check()
        self._together.check()
        mean, origin, unit = self._scale(standardize=standardize)
        if "weights" in self._checks:
            self._checks["weights"].check()
        has_offset = self._has_offset and not isinstance(self._family, LocationFamily)
        about = (classes, codes, counts, has_offset, mean)
        return Response(self._family, self._target, self._special, origin, unit, *about)

    def _scale(self, *, standardize: bool) -> tuple[float, float, float]:
        """Return mean, origin and unit. The mean is per unit of what multiplies it, if the family has a log link."""
        if self._family.has_classes:
            return 0.0, 0.0, 1.0
        mean, sd, link = float(self._y.mean[0]), float(self._y.sd[0]), self._family.link
        if self._family.target.varies and not sd > 0:
            raise must("target", "a column that varies", float(self._y.low[0]))
        if link.origin is not None:
            mean = float(self._y.mean[0] / self._factor.mean[0])
            return mean, link.origin(mean), 1.0
        if not isinstance(self._family, LocationFamily):
            return mean, 0.0, 1.0
        check_near("target", mean, sd)
        return (mean, mean, sd) if standardize else (mean, 0.0, 1.0)

    def _finished_classes(self) -> tuple[list[str], dict[Any, int], list[int]]:
        """Return the classes in order, the index of that of each value of the target, and how often each occurs."""
        if self._classes is None:
            return [], {}, []
        classes, codes, found = self._classes.finish()
        counts = found.tolist()
        if self._family.is_binary and len(classes) != 2:
            raise must(self._target, "a target of two values", classes[:5], _MORE_CLASSES)
        least = self._family.target.classes[0] if self._family.target.classes is not None else 2
        if len(classes) < least:
            rule = f"a target of at least {'two' if least == 2 else least} values"
            raise must(self._target, rule, classes, _FEWER_CLASSES if len(classes) == 2 else "")
        if self._family.target.is_ordered and (self._order or self._is_text):
            place = {level: i for i, level in enumerate(self._ordered(classes))}
            codes = {value: place[classes[code]] for value, code in codes.items()}
            counts = [counts[classes.index(level)] for level in place]
            return list(place), codes, counts
        if self._positive is not None:
            level = level_text(self._positive)
            if level not in classes:  # true or True
                level = next((c for c in classes if c.lower() == level.lower()), level)
            if level not in classes:
                raise must("positive", f"one of {' and '.join(classes)}", self._positive)
            if level == classes[0]:
                return classes[::-1], {value: 1 - code for value, code in codes.items()}, counts[::-1]
        return classes, codes, counts

    def _ordered(self, classes: list[str]) -> list[str]:
        """Return the classes in the order that the user gave."""
        order = [level_text(level) for level in self._order]
        if sorted(order) != sorted(classes):
            shown = ", ".join(classes[:10])
            repair = "Numbers are in order by themselves." if self._is_text else ""
            raise must("order", f"the classes of `{self._target}`, {shown}, from the lowest", order, repair)
        return order


def _added(special: Mapping[str, str], columns: Columns) -> np.ndarray:
    """Return what is added to the linear predictor of each row: offset plus log exposure."""
    total = np.zeros(len(next(iter(columns.values()))))
    if "offset" in special:
        total = total + as_floats(columns[special["offset"]])
    return total + np.log(as_floats(columns[special["exposure"]])) if "exposure" in special else total
