"""One writer at a time: a lock on a run's folder that ends with its process, however that ends."""

import os
from pathlib import Path
from typing import IO

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
        self.file: IO[bytes] = (folder / LOCK).open("a+b")
        if not _locked(self.file):
            self.file.close()
            raise must(
                "store",
                "a folder that no other process writes to",
                str(folder),
                "Wait for the run that is under way there, or choose another folder.",
            )

    def release(self) -> None:
        """Let another process write."""
        self.file.close()


def _locked(file: IO[bytes]) -> bool:
    if os.name == "nt":
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # pyrefly: ignore
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
