"""Rich, with every string shown as text: no markup, no emoji codes and no control characters of the user."""

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from isotherm.text import visible, visible_lines

_NAME_WIDTH = 18  # of the first column, if a table is too wide: longer names are wrapped


def new_console(*, stderr: bool = False, width: int | None = None, **options: Any) -> Console:
    """Return a console that reads no markup in strings."""
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, **options)


def literal(text: str, style: str = "") -> Text:
    """Return text of one or more lines that is shown as it is."""
    return Text(visible_lines(text), style)


class Table(RichTable):
    """A table whose cells are text of one line each. Titles of columns may have several.

    If no column but the first may be wrapped, and they are too wide together, it is shown in parts below each other,
    each of which starts with the first column.
    """

    def add_column(self, header: RenderableType = "", *args: Any, **options: Any) -> None:
        """Add a column; `options` are those of Rich."""
        RichTable.add_column(self, _as_text(header, visible_lines), *args, **options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row; `options` are those of Rich."""
        RichTable.add_row(self, *(_as_text(cell, visible) for cell in cells), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        """Yield the table, or its parts."""
        rest = self.columns[1:]
        if len(rest) < 2 or not all(column.no_wrap for column in rest):
            yield from RichTable.__rich_console__(self, console, options)
            return
        widths = [_width(column) for column in rest]
        begin, room = 0, options.max_width - min(_width(self.columns[0]), _NAME_WIDTH)
        while begin < len(widths):
            end = begin + 1
            while end < len(widths) and sum(widths[begin : end + 1]) <= room:
                end += 1
            yield from RichTable.__rich_console__(
                self._with([0, *range(begin + 1, end + 1)]), console, options
            )
            begin = end

    def _with(self, index: list[int]) -> "Table":
        """Return the table with some of its columns."""
        part = copy.copy(self)
        part.columns = [dataclasses.replace(self.columns[i], _index=k) for k, i in enumerate(index)]
        return part


def _width(column: Column) -> int:
    """Return how wide a column and the space beside it are."""
    lines = (line for cell in (column.header, *column.cells) for line in str(cell).splitlines())
    return max(map(cell_len, lines), default=0) + 2


def _as_text(cell: Any, escaped: Any) -> Any:
    return Text(escaped(cell)) if isinstance(cell, str) else cell
