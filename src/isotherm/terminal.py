"""Rich, with every string shown as text: no markup, no emoji codes and no control characters of the user."""

from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from isotherm.text import visible, visible_lines


def new_console(*, stderr: bool = False, width: int | None = None, **options: Any) -> Console:
    """Return a console that reads no markup in strings."""
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, **options)


def literal(text: str, style: str = "") -> Text:
    """Return text of one or more lines that is shown as it is."""
    return Text(visible_lines(text), style)


class Table(RichTable):
    """A table whose cells are text of one line each. Titles of columns may have several."""

    def add_column(self, header: RenderableType = "", *args: Any, **options: Any) -> None:
        """Add a column; `options` are those of Rich."""
        RichTable.add_column(self, _as_text(header, visible_lines), *args, **options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row; `options` are those of Rich."""
        RichTable.add_row(self, *(_as_text(cell, visible) for cell in cells), **options)


def _as_text(cell: Any, escaped: Any) -> Any:
    return Text(escaped(cell)) if isinstance(cell, str) else cell
