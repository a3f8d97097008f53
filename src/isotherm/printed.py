"""Records that print as a table."""

import abc
import shutil
from collections.abc import Iterator
from typing import Any, ClassVar

from isotherm.notebook import html


def beyond(x: float, limit: float, digits: int = 3) -> str:
    """Return a number above a limit with as many decimals, `digits` at least, as show that it is above."""
    while digits < 15 and not float(f"{x:.{digits}f}") > limit:
        digits += 1
    return f"{x:.{digits}f}"


class Printed(abc.ABC):
    """A base class that prints the lines and tables of `_parts`. Dataclasses need `repr=False`.

    They are `width` columns wide, or as wide as the terminal if that is narrower; in a notebook they are HTML.
    Strings are text: neither markup of Rich nor control characters in them take effect.
    """

    width: ClassVar[int] = 110

    @abc.abstractmethod
    def _parts(self) -> Iterator[Any]:
        """Yield the lines and tables, from top to bottom."""

    def __rich_console__(self, console, options) -> Iterator[Any]:  # noqa: ANN001
        from isotherm.terminal import literal

        for part in self._parts():
            yield literal(part) if isinstance(part, str) else part

    def __str__(self) -> str:
        from isotherm.terminal import new_console

        width = min(self.width, shutil.get_terminal_size((self.width, 24)).columns)
        console = new_console(width=width, force_terminal=False)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html(self._parts())
