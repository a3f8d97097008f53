"""Files that are replaced completely or not at all, JSON with a checksum, and one error for every kind of damage."""

import errno
import hashlib
import json
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from isotherm.errors import DamagedFileError
from isotherm.text import visible

_CHECKSUM = "sha256"  # key of the checksum in a JSON file
_LONGEST_NAME = (
    120  # characters of the target's name in that of its temporary file; file systems allow 255 bytes
)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` in UTF-8, replacing an existing file completely or not at all."""
    with replacing(Path(path)) as file:
        file.write(text.encode())


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` once all of it is on the disk. Creates the folder if needed.

    If `path` is a symbolic link, the file that it leads to is replaced. An existing file keeps its permissions.
    Temporary files of this target that a killed process has left are deleted.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target, path)
    make_folder(target.parent)
    _remove_stale(target)
    temporary = target.parent / f"{_prefix(target)}{_host()}-{os.getpid()}-{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if mode is not None:
                temporary.chmod(mode)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it. A new one is on the disk afterwards: its name, too, can be lost."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def _mode(target: Path, path: Path) -> int | None:
    """Return the permissions of an existing target, `None` if there is none; refuse what is not a file."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is a device or a pipe, which cannot be replaced; name a file", str(path))
    return stat.S_IMODE(status.st_mode)


def _prefix(target: Path) -> str:
    return f".{target.name[:_LONGEST_NAME]}.isotherm-"


def _host() -> str:
    # Process numbers mean nothing on other machines that share the file system.
    return re.sub(r"[^A-Za-z0-9_.]", "_", socket.gethostname())[:60]


def _remove_stale(target: Path) -> None:
    """Delete temporary files of this target whose process, on this machine, has ended."""
    pattern = re.compile(re.escape(f"{_prefix(target)}{_host()}-") + r"(\d{1,18})-[0-9a-f]{8}")
    for path in target.parent.iterdir():
        match = pattern.fullmatch(path.name)
        if match is not None and not _is_running(int(match.group(1))):
            with suppress(OSError):  # another process may have deleted it
                path.unlink()


def _is_running(process: int) -> bool:
    if os.name != "posix":  # elsewhere `os.kill` ends the process instead of asking for it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk. Without this, a power cut may bring an old file back."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot
            os.fsync(handle)
    finally:
        os.close(handle)


def open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file to read it. Refuses a pipe or a device, which may keep its reader waiting or never end."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise damaged(path, "it is a device or a pipe")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


@contextmanager
def refusing_damage(path: str | os.PathLike[str], repair: str) -> Iterator[None]:
    """Turn every error of the code inside, which reads `path`, into a `DamagedFileError`.

    A file that is missing or that the system cannot read is not damaged, and neither is one that does not fit into
    memory: such errors pass.
    """
    try:
        yield
    except (DamagedFileError, MemoryError):
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # a place outside of the file is an invalid argument
            raise
        raise damaged(path, error, repair) from error
    except Exception as error:
        raise damaged(path, error, repair) from error


def damaged(
    path: str | os.PathLike[str], why: object, repair: str = "Restore it from a copy, or make it again."
) -> DamagedFileError:
    """Return the error for a file that is damaged or was not written by isotherm."""
    text = f"{type(why).__name__}: {why}" if isinstance(why, KeyError) else str(why) or type(why).__name__
    place, reason = visible(os.fspath(path)), visible(text.rstrip("."))
    return DamagedFileError(f"{place} is damaged, or was not written by isotherm: {reason}. {repair}")


def write_json(path: str | os.PathLike[str], record: dict[str, Any]) -> None:
    """Write a JSON object, with the SHA-256 of its content under the key `sha256`."""
    sealed = record | {_CHECKSUM: _digest(record)}
    write_text(path, json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike[str], repair: str) -> dict[str, Any]:
    """Return the object that `write_json` wrote. `repair` says what to do if the file is damaged."""
    with open_file(path) as file:
        content = file.read()
    with refusing_damage(path, repair):
        record = parse_json(content)
        if record.pop(_CHECKSUM, None) != _digest(record):
            raise ValueError(f"its content does not have the checksum under `{_CHECKSUM}`")
        return record


def parse_json(content: bytes, *, nan: bool = False) -> dict[str, Any]:
    """Return the object in UTF-8 text. NaN and infinities, which JSON has not, are refused unless `nan` is true."""
    constant = None if nan else _refuse_constant
    record = json.loads(content.decode("utf-8"), parse_constant=constant, object_pairs_hook=_with_unique_keys)
    if not isinstance(record, dict):
        raise ValueError(f"it holds a JSON {type(record).__name__} instead of an object")
    return record


def _with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("it has two values under one key")
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it holds {name}, which is not JSON")


def _digest(record: dict[str, Any]) -> str:
    """Return the SHA-256 of the content, whatever the order of the keys and the white space."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
