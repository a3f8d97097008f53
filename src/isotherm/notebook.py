"""Lines and tables as HTML for notebooks. Colours are those of the notebook's theme, light or dark."""

from collections.abc import Iterable, Iterator
from typing import Any

from isotherm.text import as_html

_LINE = "margin:.4em 0;max-width:60em;white-space:pre-wrap"
# Themes of notebooks centre tables and make all columns equally wide.
_TABLE = "margin:.4em 0;width:auto;table-layout:auto;border-collapse:collapse;font-size:.95em"
_RULE = "border:0;border-bottom:1px solid rgba(128,128,128,.5)"
_CELL = "padding:.2em .8em .2em 0;vertical-align:top;border:0;overflow-wrap:anywhere;text-align:"
_HEAD_CELL = f"font-weight:600;white-space:nowrap;{_CELL.replace('border:0', _RULE)}"


def html(parts: Iterable[Any]) -> str:
    """Return lines, which are strings, and tables of `isotherm.terminal` as HTML. Their text is escaped."""
    shown = (_line(part) if isinstance(part, str) else _table(part) for part in parts)
    return f'<div style="overflow-x:auto">{"".join(shown)}</div>'


def _line(text: str) -> str:
    return f'<p style="{_LINE}">{as_html(text)}</p>'


def _table(table: Any) -> str:
    head = "".join(_cells("th", _HEAD_CELL, table.columns, (column.header for column in table.columns)))
    body = "".join(
        f"<tr>{''.join(_cells('td', _CELL, table.columns, row))}</tr>"
        for row in zip(*(column.cells for column in table.columns), strict=True)
    )
    head = f"<thead><tr>{head}</tr></thead>" if table.show_header else ""
    return f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>'


def _cells(tag: str, style: str, columns: Iterable[Any], row: Iterable[Any]) -> Iterator[str]:
    for column, cell in zip(columns, row, strict=True):
        side = "right" if column.justify == "right" else "left"
        wrap = ";white-space:nowrap" if column.no_wrap else ""
        yield f'<{tag} style="{style}{side}{wrap}">{as_html(str(cell))}</{tag}>'
