"""Columns of text read as numbers: amounts with units or currencies, and dates as days since an origin."""

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, Shaped

from isotherm.errors import must
from isotherm.tables.checks import check_column, is_missing
from isotherm.tables.numerals import ISO, as_times, days_since, is_iso_date, number_of, origin_of
from isotherm.tables.table import DATES, NUMBERS, TEXT, Columns, Table

_LOOK_ROWS = 2**13  # at the start of a table, which show whether a column of text holds dates


@dataclasses.dataclass(frozen=True)
class Reading:
    """How columns are read before anything else is done with them.

    - `numbers`: the unit, currency or percent sign in the text of each column that is read as numbers; "" if none.
    - `decimal`: the decimal mark in them.
    - `missing_values`: texts that stand for a missing value.
    - `origins`: the day 0 of each column of dates, which become days since then.
    - `formats`: the form of these dates, as in `strptime`; by default 2024-03-01, with or without a time of day.
    """

    numbers: dict[str, str] = dataclasses.field(default_factory=dict)
    decimal: str = "."
    missing_values: tuple[str, ...] = ()
    origins: dict[str, str] = dataclasses.field(default_factory=dict)
    formats: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether columns are taken as they are."""
        return not (self.numbers or self.missing_values or self.origins)


class ReadTable(Table):
    """A table whose columns are read as `Reading` says. Columns that the table does not have are passed over."""

    def __init__(self, table: Table, reading: Reading) -> None:
        self.table, self.reading = table, reading
        made = [*reading.numbers, *reading.origins]
        self.kinds = {name: NUMBERS if name in made else kind for name, kind in table.kinds.items()}
        self.shapes = table.shapes

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.table.num_rows

    def pieces(
        self, names: Sequence[str], begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the rows."""
        for first, columns in self.table.pieces(names, begin, end):
            count = len(next(iter(columns.values())))
            yield first, self._read(columns, range(first, first + count))

    def take(self, names: Sequence[str], index: Int64[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return the rows at `index`."""
        return self._read(self.table.take(names, index), index)

    def describe(self) -> dict[str, Any]:
        """Return what identifies the data."""
        return self.table.describe()

    def file_bytes(self, names: Sequence[str]) -> int:
        """Return how many bytes a pass over these columns reads."""
        return self.table.file_bytes(names)

    def state(self) -> str:
        """Return a text that changes if the table does."""
        return self.table.state()

    def _read(self, columns: Columns, rows: Sequence[int] | Int64[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        return {name: self._column(name, x, rows) for name, x in columns.items()}

    def _column(self, name: str, values: np.ndarray, rows: Any) -> np.ndarray:
        reading = self.reading
        values = without(values, reading.missing_values)
        if name in reading.numbers:
            return _numbers(name, values, rows, reading.numbers[name], reading.decimal)
        if name in reading.origins:
            return _days(name, values, rows, reading.formats.get(name, ISO), reading.origins[name])
        return values


def read_table_as(
    table: Table,
    features: Sequence[str],
    *,
    categorical: Sequence[str],
    numbers: Sequence[str],
    decimal: str,
    missing_values: Sequence[str],
    dates: Mapping[str, str],
) -> tuple[Table, Reading]:
    """Return a table whose dates and numbers in text are numbers, and how they are read.

    `dates` gives the form of dates by column. Other features are dates if their type is, or if their first rows are
    text such as 2024-03-01, unless they are in `categorical`.
    """
    _check_forms(dates)
    for role, names in (("numbers", numbers), ("dates", dates)):
        for name in names:
            check_column(role, name, table.kinds)
            if name in categorical:
                raise must(role, "columns that are not in `categorical`", name)
    if both := set(numbers) & set(dates):
        raise must("numbers", "columns that are not in `dates`", both.pop())
    if decimal not in (".", ","):
        raise must("decimal", 'the decimal mark, "." or ","', decimal)
    rest = [name for name in features if name not in (*categorical, *numbers, *dates)]
    kinds = {name: table.kinds[name] for name in (*rest, *numbers, *dates)}
    looked_at = [name for name, kind in kinds.items() if kind in (TEXT, DATES) and not table.shapes[name]]
    start = _start(table, looked_at, missing_values)
    origins = {}
    for name, values in start.items():
        form = dates.get(name, ISO)
        is_date = name in dates or kinds[name] == DATES or (name in rest and _are_dates(values))
        if name not in numbers and is_date:
            times = as_times(values, form)
            if not times.notna().any():
                raise _no_dates(name, form, values)
            origins[name] = origin_of(times)
    if absent := [name for name in dates if name not in origins]:
        raise must("dates", "columns of text or dates", absent[0], "Leave it out of `dates`.")
    units = {name: _unit(start[name], decimal) for name in numbers if name in start}
    given = {name: form for name, form in dates.items() if kinds[name] != DATES}
    reading = Reading(units, decimal, tuple(missing_values), origins, given)
    return (table if reading.is_plain else ReadTable(table, reading)), reading


def _check_forms(dates: object) -> None:
    rule = 'forms of dates by column, as in `strptime`, such as { day = "%d/%m/%Y" }'
    if not isinstance(dates, Mapping):
        raise must("dates", rule, dates)
    for form in dates.values():
        if not isinstance(form, str) or "%" not in form:
            raise must("dates", rule, form)
        try:
            datetime.datetime.strptime("", form)
        except ValueError as error:
            if "directive" in str(error) or "stray" in str(error):  # and not that the text has another form
                raise must("dates", rule, form) from error


def without(
    values: Shaped[np.ndarray, "n ..."], missing_values: Iterable[str]
) -> Shaped[np.ndarray, "n ..."]:
    """Return values with `None` in place of texts that stand for a missing value."""
    if values.dtype.kind not in "OU" or not missing_values:
        return values
    import pandas as pd

    gaps, left = pd.Series(values).isin(list(missing_values)).to_numpy(), values.astype(object)
    left[gaps] = None
    return left


def _start(table: Table, names: Sequence[str], missing_values: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the first rows of these columns."""
    if not names:
        return {}
    _, columns = next(iter(table.pieces(names, 0, min(_LOOK_ROWS, table.num_rows))))
    return {name: without(x, missing_values) for name, x in columns.items()}


def _are_dates(values: np.ndarray) -> bool:
    present = values[~is_missing(values)]
    return len(present) > 0 and all(is_iso_date(value) for value in present)


def _unit(values: np.ndarray, decimal: str) -> str:
    found = (number_of(str(value), decimal) for value in values[~is_missing(values)])
    return next((number[1] for number in found if number is not None and number[1]), "")


def _numbers(name: str, values: np.ndarray, rows: Any, unit: str, decimal: str) -> Float[np.ndarray, " n"]:
    if values.dtype.kind in "biuf":
        return values
    import pandas as pd

    codes, distinct = pd.factorize(values)
    numbers = np.full(len(distinct) + 1, np.nan)  # the last is for missing values
    for i, value in enumerate(distinct):
        found = number_of(str(value), decimal)
        if found is None or found[1] not in ("", unit):
            row = int(rows[int(np.argmax(codes == i))]) + 1
            what = "numbers" if found is None or not unit else f"numbers in {unit}"
            repair = "Correct it, or list it in `missing_values` or the column in `exclude`."
            raise must(name, f"a column of {what}", value, f"It is in row {row}. {repair}")
        numbers[i] = found[0]
    return numbers[codes]


def _days(name: str, values: np.ndarray, rows: Any, form: str, origin: str) -> Float[np.ndarray, " n"]:
    times = as_times(values, form)
    wrong = times.isna().to_numpy() & ~is_missing(values)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise _no_date(name, form, values[i], f"It is in row {int(rows[i]) + 1}.")
    return days_since(times, origin)


def _no_dates(name: str, form: str, values: np.ndarray) -> Exception:
    present = values[~is_missing(values)]
    return _no_date(name, form, present[0] if len(present) else None, "It is one of the first.")


def _no_date(name: str, form: str, value: object, where: str) -> Exception:
    shown = "dates such as 2024-03-01" if form == ISO else f"dates of the form {form}"
    repair = "Correct it, list it in `missing_values`, or give the form of the column in `dates`."
    return must(name, f"a column of {shown}", value, f"{where} {repair}")
