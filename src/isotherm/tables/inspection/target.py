"""Which model fits a target, and what is wrong with the target."""

import dataclasses

from isotherm.tables.design import FAR
from isotherm.tables.families.base import LocationFamily
from isotherm.tables.families.registry import family_of, proposed
from isotherm.tables.inspection.column import MAX_LEVELS, ColumnFacts
from isotherm.tables.inspection.findings import Finding, found
from isotherm.tables.inspection.roles import CATEGORY, NUMBER, Role
from isotherm.text import visible

_MOST_CLASSES = 10  # of whole numbers from 1
_EXPOSURE = '. If rows were observed for different times, add `exposure = "COLUMN"` under [data]'
_NAMES = ("target", "y", "label", "class", "outcome", "response")


@dataclasses.dataclass(frozen=True)
class Guess:
    """A model for a target, and why; `alternative` is another that may fit. No model if nothing fits."""

    model: str | None
    why: str = ""
    alternative: str = ""
    findings: tuple[Finding, ...] = ()


def usual_target(names: tuple[str, ...]) -> str:
    """Return the column that is most likely the target: one that is named so, or the last."""
    return next((name for usual in _NAMES for name in names if name.lower() == usual), names[-1])


def of_target(facts: ColumnFacts, role: Role | None) -> Guess:
    """Return a model for the target, and what was found in it."""
    name = facts.name
    findings = [] if role is None else list(role.findings)
    if role is None or facts.present == 0:
        return _none(
            found(name, "target", "The target has no value in any row.", "Choose another with `--target`.")
        )
    if facts.infinite.count:
        fault = "The target is infinite in some rows."
        findings.append(found(name, "infinite", fault, "Correct these rows.", facts.infinite, blocks=True))
    if facts.missing.count:
        fault = "The target is missing in some rows."
        findings.append(found(name, "target", fault, "The spec leaves these rows out.", facts.missing))
    levels = None if facts.levels is None else [x for x in facts.levels if x not in role.markers]
    if levels is not None and len(levels) == 1:
        fault = f'The target has the value "{visible(levels[0])}" in all rows.'
        repair = "Choose another with `--target`, or add rows with other values."
        return _none(*findings, found(name, "target", fault, repair))
    if role.kind not in (NUMBER, CATEGORY):
        fault = f"The target is neither numbers nor classes, of which there may be {MAX_LEVELS}."
        return _none(*findings, found(name, "target", fault, "Choose another with `--target`."))
    guess = _guess(facts, role, levels)
    is_standardized = guess.model is not None and isinstance(family_of(guess.model), LocationFamily)
    if is_standardized and abs(facts.moments.mean[0]) > FAR * facts.moments.sd[0]:
        fault = f"The target is near {facts.moments.mean[0]:g} and varies by {facts.moments.sd[0]:.2g}."
        return _none(*findings, found(name, "far", fault, "Subtract a round number near its mean."))
    return dataclasses.replace(guess, findings=tuple(findings))


def _guess(facts: ColumnFacts, role: Role, levels: list[str] | None) -> Guess:
    if levels is not None and len(levels) == 2:
        second = sorted(levels, key=float if role.kind == NUMBER and _all_numbers(levels) else str)[1]
        why = f'it has two values; the model is for the probability of "{visible(second)}"'
        return _proposed("two values", why)
    if role.kind == CATEGORY:
        return _proposed("classes", f"it has {len(levels or [])} classes")
    low, high = float(facts.moments.low[0]), float(facts.moments.high[0])
    if (
        facts.are_integers
        and low == 1
        and high <= _MOST_CLASSES
        and levels is not None
        and len(levels) == high
    ):
        return _proposed("whole numbers from 1", f"it has the whole numbers from 1 to {high:g}")
    if facts.are_integers and low in (0, 1):
        return _proposed("counts", "it has counts", _EXPOSURE)
    if low > 0:
        return _proposed("shares" if high < 1 else "positive numbers", "it has numbers")
    return _proposed("numbers", "it has numbers")


def _proposed(kind: str, why: str, hint: str = "") -> Guess:
    model, alternative = proposed(kind)
    return Guess(model, why, alternative + hint)


def _all_numbers(levels: list[str]) -> bool:
    try:
        return all(float(level) == float(level) for level in levels)
    except ValueError:  # True and False
        return False


def _none(*findings: Finding) -> Guess:
    return Guess(None, findings=(*findings[:-1], dataclasses.replace(findings[-1], blocks=True)))
