"""Records that print as a table."""

from typing import ClassVar


class Printed:
    """A base class that prints what `__rich_console__` shows, `width` columns wide. Dataclasses need `repr=False`."""

    width: ClassVar[int] = 110

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=self.width, force_terminal=False)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    __repr__ = __str__
