"""What one pass over its rows shows about a column: kinds of values, levels, gaps, and where they are."""

import re
from collections.abc import Iterator

import numpy as np
from jaxtyping import Int64, Shaped

from isotherm.tables.checks import as_numbers, is_missing
from isotherm.tables.inspection.distinct import Counting, Distinct
from isotherm.tables.inspection.findings import Places
from isotherm.tables.numerals import ISO, as_times, is_iso_date, number_of
from isotherm.tables.statistics import Moments, level_text

Rows = Int64[np.ndarray, " n"]

MAX_LEVELS = 100  # different values that are counted
_MAX_UNITS = 5
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
            distinct, first, counts = np.unique(values, return_index=True, return_counts=True)
            self._add_levels(map(level_text, distinct), rows[first], counts)

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
            first = _first(codes, len(distinct))
            self._add_levels([str(x) for x in distinct], rows[first], np.bincount(codes))

    def _see_text(self, values: np.ndarray, rows: Rows) -> None:
        import pandas as pd

        self.is_text = True
        codes, texts = pd.factorize(values)
        texts = [str(text) for text in texts]
        counts = np.bincount(codes, minlength=len(texts))
        first = _first(codes, len(texts))
        self.distinct.see(values)
        self._add_levels(texts, rows[first], counts)
        is_date = self._count_dates(texts, counts)
        numbers = np.full(len(texts), np.nan)
        is_other = np.zeros(len(texts), bool)
        for i, text in enumerate(texts):
            found = number_of(text, self.decimal)
            if found is None:
                is_other[i] = not is_date[i]
                continue
            numbers[i], unit = found
            is_plain = unit == "" and _is_float(text, self.decimal)
            if not is_plain and (unit in self.amounts or len(self.amounts) < _MAX_UNITS):
                self.amounts.setdefault(unit, Places()).add([rows[first[i]]], int(counts[i]))
            self.numbers += int(counts[i])
        self._add_numbers(numbers[codes][~np.isnan(numbers[codes])])
        if is_other.any():
            self._see_others(texts, is_other, codes, rows, first, counts)

    def _see_others(
        self,
        texts: list[str],
        is_other: np.ndarray,
        codes: np.ndarray,
        rows: Rows,
        first: np.ndarray,
        counts: np.ndarray,
    ) -> None:
        self.others.see(is_other[codes], rows)
        other = "," if self.decimal == "." else "."
        comma = np.array([is_other[i] and number_of(text, other) is not None for i, text in enumerate(texts)])
        self.other_decimal.see(comma[codes], rows)
        if self.markers is not None:
            for i in np.flatnonzero(is_other):
                self.markers.setdefault(texts[i], Places()).add([rows[first[i]]], int(counts[i]))
            self.markers = self.markers if len(self.markers) <= MAX_LEVELS else None

    def _count_dates(self, texts: list[str], counts: np.ndarray) -> np.ndarray:
        """Count the rows that are dates in each form, and return which of the texts are dates in one of them."""
        found = np.zeros(len(texts), bool)
        alike = [i for i, text in enumerate(texts) if _LIKE_A_DATE.fullmatch(text)]
        if not alike:
            return found
        some = np.array([texts[i] for i in alike], object)
        for form in self.dates:
            if form == ISO and not any(map(is_iso_date, some)):
                continue
            is_date = as_times(some, form).notna().to_numpy()
            self.dates[form] += int(counts[alike][is_date].sum())
            found[np.array(alike)[is_date]] = True
        return found

    def _add_levels(self, texts: Iterator[str] | list[str], first: Rows, counts: np.ndarray) -> None:
        if self.levels is None:
            return
        for text, row, count in zip(texts, first, counts, strict=True):
            self.levels.setdefault(text, Places()).add([row], int(count))
            if len(self.levels) > MAX_LEVELS:
                self.levels = None
                return


def _first(codes: np.ndarray, count: int) -> np.ndarray:
    """Return where each code comes first."""
    first = np.zeros(count, int)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def _is_float(text: str, decimal: str) -> bool:
    try:
        float(text.replace(",", ".") if decimal == "," else text)
    except ValueError:
        return False
    return True
