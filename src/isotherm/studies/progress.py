"""Progress of a long job: one bar on a terminal, a plain line per milestone elsewhere."""

import time
from types import TracebackType
from typing import Any

from rich.console import Console


class Progress:
    """Counts work, `total` of it in all; `unit` names what else is counted beside it, such as data passes."""

    def __init__(self, title: str, total: int | float, console: Console, *, unit: str = "") -> None:
        """Nothing is shown before the `with` block is entered."""
        self.title, self.total, self.console, self.unit = title, total, console, unit
        self.done, self.units, self.began = 0.0, 0.0, time.perf_counter()
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

    def advance(self, work: int | float = 1, *, units: int | float = 0) -> None:
        """So much more is done."""
        self.done += work
        self.units += units
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)
            if self.unit:
                self.bar.update(self.task, now=f"{self.units:,.0f} {self.unit}")

    def milestone(self, what: str) -> None:
        """A line for those who see no bar."""
        if self.bar is None:
            elapsed, share = time.perf_counter() - self.began, self.done / max(self.total, 1e-9)
            text = f"{self.title}: {what}, {share:.0%} after {elapsed:.0f} s"
            if self.unit:
                text += f" and {self.units:,.0f} {self.unit}, about {elapsed / max(share, 1e-9) - elapsed:.0f} s left"
            self.console.print(text, highlight=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it stands."""
        if self.bar is not None:
            self.bar.stop()
