"""Terms that formulaic does not know: `(terms | factor)` for effects of groups, and `s(column)` for curves."""

import dataclasses
import re

from isotherm.tables.formulas.factors import terms
from isotherm.tables.formulas.scan import Piece, open_characters, place, quoted, split, unquoted, wrong

_MIN_SIZE, _MAX_SIZE = 4, 200  # knots of a curve


@dataclasses.dataclass(frozen=True)
class GroupTerm:
    """The effects of groups: `terms` have coefficients of their own in each level of `factor`.

    - `factor`: the name of the groups, `a:b` for those of two columns together, which are in `columns`.
    - `terms`: as in a formula, beginning with `1` or `0`; `reads` are all columns in terms and factor.
    - `correlated`: whether the coefficients of a level may be correlated.
    """

    factor: str
    columns: tuple[str, ...]
    terms: str
    correlated: bool
    reads: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SmoothTerm:
    """A curve along a column, with `size` knots at most."""

    column: str
    size: int = 10

    @property
    def text(self) -> str:
        """The curve as a formula writes it."""
        return f"s({self.column})"


def group_terms(formula: str, piece: Piece) -> list[GroupTerm]:
    """Return the terms that `(terms | factor)` stands for; `a/b` is a, and b within a."""
    begin, end = piece.begin + 1, piece.begin + len(piece.text) - 1
    bars = [i for i, char in open_characters(formula, begin, end) if char == "|"]
    where = place(piece.text, piece.begin)
    double = len(bars) == 2 and bars[1] == bars[0] + 1
    if len(bars) != 1 and not double:
        raise wrong(
            formula, "one with a single | or || in a group term", f"Write (1 | group) in place of {where}."
        )
    left, right = formula[begin : bars[0]].strip(), formula[bars[-1] + 1 : end].strip()
    if not left:
        raise wrong(
            formula, "one with terms before each |", f"Write (1 | {right or 'group'}) in place of {where}."
        )
    if not right:
        raise wrong(formula, "one with a group after each |", f"Name the column of the groups in {where}.")
    own = _terms(formula, left, formula.index(left, begin))
    found = [
        GroupTerm(":".join(columns), columns, own, not double, ())
        for columns in _factors(formula, right, piece)
    ]
    return [dataclasses.replace(term, reads=_reads(formula, term)) for term in found]


def smooth_term(formula: str, piece: Piece, inside: str) -> SmoothTerm:
    """Return the curve that `s(column, k=10)` stands for."""
    parts = [p.text for p in split(inside, ",")]
    where, column = place(piece.text, piece.begin), unquoted(parts[0])
    if column is None:
        raise wrong(formula, "one with curves along a column, `s(x)`", f"Name the column in {where}.")
    size = 10
    for part in parts[1:]:
        name, is_option, value = (x.strip() for x in part.partition("="))
        if not is_option:
            repair = f"Write `s({quoted(column)}) + s({quoted(name)})` in place of {where}."
            raise wrong(formula, "one with curves along one column each", repair)
        if name == "by":
            repair = f"Write the interaction with terms such as cr(x, df=5) in place of {where}."
            raise wrong(formula, "one with a curve for all rows", repair)
        if name != "k":
            raise wrong(formula, "one whose curves have no option but `k`", f"Leave `{name}` out of {where}.")
        if not re.fullmatch(r"\d{1,9}", value) or not _MIN_SIZE <= int(value) <= _MAX_SIZE:
            rule = f"one whose curves have k, the number of knots, from {_MIN_SIZE} to {_MAX_SIZE}"
            raise wrong(formula, rule, f"Correct {where}.")
        size = int(value)
    return SmoothTerm(column, size)


def _terms(formula: str, text: str, begin: int) -> str:
    """Return terms with their intercept first, `1` unless it is taken away."""
    intercept, rest = True, []
    for piece in split(formula, "+-", begin, begin + len(text)):
        if piece.text in ("0", "1"):
            intercept = (piece.text == "1") == (piece.sign == "+")
        elif piece.text:
            rest.append(f"{piece.sign} {piece.text}")
        elif piece.begin != begin:
            raise wrong(formula, "one with a term on each side of + and -", f"Correct {place(text, begin)}.")
    if not intercept and not rest:
        raise wrong(
            formula, "one whose groups have effects", f"Write (1 | group) in place of {place(text, begin)}."
        )
    return " ".join(["1" if intercept else "0", *rest])


def _factors(formula: str, text: str, piece: Piece) -> list[tuple[str, ...]]:
    """Return the columns of each factor in `a`, `a:b` or `a/b`."""
    where = place(piece.text, piece.begin)
    if any(char in "+*(" for _, char in open_characters(text)):
        rule = "one whose groups are a column, `a:b` for those of two together, or `a/b` for nested ones"
        raise wrong(
            formula, rule, f"Write several groups as several terms, (1 | a) + (1 | b), in place of {where}."
        )
    nested, found = (), []
    for part in split(text, "/"):
        names = [unquoted(p.text) for p in split(part.text, ":")]
        if None in names:
            rule = "one whose groups are columns of the table"
            raise wrong(formula, rule, f"Name a column after the | of {where}.")
        columns = (*nested, *(name for name in names if name is not None))
        if len(set(columns)) < len(columns):
            raise wrong(formula, "one whose groups are different columns", f"A column is in {where} twice.")
        found.append(columns)
        nested = columns
    return found


def _reads(formula: str, term: GroupTerm) -> tuple[str, ...]:
    found = [name for factors in terms(term.terms, formula) for part in factors for name in part.columns]
    return tuple(dict.fromkeys([*term.columns, *found]))
