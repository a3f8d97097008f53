"""A progress bar on a terminal or in a notebook; silence elsewhere."""

import time
from types import TracebackType
from typing import Any


class Stage:
    """What a warm-up is at, and for how long, on one line."""

    def __init__(self, *, show: bool) -> None:
        self.show = show
        self.bar: Any = None

    def __enter__(self) -> "Stage":
        if self.show:
            from rich import progress
            from rich.console import Console

            console = Console(stderr=True)
            if console.is_terminal or console.is_jupyter:
                columns = (progress.TextColumn("{task.description}"), progress.TimeElapsedColumn())
                self.bar = progress.Progress(
                    progress.SpinnerColumn(), *columns, console=console, transient=True
                )
                self.bar.start()
                self.task = self.bar.add_task("warm-up", total=None)
        return self

    def __call__(self, text: str) -> None:
        """Say it."""
        if self.bar is not None:
            self.bar.update(self.task, description=f"warm-up: {text}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()


class Progress:
    """Steps, steps per second, data passes, kinetic temperature and time left."""

    def __init__(self, total_steps: int, passes_per_step: float, *, show: bool, title: str) -> None:
        self.total, self.passes_per_step = total_steps, passes_per_step
        self.show, self.title = show, title
        self.bar: Any = None

    def __enter__(self) -> "Progress":
        if self.show:
            from rich import progress
            from rich.console import Console

            console = Console(stderr=True)
            if console.is_terminal or console.is_jupyter:
                self.bar = progress.Progress(
                    progress.TextColumn("{task.description}"),
                    progress.BarColumn(bar_width=24),
                    progress.TaskProgressColumn(),
                    progress.TextColumn("{task.fields[figures]}"),
                    progress.TimeRemainingColumn(compact=True),
                    console=console,
                    transient=False,
                )
                self.bar.start()
                self.task = self.bar.add_task(self.title, total=self.total, figures="compiling")
        self.began, self.began_at = time.perf_counter(), 0
        return self

    @property
    def visible(self) -> bool:
        """Whether anybody can see the bar."""
        return self.bar is not None

    def update(self, step: int, temperature: float | None) -> None:
        """Show the state after `step` steps."""
        if self.bar is None:
            return
        if self.began_at == 0:  # speed is counted from the end of the first chunk, without compilation
            self.began, self.began_at = time.perf_counter(), step
        elapsed = time.perf_counter() - self.began
        figures = [f"{step * self.passes_per_step:.3g} passes"]
        if step > self.began_at:
            figures.insert(0, f"{(step - self.began_at) / elapsed:,.0f} steps/s")
        if temperature is not None:
            figures.append(f"T {temperature:.3f}")
        self.bar.update(self.task, completed=step, figures=" · ".join(figures))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
