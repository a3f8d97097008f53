"""How the text of a CSV file is to be read: its encoding, separator, decimal mark and names, found from the text."""

import codecs
import collections
import contextlib
import csv
import dataclasses
import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from isotherm.tables.csv_file import CsvFormat
from isotherm.tables.inspection.findings import Finding, Places, found
from isotherm.tables.numerals import is_iso_date, number_of

_BLOCK_BYTES, _START_BYTES = 2**22, 2**18
_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NUL_BYTES = 2**10  # at the start, in which NUL bytes show text in UTF-16
_IN_UTF_16 = Finding(None, "encoding", "The text is in UTF-16.", "The spec says so in `encoding`.")
_YEARS = range(1800, 2101)


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A CSV file as its text shows it: how it is read, different names for its columns, and what is wrong with it."""

    form: CsvFormat
    names: tuple[str, ...]
    has_header: bool
    findings: tuple[Finding, ...]


def text_file(path: Path) -> TextFile:
    """Return how a CSV file is to be read. All of it is decoded, and its start is parsed."""
    encoding, findings = _encoding(path)
    with _opened(path) as file:
        content = file.read(_START_BYTES)
    start = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)("replace").decode(
        content
    )
    if len(content) == _START_BYTES:
        start = start[: start.rfind("\n") + 1]
    usual = CsvFormat().separator_of(path)
    separator = _separator(start, usual)
    lines = _fields(start, separator)
    if len(lines) < 2:
        raise ValueError("it must have a line of names and at least one row")
    decimal = "." if separator == "," else _decimal(lines[1:])
    if separator != usual:
        fault = f"The fields are separated by {_SEPARATORS[separator]}."
        findings.append(Finding(None, "separator", fault, "The spec says so in `separator`."))
    if decimal == ",":
        repair = "The spec says so in `decimal`."
        findings.append(Finding(None, "decimal", "Numbers have a decimal comma.", repair))
    has_header = _has_header(lines, decimal)
    names = (
        [x.strip() for x in lines[0]] if has_header else [f"column_{i}" for i in range(1, len(lines[0]) + 1)]
    )
    findings += _of_names(names) if has_header else [_no_header(lines[0], names, separator)]
    findings += _too_long(lines)
    form = CsvFormat(None if separator == usual else separator, decimal, encoding)
    return TextFile(form, tuple(_different(names)), has_header, tuple(findings))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with open(path, "rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
        yield file


def _blocks(path: Path) -> Iterator[bytes]:
    with _opened(path) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _encoding(path: Path) -> tuple[str, list[Finding]]:
    """Return the encoding of all of the text."""
    with _opened(path) as file:
        start = file.read(_NUL_BYTES)
    if mark := next((mark for mark in _MARKS if start.startswith(mark)), None):
        if mark == codecs.BOM_UTF8:
            fault = "The file starts with a byte-order mark, as Excel writes it."
            repair = "Nothing has to be done: it is left out when the file is read."
            return "utf-8", [Finding(None, "encoding", fault, repair)]
        return "utf-16", [_IN_UTF_16]
    if start.count(0) > len(start) / 4:  # every other byte, where the text is Latin
        return ("utf-16-be" if start[0] == 0 else "utf-16-le"), [_IN_UTF_16]
    line = _line_that_is_not(path, "utf-8")
    if line is None:
        return "utf-8", []
    encoding = "cp1252" if _line_that_is_not(path, "cp1252") is None else "latin-1"
    fault = f"The text is not in UTF-8, first in line {line:,}; it is read as {encoding}."
    repair = f'The spec says `encoding = "{encoding}"`. Check how names and levels with accents look.'
    return encoding, [Finding(None, "encoding", fault, repair)]


def _line_that_is_not(path: Path, encoding: str) -> int | None:
    """Return the number of the first line that is not in an encoding, `None` if all are."""
    decoder, lines = codecs.getincrementaldecoder(encoding)(), 1
    for block in _blocks(path):
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            return lines + block[: error.start].count(b"\n")
        lines += block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return lines
    return None


def _fields(text: str, separator: str) -> list[list[str]]:
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    return [line for line in lines if line]


def _separator(text: str, usual: str) -> str:
    """Return the separator that gives most lines as many fields as the first has, and at least two."""
    best, best_share = usual, 0.0
    for separator in (usual, *(s for s in _SEPARATORS if s != usual)):
        counts = collections.Counter(len(line) for line in _fields(text, separator))
        first = len(next(iter(_fields(text, separator)), []))
        share = counts[first] / max(sum(counts.values()), 1) if first > 1 else 0.0
        if share > best_share + 0.1:
            best, best_share = separator, share
    return best


def _decimal(lines: Sequence[Sequence[str]]) -> str:
    """Return the decimal mark: a comma if fields have it that are no numbers with a point, and none needs a point."""
    fields = {x.strip() for line in lines for x in line if any(c.isdigit() for c in x)}
    with_comma = sum("," in x and number_of(x, ",") is not None and not _is_in_groups(x) for x in fields)
    with_point = sum(number_of(x, ".") is not None and number_of(x, ",") is None for x in fields)
    return "," if with_comma > with_point else "."


def _is_in_groups(text: str) -> bool:
    """Return whether the comma may stand between thousands, as in 1,234."""
    return number_of(text, ".") is not None


def _has_header(lines: Sequence[Sequence[str]], decimal: str) -> bool:
    """Return whether the first line names the columns: it does not if a number there stands above numbers.

    Whole numbers that follow each other are names, as of years.
    """
    first, rest = lines[0], lines[1:100]
    above = [
        x.strip()
        for i, x in enumerate(first)
        if _is_value(x, decimal) and all(_is_value(line[i], decimal) for line in rest if i < len(line))
    ]
    if not above:
        return True
    if not all(x.isdigit() for x in above):
        return False
    numbers = [int(x) for x in above]
    in_order = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return in_order and (len(numbers) > 1 or numbers[0] in _YEARS)


def _is_value(text: str, decimal: str) -> bool:
    return number_of(text, decimal) is not None or is_iso_date(text)


def _no_header(values: Sequence[str], names: Sequence[str], separator: str) -> Finding:
    fault = f"The first line holds values, {', '.join(values[:3])}{', ...' if len(values) > 3 else ''}, and no names."
    repair = f"Write a first line with names, such as {separator.join(names[:4])}{'...' if len(names) > 4 else ''}."
    return Finding(None, "header", fault, repair, (1,), 1, blocks=True)


def _of_names(names: Sequence[str]) -> Iterator[Finding]:
    counts = collections.Counter(names)
    for name, count in counts.items():
        if name == "":
            places = ", ".join(str(i + 1) for i, x in enumerate(names) if x == "")
            fault = f"Column {places} has no name." if count == 1 else f"Columns {places} have no name."
            yield Finding(None, "names", fault, "Name it in the first line.", blocks=True)
        elif count > 1:
            fault = f"{count} columns have this name."
            repair = "Give each column a different name in the first line."
            yield Finding(name, "names", fault, repair, blocks=True)


def _too_long(lines: Sequence[Sequence[str]]) -> Iterator[Finding]:
    width = len(lines[0])
    places = Places()
    long = [row for row, line in enumerate(lines[1:]) if len(line) > width]
    if long:
        places.add(long, len(long))
        fault = f"Rows have more fields than the first line, which has {width}."
        repair = (
            "Look for a separator at the end of a line, a column without a name, or text that needs quotes."
        )
        yield found(None, "fields", fault, repair, places, blocks=True)


def _different(names: Sequence[str]) -> list[str]:
    """Return names that all differ: `a`, `a_2`."""
    taken: list[str] = []
    for i, name in enumerate(names):
        new, k = name or f"column_{i + 1}", 2
        while new in taken:
            new, k = f"{name}_{k}", k + 1
        taken.append(new)
    return taken
