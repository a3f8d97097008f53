"""Progress of long work: a bar on a terminal or in a notebook, otherwise plain lines if requested."""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from isotherm.notebook import NotebookBar
from isotherm.text import visible

if TYPE_CHECKING:
    from rich.console import Console


class Progress:
    """A progress bar with figures beside it.

    **Arguments:**

    - `title`: what is being done.
    - `total`: how much work there is; `None` shows the elapsed time alone.
    - `show`: whether to show anything.
    - `console`: where to show it, standard error by default.
    - `lines`: whether to print a line for each `milestone` if no bar is visible.
    """

    def __init__(
        self,
        title: str,
        total: int | float | None = None,
        *,
        show: bool = True,
        console: "Console | None" = None,
        lines: bool = False,
    ) -> None:
        self.title, self.total, self.show, self.lines = title, total, show, lines
        self.console: Any = console
        self.done, self.began = 0.0, time.perf_counter()
        self.figures = ""
        self.bar: Any = None

    def __enter__(self) -> "Progress":
        if not self.show:
            return self
        from isotherm.terminal import Bar, new_console

        self.console = new_console(stderr=True) if self.console is None else self.console
        if self.console.is_jupyter:
            self.bar = NotebookBar(self.title, self.total)
        elif self.console.is_terminal:
            self.bar = Bar(self.title, self.total, self.console)
        return self

    @property
    def visible(self) -> bool:
        """Whether a bar is on the screen."""
        return self.bar is not None

    @property
    def is_narrow(self) -> bool:
        """Whether the screen has no room for all figures beside the bar."""
        if self.console is None:
            return False
        from isotherm.terminal import WIDE

        return self.console.width < WIDE

    def say(self, text: str) -> None:
        """Show `text` beside the bar."""
        self.figures = text
        self._show()

    def advance(self, work: int | float = 1) -> None:
        """Count more work as done."""
        self.done += work
        self._show()

    def _show(self) -> None:
        if self.bar is not None:
            self.bar.show(self.done, self.figures)

    def count_rows(self, rows: int) -> None:
        """Count more rows as done, and show how many are done in a second."""
        self.advance(rows)
        self.say(f"{self.done / max(time.perf_counter() - self.began, 1e-9):,.0f} rows/s")

    def milestone(self, text: str) -> None:
        """Print a line if `lines` is set and no bar is visible."""
        if self.lines and self.bar is None and self.show:
            elapsed, share = time.perf_counter() - self.began, self.done / max(self.total or 0.0, 1e-9)
            left = f", about {elapsed / share - elapsed:.0f} s left" if 0 < share < 1 else ""
            line = f"{self.title}: {text}, {share:.0%} after {elapsed:.0f} s{left}"
            self.console.print(visible(line), highlight=False, markup=False, emoji=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()


class StepProgress:
    """A `Progress` over the steps of chains that shows the phase, speed, data passes and kinetic temperature.

    The first `before` steps are the `phase` before the first draw.
    """

    def __init__(
        self,
        total_steps: int,
        passes_per_step: float,
        *,
        show: bool,
        title: str,
        before: int = 0,
        phase: str = "burn-in",
    ) -> None:
        self.progress = Progress(title, total_steps, show=show)
        self.passes_per_step, self.before, self.phase = passes_per_step, before, phase
        self.began, self.began_at = time.perf_counter(), 0

    def __enter__(self) -> "StepProgress":
        self.progress.__enter__()
        self.progress.say("compiling")
        return self

    @property
    def visible(self) -> bool:
        """Whether a bar is on the screen."""
        return self.progress.visible

    def update(self, step: int, temperature: float | None) -> None:
        """Show the state after `step` steps."""
        if not self.visible:
            return
        if self.began_at == 0:  # the first chunk includes compilation, so the speed is measured from its end
            self.began, self.began_at = time.perf_counter(), step
        elapsed = time.perf_counter() - self.began
        figures = [self.phase if step < self.before else "drawing"]
        if step > self.began_at:
            figures.append(f"{(step - self.began_at) / elapsed:,.0f} steps/s")
        if not self.progress.is_narrow:
            figures.append(f"{step * self.passes_per_step:.3g} passes")
        if temperature is not None:
            figures.append(f"T {temperature:.3f}")
        self.progress.advance(step - self.progress.done)
        self.progress.say(" · ".join(figures))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.__exit__(kind, error, trace)
