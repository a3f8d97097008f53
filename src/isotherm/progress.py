"""Progress of a long job: one bar on a terminal, a plain line per milestone elsewhere."""

import time
from types import TracebackType
from typing import Any

from rich.console import Console


class Progress:
    """Counts equal pieces of work; `total` of them."""

    def __init__(self, title: str, total: int, console: Console) -> None:
        """Nothing is shown before the `with` block is entered."""
        self.title, self.total, self.console = title, total, console
        self.done, self.began = 0, time.perf_counter()
        self.bar: Any = None

    def __enter__(self) -> "Progress":
        """Start the bar, if anybody can see it."""
        if self.console.is_terminal:
            from rich import progress

            self.bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(bar_width=24),
                progress.TaskProgressColumn(),
                progress.TextColumn("{task.fields[now]}"),
                progress.TimeRemainingColumn(compact=True),
                console=self.console,
            )
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, now="")
        return self

    def start(self, what: str) -> None:
        """Say what is being worked on."""
        if self.bar is not None:
            self.bar.update(self.task, now=what)

    def advance(self) -> None:
        """One more piece is done."""
        self.done += 1
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)

    def milestone(self, what: str) -> None:
        """A line for those who see no bar."""
        if self.bar is None:
            elapsed = time.perf_counter() - self.began
            self.console.print(
                f"{self.title}: {what}, {self.done / self.total:.0%} after {elapsed:.0f} s", highlight=False
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it stands."""
        if self.bar is not None:
            self.bar.stop()
