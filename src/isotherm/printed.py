"""Records that print as a table."""

import abc
from collections.abc import Iterator
from typing import Any, ClassVar

from isotherm.notebook import html


class Printed(abc.ABC):
    """A base class that prints the lines and tables of `_parts`, `width` columns wide; in a notebook, as HTML.

    Strings are text: neither markup of Rich nor control characters in them take effect. Dataclasses need
    `repr=False`.
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

        console = new_console(width=self.width, force_terminal=False)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html(self._parts())
