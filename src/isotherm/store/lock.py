"""One writer at a time: a lock on a run's folder that ends with its process, however that ends."""

import os
from pathlib import Path

from isotherm.errors import must

LOCK = "lock"  # name of the file


def is_locked(folder: Path) -> bool:
    """Return whether a process writes to a folder."""
    try:
        Lock(folder).release()
    except ValueError:
        return True
    except OSError:  # a folder that may be read only
        return False
    return False


class Lock:
    """A lock on a folder, held until `release` or the end of the process.

    A child made by `fork` does not hold it: its copy of the file is closed on `exec`.
    """

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        self.file: int | None = os.open(folder / LOCK, flags, 0o666)
        if not _locked(self.file):
            self.release()
            raise must(
                "store",
                "a folder that no other process writes to",
                str(folder),
                "Wait for the run that is under way there, or choose another folder.",
            )

    def release(self) -> None:
        """Let another process write."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


def _locked(file: int) -> bool:
    if os.name == "nt":
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # pyrefly: ignore
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
