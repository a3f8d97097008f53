"""Ctrl-C while chains run: the current chunk is finished, and the draws so far are kept."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from isotherm import processes

TERMINATED = 128 + signal.SIGTERM  # the exit code of a process that SIGTERM ended


class Stopped(threading.Event):
    """Set when a run is to end after its current chunk.

    `terminated` tells that SIGTERM asked for it, and `at_once` that Ctrl-C was pressed twice: draws are stored and
    not returned.
    """

    terminated, at_once = False, False


@contextmanager
def interruptible(*, terminated: bool) -> Iterator[Stopped]:
    """Yield an event that Ctrl-C sets, so that the current chunk is finished and kept. A second one sets `at_once`.

    A third is raised where it comes, which may be inside of JAX. If `terminated`, SIGTERM sets the event too: that is
    how a cluster ends a process.
    """
    stopped = Stopped()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def stop(number: int, _: object) -> None:
        # A cluster may send SIGTERM to a process and to its parent, which passes it on.
        if stopped.is_set() and number == signal.SIGINT:
            if stopped.at_once:
                raise KeyboardInterrupt
            stopped.at_once = True
        stopped.terminated |= number == signal.SIGTERM
        stopped.set()

    signals = (signal.SIGINT, signal.SIGTERM) if terminated else (signal.SIGINT,)
    previous = [signal.signal(number, stop) for number in signals]
    try:
        yield stopped
    finally:
        for number, handler in zip(signals, previous, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def share(stop: processes.Stop, stopped: threading.Event) -> None:
    """Pass an interruption on to other processes, and theirs to this one."""
    if stopped.is_set():
        stop.request()
    elif stop.requested():
        stopped.set()
