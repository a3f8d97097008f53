"""Rich, with every string shown as text: no markup, no emoji codes and no control characters of the user."""

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from rich import progress
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from isotherm.text import visible, visible_lines

WIDE = 100  # columns from which there is room for all figures beside a bar
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


class Bar:
    """A bar of progress on a terminal, or the elapsed time if the `total` is `None`."""

    def __init__(self, title: str, total: int | float | None, console: Console) -> None:
        text = progress.TextColumn("{task.description}", markup=False)
        figures = progress.TextColumn("{task.fields[figures]}", markup=False)
        if total is None:
            columns = (progress.SpinnerColumn(), text, figures, progress.TimeElapsedColumn())
        else:
            bar = progress.BarColumn(bar_width=10 if console.width < WIDE else 24)
            columns = (text, bar, progress.TaskProgressColumn(), figures)
            columns = (*columns, progress.TimeRemainingColumn(compact=True))
        self._bar = progress.Progress(*columns, console=console, transient=total is None)
        self._bar.start()
        self._task = self._bar.add_task(visible(title), total=total, figures="")

    def show(self, done: int | float, figures: str) -> None:
        """Show how much is done, and `figures` beside it."""
        self._bar.update(self._task, completed=done, figures=visible(figures))

    def stop(self) -> None:
        """Leave the bar as it is; the elapsed time disappears."""
        self._bar.stop()
