"""How the command ends when it is interrupted: without a traceback, and without a crash."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

INTERRUPTED = 128 + signal.SIGINT  # the exit code of a process that Ctrl-C ended
_GRACE_SECONDS = 1.0
_ENDED = (INTERRUPTED, 128 + signal.SIGTERM)


@contextlib.contextmanager
def quiet_imports() -> Iterator[None]:
    """Let Ctrl-C end the process at once: a `KeyboardInterrupt` inside an import would be shown with a traceback."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_at_second_interrupt() -> None:
    """Let a second Ctrl-C end the process within a second, whatever it does.

    Python calls handlers of signals between its own steps: a long program of JAX would have to end first. The first
    second is for a run that is about to store its draws. On Windows nothing changes.
    """
    if os.name != "posix":
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def wait() -> None:
        presses = 0
        while presses < 2:
            presses += os.read(reader, 1)[0] == signal.SIGINT
        time.sleep(_GRACE_SECONDS)
        os.write(2, b"isotherm: interrupted twice; what was stored before is whole\n")
        os._exit(INTERRUPTED)

    threading.Thread(target=wait, name="isotherm-interrupt", daemon=True).start()


def leave_if_ended(code: int) -> None:
    """End the process here if a signal has ended the run.

    Computations of JAX may still be under way then. If the interpreter were taken down under them, it could crash.
    One of several processes has to take leave of the others.
    """
    if code in _ENDED and not _is_one_of_several():
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # a pipe that is closed
                stream.flush()
        os._exit(code)


def _is_one_of_several() -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and jax.distributed.is_initialized()


def _leave(number: int, frame: object) -> None:
    del number, frame
    os.write(2, b"isotherm: interrupted; nothing was written\n")
    os._exit(INTERRUPTED)
