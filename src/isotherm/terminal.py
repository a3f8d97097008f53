"""Rich, with every string shown as text: no markup, no emoji codes and no control characters of the user."""

from typing import Any

from rich import progress
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


class Bar:
    """A bar of progress on a terminal, or the elapsed time if the `total` is `None`."""

    def __init__(self, title: str, total: int | float | None, console: Console) -> None:
        text = progress.TextColumn("{task.description}", markup=False)
        figures = progress.TextColumn("{task.fields[figures]}", markup=False)
        if total is None:
            columns = (progress.SpinnerColumn(), text, figures, progress.TimeElapsedColumn())
        else:
            bar = progress.BarColumn(bar_width=24)
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
