"""Text read as numbers: `$1,234`, `12 kg`, `1.234,5`, and days of a calendar."""

import re
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

ISO = "ISO8601"  # what pandas calls 2024-03-01, with or without a time of day
_ISO_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?\s*")
_DAY = np.timedelta64(1, "D")
_BEFORE = r"[^\w\s+\-−.,()]{0,4}|[^\W\d_]{1,4}(?=\s)"  # a sign such as $, or letters and a space
_AFTER = r"[^\d\s+\-−.,()]{0,12}"
_GROUPS = {
    ".": r"[, \u00a0\u202f'’]",
    ",": r"[. \u00a0\u202f'’]",
}  # between groups of three digits, by decimal mark
_WITHOUT_GROUPS = str.maketrans("", "", ",.' ’\u00a0\u202f")
_NUMBER = {
    mark: re.compile(
        rf"\s*(?P<before>{_BEFORE})\s*(?P<sign>[+\-−]?)\s*(?P<also>{_BEFORE})\s*"
        rf"(?P<digits>\d{{1,3}}(?:{group}\d{{3}})+|\d*)(?P<rest>(?<=\d){re.escape(mark)}\d*|{re.escape(mark)}\d+|)"
        rf"(?P<power>[eE][+-]?\d+)?\s*(?P<after>{_AFTER})\s*"
    )
    for mark, group in _GROUPS.items()
}


def number_of(text: str, decimal: str) -> tuple[float, str] | None:
    """Return the number in a text and its unit, currency or percent sign; `None` if it is not one number."""
    match = _NUMBER[decimal].fullmatch(text)
    if match is None or not (match["digits"] or match["rest"]):
        return None
    before, sign, also, digits, rest, power, after = match.groups()
    unit = before + also + after
    if unit not in (before, also, after):
        return None
    value = float(f"{digits.translate(_WITHOUT_GROUPS) or 0}{rest.replace(decimal, '.', 1)}{power or ''}")
    return (-value if sign in ("-", "−") else value), unit


def is_iso_date(text: object) -> bool:
    """Return whether a text is a date such as 2024-03-01, with or without a time of day."""
    return isinstance(text, str) and _ISO_DATE.fullmatch(text) is not None


def as_times(values: Shaped[np.ndarray, " n"], form: str) -> Any:
    """Return dates as an index of pandas in UTC; what is no date in this form is missing in it."""
    import pandas as pd

    if values.dtype.kind != "M" and form == ISO:
        values = np.array([x if not isinstance(x, str) or is_iso_date(x) else None for x in values], object)
    return pd.to_datetime(pd.Series(values), format=form, utc=True, errors="coerce")


def days_since(times: Any, origin: str) -> Float[np.ndarray, " n"]:
    """Return how many days after the start of the day `origin` each time is; NaN where it is missing."""
    instants = times.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    days = (instants - np.datetime64(origin, "us")) / _DAY
    return np.where(np.isnat(instants), np.nan, days)


def origin_of(times: Any) -> str:
    """Return the first day of the year of the first date, which must exist."""
    return f"{times.dropna().iloc[0].year:04d}-01-01"
