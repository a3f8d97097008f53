"""Ctrl-C between computations instead of inside them.

JAX runs callbacks in which Python drops a `KeyboardInterrupt`: the run would go on as if Ctrl-C had not been pressed.
And an interpreter that is interrupted while JAX compiles may crash when it ends.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_MOST_HELD = 2  # presses of Ctrl-C; the next is raised wherever it comes
_held = 0


@contextmanager
def deferred() -> Iterator[None]:
    """Hold Ctrl-C back until `check` is called or the block ends, whatever runs inside the block.

    A third one is raised where it comes: it ends code that does not return. Nothing changes in other threads than the
    main one, inside another such block, and if the caller has a handler for Ctrl-C.
    """
    global _held
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    _held = 0
    signal.signal(signal.SIGINT, _hold)
    try:
        yield
        check()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def immediate() -> Iterator[None]:
    """Let Ctrl-C be raised at once inside the block, in which the user is asked for something."""
    if signal.getsignal(signal.SIGINT) is not _hold:
        yield
        return
    check()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _hold)


def check() -> None:
    """Raise a `KeyboardInterrupt` if Ctrl-C was held back. Computations that are under way are waited for."""
    global _held
    if _held and threading.current_thread() is threading.main_thread():
        _held = 0
        _wait()
        raise KeyboardInterrupt


def _wait() -> None:
    """Wait for computations that are under way."""
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX has no public name for it
    if bridge is None or not bridge.backends_are_initialized():
        return
    for array in sys.modules["jax"].live_arrays():
        with suppress(Exception):  # one that was given away, or whose computation failed
            array.block_until_ready()


def _hold(number: int, frame: object) -> None:
    global _held
    _held += 1
    if _held > _MOST_HELD:
        signal.default_int_handler(number, None)
