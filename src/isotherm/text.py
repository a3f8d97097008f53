"""Text of users made safe to show: names of columns, levels and files cannot move a cursor or reorder a line."""

import re
from html import escape

# C0 and C1 controls and DEL; marks that change the direction of text; line separators; halves of surrogate pairs.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_A_LINE = re.compile(f"[{_UNSAFE}]")
_IN_LINES = re.compile(rf"(?![\n\t])[{_UNSAFE}]")


def visible(text: str) -> str:
    r"""Return `text` on one line, with control characters and bidirectional marks written as `\n` or `\x1b`."""
    return _IN_A_LINE.sub(_escaped, text)


def visible_lines(text: str) -> str:
    """Return what `visible` does, with line breaks and tabs as they are: for text of several lines."""
    return _IN_LINES.sub(_escaped, text)


def as_html(text: str) -> str:
    """Return text for a page or an attribute, with its control characters and bidirectional marks as escapes."""
    return escape(visible_lines(text))


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")
