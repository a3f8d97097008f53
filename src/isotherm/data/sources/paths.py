"""Paths of files: errors in one sentence that names the path, and what changes if a file does."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isotherm.errors import must


def checked_path(argument: str, path: Any) -> Path:
    """Return `path` as a `Path`."""
    if not isinstance(path, str | os.PathLike):
        raise must(argument, "a path or a pytree of paths", path, error=TypeError)
    return Path(path)


@contextmanager
def readable(path: Any) -> Iterator[None]:
    """Turn the errors of the operating system into a sentence with the path and the repair."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path}. Check the path.") from None
    except PermissionError:
        raise PermissionError(f"{path} may not be read by this user. Change its permissions.") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{path} is a folder, and must be a file.") from None


def file_state(paths: Iterable[Path]) -> str:
    """Return a line for each file: its name, size in bytes and time of modification in ns."""
    return "\n".join(_line(path) for path in paths)


def _line(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return f"{path}\tmissing"
    return f"{path}\t{status.st_size}\t{status.st_mtime_ns}"
