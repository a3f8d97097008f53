"""Formulas of regressions, read from their text."""

import re

from isotherm.errors import must
from isotherm.tables.formulas.expressions import expression
from isotherm.tables.formulas.factors import terms
from isotherm.tables.formulas.formula import Formula, is_column
from isotherm.tables.formulas.scan import (
    NUMBER,
    Piece,
    call_of,
    dots,
    open_characters,
    place,
    quoted,
    split,
    unquoted,
    wrong,
)
from isotherm.tables.formulas.terms import GroupTerm, SmoothTerm, check_term, group_terms, smooth_term

LEFT_ROLES = {"trials": "trials", "weights": "weights", "cens": "censored", "rate": "exposure"}
RIGHT_ROLES = ("offset", "exposure", "weights", "trials")
_MAX_LENGTH = 50_000  # characters
_ALL = "all other columns"  # stands for . while terms are checked


def parse(text: object) -> Formula:
    """Return a formula in parts. Raises a sentence that names the place where it is wrong, and the repair."""
    if not isinstance(text, str):
        raise must("formula", 'a text such as "y ~ x"', text, error=TypeError)
    if len(text) > _MAX_LENGTH:
        raise wrong(text, f"a text of at most {_MAX_LENGTH} characters", "Use `.` for all other columns.")
    flat = re.sub(r"\s", " ", text).strip()
    if not flat:
        raise wrong(text, 'a text such as "y ~ x"', "Write the target, a ~ and the terms.")
    sides = split(flat, "~")
    if len(sides) != 2:
        found = (
            "It has none."
            if len(sides) == 1
            else f"The second is before {place(sides[2].text, sides[2].begin)}."
        )
        raise wrong(flat, "one with a single ~ between target and terms", f"{found} Write it like `y ~ x`.")
    left, right = sides
    if not left.text:
        raise wrong(flat, "one with a target before the ~", "Write it like `y ~ x`.")
    if not right.text:
        raise wrong(flat, "one with terms after the ~", "Write it like `y ~ x`, or `y ~ 1` for no columns.")
    target, special = _left(flat, left)
    return _right(flat, right, target, special)


def _left(formula: str, side: Piece) -> tuple[str, dict[str, str]]:
    parts = split(formula, "|", side.begin, side.begin + len(side.text))
    target, special = _variable(formula, parts[0], "target"), {}
    if len(parts) > 2:
        where = place(parts[2].text, parts[2].begin)
        raise wrong(formula, "one with a single | before the ~", f"Join with +: {where}.")
    if len(parts) == 2:
        added = parts[1]
        for piece in split(formula, "+", added.begin, added.begin + len(added.text)):
            call = call_of(piece)
            if call is None or call[0] not in LEFT_ROLES:
                allowed = ", ".join(f"{name}(column)" for name in LEFT_ROLES)
                where = (
                    place(piece.text, piece.begin)
                    if piece.text
                    else f"what follows {place('|', added.begin - 1)}"
                )
                raise wrong(formula, f"one with {allowed} between | and ~", f"Correct {where}.")
            _add_role(formula, special, LEFT_ROLES[call[0]], call[1], piece)
    return target, special


def _right(formula: str, side: Piece, target: str, special: dict[str, str]) -> Formula:
    fixed: list[Piece] = []
    groups: list[GroupTerm] = []
    smooths: list[SmoothTerm] = []
    intercept = True
    for piece in split(formula, "+-", side.begin, side.begin + len(side.text)):
        if not piece.text:
            if piece is not None and piece.begin == side.begin and not fixed:
                continue  # a sign before the first term
            where = f"at character {piece.begin + 1}"
            raise wrong(formula, "one with a term on each side of + and -", f"A term is missing {where}.")
        call, bar = call_of(piece), _bar(piece)
        is_special = bar or (call is not None and call[0] in (*RIGHT_ROLES, "s"))
        if is_special and piece.sign == "-":
            raise wrong(
                formula,
                "one that adds groups, curves and roles",
                f"Leave out {place(piece.text, piece.begin)}.",
            )
        if bar:
            groups += group_terms(formula, piece)
        elif call is not None and call[0] == "s":
            smooths.append(smooth_term(formula, piece, call[1]))
        elif call is not None and call[0] in RIGHT_ROLES:
            _add_role(formula, special, call[0], call[1], piece)
        elif piece.text in ("0", "1"):
            intercept = (piece.text == "1") == (piece.sign == "+")
        else:
            check_term(formula, piece)
            fixed.append(piece)
    text = " ".join([("1" if intercept else "0"), *(f"{p.sign} {p.text}" for p in fixed)])
    made = Formula(formula, target, special, text, tuple(groups), tuple(smooths))
    _check_terms(made)
    return made


def _check_terms(formula: Formula) -> None:
    """Check every factor, and that no column is in the model twice in the same way."""
    fixed = formula.fixed
    for i in reversed(dots(fixed)):
        fixed = f"{fixed[:i]}`{_ALL}`{fixed[i + 1 :]}"
    alone = {
        term[0].columns[0]
        for term in terms(fixed, formula.text)
        if len(term) == 1 and term[0].plain is not None
    }
    seen: list[str] = []
    for smooth in formula.smooths:
        if smooth.column in alone:
            repair = f"Leave `{smooth.column}` out: the curve `{smooth.text}` contains a straight line."
            raise wrong(formula.text, "one with a column and its curve once", repair)
        if smooth.column in seen:
            raise wrong(formula.text, "one with each curve once", f"Leave one `{smooth.text}` out.")
        seen.append(smooth.column)
    keys = [(group.factor, group.terms) for group in formula.groups]
    if again := [key for key in keys if keys.count(key) > 1]:
        raise wrong(
            formula.text, "one with each group term once", f"Leave one `({again[0][1]} | {again[0][0]})` out."
        )
    whole = [group.factor for group in formula.groups if group.terms.startswith("1")]
    if again := [factor for factor in whole if whole.count(factor) > 1]:
        repair = f"Write (0 + x | {again[0]}) for a term without one."
        raise wrong(formula.text, f"one with a single intercept in the groups of {again[0]}", repair)
    for group in formula.groups:
        terms(group.terms, formula.text)


def _bar(piece: Piece) -> bool:
    """Return whether a part is `(terms | factor)`."""
    if not (piece.text.startswith("(") and piece.text.endswith(")")):
        return False
    opened = [i for i, _ in open_characters(piece.text)]
    return opened == [0] and any(
        char == "|" for _, char in open_characters(piece.text, 1, len(piece.text) - 1)
    )


def _add_role(formula: str, special: dict[str, str], role: str, inside: str, piece: Piece) -> None:
    where = place(piece.text, piece.begin)
    if not inside.strip():
        raise wrong(
            formula, f"one whose {role} names a column", f"Write `{role}(column)` in place of {where}."
        )
    value = _variable(formula, Piece(inside.strip(), piece.begin), role)
    if role == "offset":
        call = call_of(Piece(inside.strip(), 0))
        if call is not None and call[0] in ("log", "np.log") and unquoted(call[1].strip()) is not None:
            role, value = "exposure", str(unquoted(call[1].strip()))
        elif role in special:
            value = f"{_as_term(special[role])} + {_as_term(value)}"
            del special[role]
    if role in special:
        raise wrong(formula, f"one with a single {role}", f"Leave out {where}.")
    special[role] = value


def _as_term(value: str) -> str:
    return quoted(value) if is_column(value) else f"({value})"


def _variable(formula: str, piece: Piece, role: str) -> str:
    """Return the column that a text names, or else the text of an expression of columns."""
    if piece.text == "":
        raise wrong(formula, f"one with a {role}", f"Nothing is at character {piece.begin + 1}.")
    column = unquoted(piece.text)
    if column is not None:
        return column
    call = call_of(piece)
    if call is not None and call[0] == "cbind":
        repair = "Write `successes | trials(n) ~ ...`, with a column of the numbers of trials."
        raise wrong(formula, "one with a single target", repair)
    if call is not None and call[0] == "Surv":
        repair = "Write `time | cens(c) ~ ...`, with c = 1 where the event had not happened yet."
        raise wrong(formula, "one with a time as target", repair)
    if NUMBER.fullmatch(piece.text):
        raise wrong(formula, f"one whose {role} is a column", f"Name a column in place of {piece.text}.")
    checked = expression(piece.text, formula)
    if not checked.elementwise or not checked.columns:
        rule = f"one whose {role} is a column, or arithmetic of columns"
        raise wrong(formula, rule, f"Correct {place(piece.text, piece.begin)}.")
    return piece.text
