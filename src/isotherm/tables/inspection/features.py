"""What is wrong with a column as a feature, and whether a spec can use it all the same."""

import re

from isotherm.tables.design import FAR
from isotherm.tables.inspection.column import ColumnFacts
from isotherm.tables.inspection.findings import Finding, found
from isotherm.tables.inspection.roles import CATEGORY, LEAVE_OUT, NUMBER, UNUSABLE, Role, listed
from isotherm.text import visible

_FEW = 5  # rows of a level that are too few to say much
_EMPTY = 0.5  # share of missing values above which a column is left out
_YEARS = (1800, 2100)
_AN_IDENTIFIER = re.compile(
    r"(^|[_\W])(id|uuid|guid|key|index|idx|row|record|nr|no|number)s?($|[_\W])|(?<=[a-z])I[dD]$",
    re.IGNORECASE,
)
OF_LEVELS = ("alike", "rare")  # kinds of findings that matter only if the column is used
_FEWEST = 20  # rows of numbers that differ, if these are to be identifiers


def of_feature(facts: ColumnFacts, role: Role) -> tuple[list[Finding], bool]:
    """Return what was found, and whether the column can be a feature."""
    name = facts.name
    if facts.present == 0:
        return [found(name, "empty", "No row has a value.", LEAVE_OUT)], False
    findings, usable = list(role.findings), role.kind != UNUSABLE
    if facts.infinite.count:
        repair = f"Correct these values, or write them as missing. {LEAVE_OUT}"
        findings.append(found(name, "infinite", "Infinite values.", repair, facts.infinite))
        usable = False
    share = facts.missing.count / facts.rows
    if share > _EMPTY:
        findings.append(
            found(
                name, "missing", f"{100 * share:.0f} % of the values are missing.", LEAVE_OUT, facts.missing
            )
        )
        usable = False
    if usable:
        fault = _constant(facts) or (_of_numbers(facts) if role.kind == NUMBER else None)
        fault = fault or (_identifier_of_text(facts) if role.kind == CATEGORY else None)
        if fault is not None:
            findings.append(fault)
            usable = False
    if usable and role.kind == CATEGORY:
        findings += _of_levels(facts)
    return findings, usable


def _constant(facts: ColumnFacts) -> Finding | None:
    if facts.levels is None or len(facts.levels) > 1 or facts.infinite.count:
        return None
    (value,) = facts.levels
    others = f" ({facts.missing.count:,} values are missing)" if facts.missing.count else ""
    return found(facts.name, "constant", f'All rows have the value "{visible(value)}"{others}.', LEAVE_OUT)


def _of_numbers(facts: ColumnFacts) -> Finding | None:
    m = facts.moments
    mean, sd, low, high = (float(x[0]) for x in (m.mean, m.sd, m.low, m.high))
    if low == high:
        return found(facts.name, "constant", f"All rows have the value {low:g}.", LEAVE_OUT)
    if facts.are_integers and facts.present >= _FEWEST and facts.distinct.finish():
        if facts.counting.holds and not (low >= _YEARS[0] and high <= _YEARS[1]):
            return found(
                facts.name, "identifier", f"Numbers of rows, from {low:,.0f} to {high:,.0f}.", LEAVE_OUT
            )
        is_dense = high - low < 2 * facts.present
        if is_dense or _AN_IDENTIFIER.search(facts.name):
            fault = "Whole numbers that differ in all rows, such as an identifier."
            return found(facts.name, "identifier", fault, LEAVE_OUT)
    if abs(mean) > FAR * sd:
        fault = f"Values near {mean:g} that vary by {sd:.2g}: 32 bits cannot hold both."
        repair = f"Subtract a round number. {LEAVE_OUT}"
        return found(facts.name, "far", fault, repair)
    return None


def _identifier_of_text(facts: ColumnFacts) -> Finding | None:
    if facts.present < _FEWEST or not facts.distinct.finish():
        return None
    return found(facts.name, "identifier", "Text that differs in all rows, such as an identifier.", LEAVE_OUT)


def _of_levels(facts: ColumnFacts) -> list[Finding]:
    levels, findings = facts.levels or {}, []
    alike: dict[str, list[str]] = {}
    for level in levels:
        alike.setdefault(" ".join(level.split()).casefold(), []).append(level)
    for same in alike.values():
        if len(same) > 1:
            rarest = levels[min(same, key=lambda level: levels[level].count)]
            fault = f"Levels that differ in case or spaces alone: {listed(same)}. Rows of the rarest:"
            repair = "Write them alike; until then they are different levels."
            findings.append(found(facts.name, "alike", fault, repair, rarest))
    rare = [level for level, places in levels.items() if places.count < _FEW]
    if rare:
        places = levels[rare[0]]
        for level in rare[1:]:
            places.add(levels[level].first, levels[level].count)
        count = "A level" if len(rare) == 1 else f"{len(rare)} levels"
        fault = f"{count} with fewer than {_FEW} rows: {listed(rare)}."
        repair = "Its coefficient will have a wide interval; merge it with another level if that makes sense."
        if len(rare) > 1:
            repair = "Their coefficients will have wide intervals; merge levels where that makes sense."
        findings.append(found(facts.name, "rare", fault, repair, places))
    return findings
