"""As what a column can be read: numbers, dates or categories; and what is wrong with the way it is written."""

import dataclasses
from collections.abc import Sequence

from isotherm.tables.inspection.column import MAX_LEVELS, ColumnFacts
from isotherm.tables.inspection.findings import Finding, Places, found
from isotherm.tables.numerals import ISO
from isotherm.text import visible

NUMBER, DATE, CATEGORY, UNUSABLE = "number", "date", "category", "unusable"
_MOST = 0.8  # share of values that decide what a column holds; the rest is taken for missing values
_MOST_MARKERS = 5  # different texts that may stand for a missing value
_SHOWN = 3  # examples in a sentence
LEAVE_OUT = "The spec leaves the column out."


@dataclasses.dataclass(frozen=True)
class Role:
    """As what a column is read.

    - `from_text`: whether it is text that is read as numbers.
    - `form`: the form of its dates; `None` if these need none.
    - `markers`: texts in it that stand for a missing value.
    - `findings`: what is wrong with the way it is written.
    """

    kind: str
    from_text: bool = False
    form: str | None = None
    markers: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def role_of(facts: ColumnFacts) -> Role:
    """Return as what a column that has values is read."""
    markers = facts.markers if facts.markers is not None and len(facts.markers) <= _MOST_MARKERS else None
    form, dates = max(facts.dates.items(), key=lambda item: item[1])
    if facts.times == facts.present:
        return Role(DATE)
    if (
        dates > 0
        and markers is not None
        and dates + facts.others.count == facts.present
        and _is_most(dates, facts)
    ):
        return _dates(facts, form, markers)
    if facts.numbers > 0 and markers is not None and facts.numbers + facts.others.count == facts.present:
        if facts.other_decimal.count:
            return _two_marks(facts)
        if _is_most(facts.numbers, facts):
            return _numbers(facts, markers)
    if facts.other_decimal.count == facts.others.count > 0 and facts.markers is None:
        return _two_marks(facts)
    return Role(CATEGORY) if facts.levels is not None else _too_many(facts)


def _is_most(count: int, facts: ColumnFacts) -> bool:
    return count >= _MOST * facts.present


def _dates(facts: ColumnFacts, form: str, markers: dict[str, Places]) -> Role:
    findings = [_of_markers(facts, markers, "dates")] if markers else []
    also = [f for f, count in facts.dates.items() if count == facts.dates[form] and f != form]
    if form == ISO:
        repair = "The spec counts days, from the first of January of the first row's year."
        findings.append(found(facts.name, "dates", "Dates.", repair))
    else:
        fault = f"Dates of the form {form}{f', or {also[0]}' if also else ''}."
        repair = "The spec says so in `dates`, and counts days."
        repair += " Both forms fit every row: check which it is." if also else ""
        findings.append(found(facts.name, "dates", fault, repair))
    return Role(DATE, form=None if form == ISO else form, markers=tuple(markers), findings=tuple(findings))


def _numbers(facts: ColumnFacts, markers: dict[str, Places]) -> Role:
    units = {unit: places for unit, places in facts.amounts.items() if unit}
    if len(units) > 1:
        names = sorted(units, key=lambda unit: -units[unit].count)
        rare = Places()
        for unit in names[1:]:
            rare.add(units[unit].first, units[unit].count)
        fault = f"Numbers in different units, {listed(names)}. Rows with another than {visible(names[0])}:"
        repair = f"Convert them to one unit. {LEAVE_OUT}"
        return Role(UNUSABLE, findings=(found(facts.name, "units", fault, repair, rare),))
    findings = []
    if facts.amounts:
        every = Places()
        for places in facts.amounts.values():
            every.add(places.first, places.count)
        unit = f" with the unit {visible(next(iter(units)))}" if units else " with marks between thousands"
        fault = f"Numbers written as text{unit}."
        findings.append(found(facts.name, "numbers", fault, "The spec reads them, by `numbers`.", every))
    elif facts.is_text and not markers:
        fault = "Numbers that are stored as text."
        findings.append(found(facts.name, "numbers", fault, "The spec reads them, by `numbers`."))
    if markers:
        findings.append(_of_markers(facts, markers, "numbers"))
    return Role(NUMBER, from_text=facts.is_text, markers=tuple(markers), findings=tuple(findings))


def _of_markers(facts: ColumnFacts, markers: dict[str, Places], what: str) -> Finding:
    fault = f"Text between {what}: {listed(list(markers))}."
    return found(
        facts.name, "mixed", fault, "The spec takes it for missing, by `missing_values`.", facts.others
    )


def _two_marks(facts: ColumnFacts) -> Role:
    marks = ("comma", "point") if facts.decimal == "." else ("point", "comma")
    fault = f"Numbers with a decimal {marks[0]}, where the rest of the table has a decimal {marks[1]}."
    repair = f"Write them with a {marks[1]}. {LEAVE_OUT}"
    return Role(UNUSABLE, findings=(found(facts.name, "decimal", fault, repair, facts.other_decimal),))


def _too_many(facts: ColumnFacts) -> Role:
    if facts.distinct.finish():
        fault, kind = "Text that differs in all rows, such as an identifier.", "identifier"
    else:
        fault, kind = f"Text with more than {MAX_LEVELS} different values, such as names.", "levels"
    return Role(UNUSABLE, findings=(found(facts.name, kind, fault, LEAVE_OUT),))


def listed(names: Sequence[str]) -> str:
    """Return the first few names in quotes."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f'"{visible(name)}"' for name in names[:_SHOWN]) + more
