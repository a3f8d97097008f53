"""What one pass over its rows shows about a column: kinds of values, levels, gaps, and where they are."""

import re

import numpy as np
from jaxtyping import Int64, Shaped

from isotherm.tables.checks import as_numbers, is_missing
from isotherm.tables.inspection.distinct import Counting, Distinct
from isotherm.tables.inspection.findings import Places
from isotherm.tables.numerals import ISO, as_times, number_of
from isotherm.tables.statistics import Moments, level_text

Rows = Int64[np.ndarray, " n"]

MAX_LEVELS = 100  # different values that are counted
_MORE = MAX_LEVELS + 1
_MAX_UNITS = 5
_TRIED = 100  # dates that show whether some are of a form
_LIKE_A_DATE = re.compile(r"\s*(\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}\.? [^\W\d]{3,9} \d{4})\b.*")
_DAYS = (
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d %b %Y",
)
FORMATS = (ISO, *(f"{day}{time}" for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S")))


class ColumnFacts:
    """Reads a column once. Numbers of rows are counted from 0.

    - `missing`, `infinite`, `numbers`, `other_decimal`, `others`: rows without a value, with an infinite one, with a
      number, with a number that has the other decimal mark, and with text that is neither a number nor a date.
    - `amounts`: rows with a number in text that has a unit or groups of thousands, by unit.
    - `dates`: how many rows are dates, by format; `times`, how many are of a type of dates.
    - `levels`: rows by value, as text, and `markers`, those of `others`; `None` once there are more than 100.
    - `moments`: of all finite numbers, and `are_integers`, whether these are whole.
    - `distinct`, `counting`: whether all values differ, and whether they are numbers of rows.
    - `is_text`: whether some value is text.
    """

    def __init__(self, name: str, decimal: str) -> None:
        self.name, self.decimal, self.rows = name, decimal, 0
        self.missing, self.infinite, self.others, self.other_decimal = (Places() for _ in range(4))
        self.numbers, self.amounts, self.dates, self.times = (
            0,
            dict[str, Places](),
            dict.fromkeys(FORMATS, 0),
            0,
        )
        self.levels: dict[str, Places] | None = {}
        self.markers: dict[str, Places] | None = {}
        self.moments, self.are_integers = Moments(1), True
        self.distinct, self.counting = Distinct(), Counting()
        self.is_text = False

    @property
    def present(self) -> int:
        """The number of rows with a value."""
        return self.rows - self.missing.count

    def see(self, values: Shaped[np.ndarray, " n"], rows: Rows) -> None:
        """Read some rows."""
        self.rows += len(rows)
        gaps = is_missing(values)
        if gaps.any():
            self.missing.see(gaps, rows)
            values, rows = values[~gaps], rows[~gaps]
        if len(values) == 0:
            return
        if values.dtype == object and isinstance(values[0], bool | np.bool_):
            values = as_numbers(values)
        if values.dtype.kind in "biuf":
            self._see_numbers(values, rows)
        elif values.dtype.kind == "M" or not isinstance(values[0], str):
            self._see_times(values, rows)
        else:
            self._see_text(values, rows)

    def _see_numbers(self, values: np.ndarray, rows: Rows) -> None:
        self.numbers += len(values)
        infinite = np.isinf(values)
        if infinite.any():
            self.infinite.see(infinite, rows)
            values, rows = values[~infinite], rows[~infinite]
        self._add_numbers(values)
        if self.are_integers:
            self.distinct.see(values.astype(np.float64))
            self.counting.see(values)
        if self.levels is not None:
            distinct, codes = np.unique(values, return_inverse=True)
            self.levels = _added(self.levels, [level_text(x) for x in distinct[:_MORE]], codes, rows)

    def _add_numbers(self, values: np.ndarray) -> None:
        if len(values) == 0:
            return
        self.moments.see(values)
        if self.are_integers:
            self.are_integers = bool(np.all(values == np.round(values)))

    def _see_times(self, values: np.ndarray, rows: Rows) -> None:
        import pandas as pd

        self.times += len(values)
        if self.levels is not None:
            codes, distinct = pd.factorize(values)
            self.levels = _added(self.levels, [str(x) for x in distinct[:_MORE]], codes, rows)

    def _see_text(self, values: np.ndarray, rows: Rows) -> None:
        import pandas as pd

        self.is_text = True
        self.distinct.see(values)
        codes, texts = pd.factorize(values)
        texts = [str(text) for text in texts]
        if self.levels is not None:
            self.levels = _added(self.levels, texts, codes, rows)
        if self._is_other_text:
            return
        read = [number_of(text, self.decimal) for text in texts]
        numbers = np.array([np.nan if x is None else x[0] for x in read])[codes]
        self._add_numbers(numbers[~np.isnan(numbers)])
        self.numbers += int((~np.isnan(numbers)).sum())
        self._see_amounts(texts, read, codes, rows)
        is_date = self._count_dates(texts, np.bincount(codes, minlength=len(texts)))
        is_other = np.array([x is None for x in read]) & ~is_date
        if is_other.any():
            self._see_others(texts, is_other, codes, rows)

    @property
    def _is_other_text(self) -> bool:
        """Whether so much text is neither a number nor a date that the rest no longer matters."""
        return self.markers is None and self.other_decimal.count < self.others.count

    def _see_amounts(
        self, texts: list[str], read: list[tuple[float, str] | None], codes: np.ndarray, rows: Rows
    ) -> None:
        """Note the rows with numbers that only `number_of` can read."""
        units = [
            None if x is None or (x[1] == "" and _is_float(text, self.decimal)) else x[1]
            for text, x in zip(texts, read, strict=True)
        ]
        for unit in dict.fromkeys(unit for unit in units if unit is not None):
            if unit in self.amounts or len(self.amounts) < _MAX_UNITS:
                mask = np.array([x == unit for x in units])[codes]
                self.amounts.setdefault(unit, Places()).see(mask, rows)

    def _see_others(self, texts: list[str], is_other: np.ndarray, codes: np.ndarray, rows: Rows) -> None:
        self.others.see(is_other[codes], rows)
        other = "," if self.decimal == "." else "."
        in_other = [is_other[i] and number_of(text, other) is not None for i, text in enumerate(texts)]
        self.other_decimal.see(np.array(in_other)[codes], rows)
        if self.markers is not None:
            which = np.flatnonzero(is_other)
            new = np.full(len(texts), -1)
            new[which] = np.arange(len(which))
            self.markers = _added(self.markers, [texts[i] for i in which], new[codes], rows)

    def _count_dates(self, texts: list[str], counts: np.ndarray) -> np.ndarray:
        """Count the rows that are dates in each form, and return which of the texts are dates in one of them."""
        found = np.zeros(len(texts), bool)
        alike = [i for i, text in enumerate(texts) if _LIKE_A_DATE.fullmatch(text)]
        if not alike:
            return found
        some = np.array([texts[i] for i in alike], object)
        for form in self.dates:
            if not as_times(some[:_TRIED], form).notna().any():
                continue
            is_date = as_times(some, form).notna().to_numpy()
            self.dates[form] += int(counts[alike][is_date].sum())
            found[np.array(alike)[is_date]] = True
        return found


def _added(
    levels: dict[str, Places], texts: list[str], codes: Int64[np.ndarray, " n"], rows: Rows
) -> dict[str, Places] | None:
    """Return levels with those of more rows, of which `codes` gives the number among `texts`; -1 for none of them."""
    if len({*levels, *texts}) > MAX_LEVELS:
        return None
    for i, text in enumerate(texts):
        levels.setdefault(text, Places()).see(codes == i, rows)
    return levels


def _is_float(text: str, decimal: str) -> bool:
    try:
        float(text.replace(",", ".") if decimal == "," else text)
    except ValueError:
        return False
    return True
