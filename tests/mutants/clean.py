"""The tests without a mutant: one that fails there too, on this machine, proves nothing."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path

from mutants.coverage_map import Covered


class Clean:
    """A copy of the tree without a mutant, on which each test that noticed a mutant is run once.

    `failing` holds the tests that fail there, and files that cannot be imported. It may start with those of an
    earlier run.
    """

    def __init__(self, copy: Path, run: Callable[[Path, list[Covered], str], bool], failing: Iterable[str]):
        self.copy, self.failing = copy, set(failing)
        self._run, self._lock = run, threading.Lock()
        self._known: dict[str, Future[bool]] = {}

    def passes(self, test: str, entry: Covered) -> bool:
        """Return whether a test of `entry` passes without a mutant, in its limit of time."""
        with self._lock:
            known = self._known.get(test)
            mine = known is None
            if known is None:
                known = self._known[test] = Future()
        if mine:
            try:
                known.set_result(self._run(self.copy, [entry], test))
            except BaseException as error:
                known.set_exception(error)
                raise
            if not known.result():
                with self._lock:
                    self.failing.add(test)
        return known.result()

    def without_failing(self, entries: Iterable[Covered]) -> list[Covered]:
        """Return the entries whose files can be imported here."""
        return [entry for entry in entries if entry.file not in self.failing]
