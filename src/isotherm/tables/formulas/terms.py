"""Terms that formulaic does not know: `(terms | factor)` for effects of groups, and `s(column)` for curves."""

import dataclasses
import re

from isotherm.tables.formulas.factors import terms
from isotherm.tables.formulas.scan import Piece, dots, open_characters, place, quoted, split, unquoted, wrong

_MIN_SIZE, _MAX_SIZE = 4, 200  # knots of a curve
_MAX_POWER, _MAX_TERMS = 5, 10_000


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


def check_term(formula: str, piece: Piece) -> None:
    """Refuse what formulaic would read in a way of its own."""
    for i, char in open_characters(formula, piece.begin, piece.begin + len(piece.text)):
        if char in "{[|":
            what = {
                "{": "braces: write I(...)",
                "[": "brackets",
                "|": "| outside of parentheses: write (1 | group)",
            }
            raise wrong(formula, f"one without {what[char]}", f"Correct {place(formula[i:], i)}.")
        if char in "=<>!,;@#$?&\\\"'":
            known = "=<>!" if char in "=<>!" else ""
            repair = "Write comparisons as I(x > 1)." if known else "Join terms with +."
            raise wrong(
                formula, f"one without `{char}` between terms", f"It is at character {i + 1}. {repair}"
            )
    for match in re.finditer(r"(?:\*\*|\^)\s*(\S+)", piece.text):
        before = piece.text[: match.start()].rstrip()
        inside_call = not any(begin == match.start() for begin, _ in open_characters(piece.text))
        if inside_call:
            continue
        if not before.endswith(")"):
            raise wrong(
                formula,
                "one whose powers are of sums in parentheses, for their interactions",
                f"For a square write I(x**2) or poly(x, 2) in place of {place(piece.text, piece.begin)}.",
            )
        power = match[1].rstrip(")")
        if power.isdigit() and int(power) > _MAX_POWER:
            raise wrong(
                formula, f"one with interactions of at most {_MAX_POWER} columns", f"The power is {power}."
            )
        if power.isdigit() and (before.count("+") + 1) ** int(power) > _MAX_TERMS:
            raise wrong(
                formula, f"one with at most {_MAX_TERMS} terms", f"Shorten {place(piece.text, piece.begin)}."
            )


def _terms(formula: str, text: str, begin: int) -> str:
    """Return terms with their intercept first, `1` unless it is taken away."""
    intercept, rest = True, []
    for piece in split(formula, "+-", begin, begin + len(text)):
        if piece.text in ("0", "1"):
            intercept = (piece.text == "1") == (piece.sign == "+")
        elif dots(piece.text):
            raise wrong(
                formula,
                "one whose groups name their terms",
                f"Name the columns in place of {place(text, begin)}.",
            )
        elif piece.text:
            check_term(formula, piece)
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
