"""Lines, tables and progress as HTML for notebooks. Colours are those of the notebook's theme, light or dark."""

import contextvars
import math
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from isotherm.text import as_html, visible

_LINE = "margin:.4em 0;max-width:60em;white-space:pre-wrap"
# Themes of notebooks centre tables and make all columns equally wide.
_TABLE = "margin:.4em 0;width:auto;table-layout:auto;border-collapse:collapse;font-size:.95em"
_RULE = "border:0;border-bottom:1px solid rgba(128,128,128,.5)"
_CELL = "padding:.2em .8em .2em 0;vertical-align:top;border:0;overflow-wrap:anywhere;text-align:"
_HEAD_CELL = f"font-weight:600;white-space:nowrap;{_CELL.replace('border:0', _RULE)}"

_BAR = "width:14em;vertical-align:middle"
_SECONDS = 0.1  # between two updates of a bar
_TICK = 1.0  # seconds between two updates of the times


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


class NotebookBar:
    """A bar of progress in the output of a cell, or the elapsed time if the `total` is `None`.

    It is HTML that is replaced in its place, which every kind of notebook shows and keeps; widgets need an extension.
    """

    def __init__(self, title: str, total: int | float | None) -> None:
        from IPython.display import display

        self.title, self.total = title, total
        self.began, self.shown_at = time.perf_counter(), -math.inf
        self.done, self.figures = 0.0, ""
        self.handle = display(self._bundle(), raw=True, display_id=True)
        self.lock, self.stopped = threading.Lock(), threading.Event()
        # In the context of the cell, to whose output it belongs.
        self.clock = threading.Thread(target=contextvars.copy_context().run, args=(self._tick,), daemon=True)
        self.clock.start()

    def show(self, done: int | float, figures: str) -> None:
        """Show how much is done, and `figures` beside it; a bar is drawn at most ten times a second."""
        self.done, self.figures = done, figures
        if self.total is None or time.perf_counter() - self.shown_at > _SECONDS:
            self._update(self._bundle())

    def stop(self) -> None:
        """Leave the bar as it is; the elapsed time disappears."""
        self.stopped.set()
        self.clock.join()
        nothing = {"text/plain": "", "text/html": ""}
        self._update(nothing if self.total is None else self._bundle(ended=True))

    def _tick(self) -> None:
        """Update the times while nothing else does, such as during a long compilation."""
        while not self.stopped.wait(_TICK):
            if time.perf_counter() - self.shown_at > _TICK:
                self._update(self._bundle())

    def _update(self, bundle: dict[str, str]) -> None:
        with self.lock:
            self.shown_at = time.perf_counter()
            if self.handle is not None:  # there is none without a running shell
                self.handle.update(bundle, raw=True)

    def _bundle(self, *, ended: bool = False) -> dict[str, str]:
        elapsed = time.perf_counter() - self.began
        if self.total is None:
            bar, parts = "", [self.title, self.figures, f"{elapsed:.0f} s"]
        else:
            share = min(1.0, self.done / max(self.total, 1e-9))
            duration = (
                f"{elapsed:.1f} s" if ended else f"{elapsed / share - elapsed:.0f} s left" if share else ""
            )
            bar = f'<progress style="{_BAR}" value="{share:.3f}" max="1"></progress> '
            parts = [self.title, f"{share:.0%}", self.figures, duration]
        text = " · ".join(filter(None, parts))
        return {"text/plain": visible(text), "text/html": f'<p style="{_LINE}">{bar}{as_html(text)}</p>'}
