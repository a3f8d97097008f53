"""The text of a formula, cut where nothing is nested: parentheses and quotes are kept together."""

import keyword
import re
from collections.abc import Iterator
from typing import NamedTuple

from isotherm.errors import must

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_DEEPEST = 50
_WORD = re.compile(r"[\w.]")
NUMBER = re.compile(r"\d*\.?\d+(?:[eE][+-]?\d+)?")


class Piece(NamedTuple):
    """A part of a formula: its text without outer blanks, where it begins in the formula, and the sign before it."""

    text: str
    begin: int
    sign: str = "+"


def wrong(formula: str, rule: str, repair: str) -> Exception:
    """The exception for a formula: the rule that it breaks, and how it is corrected."""
    return must("formula", rule, formula, repair)


def place(text: str, begin: int) -> str:
    """Return where a part of the formula is, for a message."""
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    return f"`{shown}` at character {begin + 1}"


def open_characters(formula: str, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield the places and characters that are in no parentheses, brackets or quotes; those that open count.

    Raises if a parenthesis or a quote has no partner.
    """
    closing: list[tuple[str, int]] = []
    quote, opened = "", 0
    end = len(formula) if end is None else end
    for i in range(begin, end):
        char = formula[i]
        if quote:
            quote = "" if char == quote else quote
            continue
        if char in "\"'`":
            quote, opened = char, i
            if not closing:
                yield i, char
        elif char in _CLOSING:
            if not closing:
                yield i, char
            closing.append((_CLOSING[char], i))
            if len(closing) > _DEEPEST:
                raise wrong(formula, f"one with at most {_DEEPEST} parentheses in each other", "Simplify it.")
        elif char in _CLOSING.values():
            if not closing or closing[-1][0] != char:
                where = place(formula[i:end], i)
                raise wrong(formula, "one with balanced parentheses", f"Nothing opens {where}: remove it.")
            closing.pop()
        elif not closing:
            yield i, char
    if quote:
        where = place(formula[opened:end], opened)
        raise wrong(formula, "one whose quotes are closed", f"Close the quote {quote} before {where}.")
    if closing:
        char, opened = closing[-1]
        where = place(formula[opened:end], opened)
        raise wrong(formula, "one with balanced parentheses", f"Close {where} with `{char}`.")


def split(formula: str, marks: str, begin: int = 0, end: int | None = None) -> list[Piece]:
    """Return the parts of a formula between marks that are in no parentheses; a sign is the mark before a part."""
    end = len(formula) if end is None else end
    cuts = [(begin - 1, "+")] + [(i, c) for i, c in open_characters(formula, begin, end) if c in marks]
    ends = [i for i, _ in cuts[1:]] + [end]
    pieces = []
    for (cut, sign), stop in zip(cuts, ends, strict=True):
        text = formula[cut + 1 : stop]
        pieces.append(Piece(text.strip(), cut + 1 + len(text) - len(text.lstrip()), sign))
    return pieces


def call_of(piece: Piece) -> tuple[str, str] | None:
    """Return the function and the arguments of a part that is one call, `None` for any other."""
    match = re.match(r"([\w.]+)\s*\(", piece.text)
    if match is None or not piece.text.endswith(")"):
        return None
    inside = piece.text[match.end() : -1]
    opened = sum(1 for i, _ in open_characters(piece.text) if piece.text[i] == "(")
    return (match[1], inside) if opened == 1 else None


def unquoted(name: str) -> str | None:
    """Return the column that a text names, plainly or in backticks; `None` if it names none."""
    if re.fullmatch(r"`[^`]+`", name):
        return name[1:-1]
    return name if re.fullmatch(r"(?!\d)[\w.]+", name) and not re.fullmatch(r"\.+", name) else None


def quoted(column: str) -> str:
    """Return a column as a formula writes it, in backticks unless it is a word."""
    return column if column.isidentifier() and not keyword.iskeyword(column) else f"`{column}`"


def keyword_hint(text: str) -> str:
    """Return how to name a column like a word of Python inside of a function, if one is in the text; "" if not."""
    words = [word for word in re.findall(r"\w+", text) if keyword.iskeyword(word)]
    return f'Write Q("{words[0]}") for the column `{words[0]}` inside of functions.' if words else ""


def dots(text: str) -> list[int]:
    """Return where a `.` stands alone, for all other columns."""
    return [
        i
        for i, char in open_characters_deep(text)
        if char == "." and not (_is_word(text, i - 1) or _is_word(text, i + 1))
    ]


def open_characters_deep(text: str) -> Iterator[tuple[int, str]]:
    """Yield the places and characters that are in no quotes and in no call."""
    calls: list[bool] = []
    quote = ""
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif char in "([":
            calls.append(bool(re.search(r"[\w.`]\s*$", text[:i])))
        elif char in ")]":
            calls.pop()
        elif not any(calls):
            yield i, char


def _is_word(text: str, i: int) -> bool:
    return 0 <= i < len(text) and _WORD.match(text[i]) is not None
