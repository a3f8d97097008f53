"""`RunFolder`: the files of a run, each written whole or not at all.

call.iso                   what was asked for, and the versions and the machine that draws depend on
problem.json               hashes of the data and the posterior
passes/                    results of passes over the data in a warm-up that has not ended
setup.iso                  the setup, once it is known
draws.zarr/                the draws so far, in Zarr
state-0.iso, state-1.iso   all chains after some step; the later one counts, and the other is the one before
result.iso                 what is known at the end
about.json                 a title and names for reports, if the run has them
lock                       held by the process that writes
"""

import contextlib
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from isotherm import processes
from isotherm.errors import DamagedFileError, must
from isotherm.files import make_folder, read_json, sync_folder, write_json
from isotherm.storage import REPAIR, write_archive
from isotherm.store import plain
from isotherm.store.lock import LOCK, Lock
from isotherm.store.saved import (
    AFTER,
    CALL,
    FIRST,
    PROBLEM,
    STATES,
    TOKEN,
    Saved,
    Snapshot,
    check_seals,
    check_whole,
    parts,
    read_saved,
    read_snapshot,
    seals_of,
)


class RunFolder:
    """The folder of a run that this process writes. Use `create` or `open`, and `close` at the end."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock, self.sequence = path, Lock(path), 0
        self.seals: dict[str, str] = {}  # of the files that were written before all others

    @staticmethod
    def create(path: Any, call: Any, about: dict[str, Any]) -> "RunFolder":
        """Return a new folder with a record of the call. Raises if there is one with anything in it."""
        whole = checked_path(path)
        if _in_use(whole):
            raise must(
                "store",
                "a folder that does not exist yet, or is empty",
                str(path),
                "To go on with the run in it, call `iso.resume`; to start anew, delete it.",
            )
        with explaining(whole, "Nothing was computed. {repair}, and start again."):
            folder = RunFolder(_made(part_of(whole)))
            node, arrays = plain.encode(call)
            about = about | {TOKEN: secrets.token_hex(16)}  # no two runs are the same
            try:
                folder._write(CALL, "call", node, arrays, about)
            except BaseException:
                folder.close()
                raise
        return folder

    @staticmethod
    def open(path: Any) -> "RunFolder":
        """Return the folder of a run that was ended."""
        part = part_of(checked_path(path))
        if not (part / CALL).is_file():
            others = any(parts(checked_path(path)))
            hint = "It holds a run of another number of processes." if others else ""
            raise must("path", "the folder of a run, as `store` of `iso.sample` makes it", str(path), hint)
        folder = RunFolder(part)
        try:
            folder.seals = seals_of(part)
            check_whole(part)
            for known in (part.parent, part, *(x for x in part.rglob("*") if x.is_dir())):
                sync_folder(known)  # a process that was killed may have made it without
        except BaseException:
            folder.close()
            raise
        return folder

    def write(
        self,
        name: str,
        kind: str,
        value: Any,
        *,
        known: Mapping[str, Any] | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        """Write an object to a file."""
        node, arrays = plain.encode(value, known)
        with explaining(self.path):
            self._write(name, kind, node, arrays, about or {})

    def _write(
        self, name: str, kind: str, node: plain.Node, arrays: list[np.ndarray], about: dict[str, Any]
    ) -> None:
        after = {x: seal for x, seal in self.seals.items() if x != name}
        extra = {"kind": kind, "node": node, "about": about, "after": after}
        seal = write_archive(self.path / name, {"arrays": arrays}, extra)
        if name in FIRST:
            self.seals[name] = seal

    def read(self, name: str, kind: str) -> Saved | None:
        """Return an object that `write` wrote; `None` if there is none."""
        return read_saved(self.path / name, kind, self.seals) if (self.path / name).is_file() else None

    def check_problem(self, **hashes: str) -> None:
        """Store hashes of the data and the posterior. Raise if others have been stored before."""
        path = self.path / PROBLEM
        if not path.is_file():
            with explaining(self.path):
                write_json(path, hashes | {AFTER: {CALL: self.seals[CALL]}})
            return
        stored = read_json(path, REPAIR)
        check_seals(path, stored.get(AFTER), {CALL: self.seals[CALL]})
        for name, value in hashes.items():
            if stored.get(name) != value:
                raise ValueError(
                    f"`{name}` must be that of the stored run; its hash is {value[:12]}, and that of the run in "
                    f"{self.path} is {str(stored.get(name))[:12]}. Pass the same {name}, or start a new run."
                )

    def snapshot(self) -> Snapshot | None:
        """Return the last state that was written whole; `None` if there is none."""
        found = read_snapshot(self.path, self.seals)
        self.sequence = 0 if found is None else found.about["sequence"]
        return found

    def write_snapshot(self, value: dict[str, Any], checksums: np.ndarray, about: dict[str, Any]) -> None:
        """Write a state to the older one of two files. The draws that it counts must be on the disk."""
        node, arrays = plain.encode(value)
        node = {"value": node, "checksums": len(arrays)}
        about = about | {"sequence": self.sequence + 1}
        name = STATES[(self.sequence + 1) % 2]
        self._write(name, "state", node, [*arrays, checksums], about)
        self.sequence += 1

    def remove(self, name: str) -> None:
        """Delete a file or a folder of the run."""
        shutil.rmtree(self.path / name, ignore_errors=True)
        with contextlib.suppress(OSError):
            (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Let other processes write."""
        self.lock.release()

    def discard(self) -> None:
        """Delete the folder, in which nothing was drawn."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):  # that of all processes is left if others use it
            if processes.count() > 1:
                self.path.parent.rmdir()


_GOING_ON = "All that was stored before is whole. {repair}, and go on with `iso.resume`."


@contextlib.contextmanager
def explaining(path: Path, remedy: str = _GOING_ON) -> Iterator[None]:
    """Say what to do if a file cannot be written."""
    try:
        yield
    except DamagedFileError:
        raise
    except OSError as error:
        reason, repair = error.strerror or str(error), "Make room, or correct the permissions"
        raise OSError(
            f"`store` could not be written: {reason} ({path}). {remedy.format(repair=repair)}"
        ) from error


def part_of(path: Path) -> Path:
    """Return the folder of this process."""
    total = processes.count()
    return path if total == 1 else path / f"process-{processes.index()}-of-{total}"


def checked_path(path: Any) -> Path:
    """Return a path. Raises unless it is one."""
    try:
        return Path(path).expanduser()
    except TypeError:
        raise must("store", "the path of a folder", path, error=TypeError) from None


def _in_use(path: Path) -> bool:
    """Return whether a folder holds more than what is left of a run that was ended before it had computed anything.

    Other processes may have started theirs.
    """
    if not path.is_dir():
        return path.exists()
    part, total = part_of(path), processes.count()
    if total > 1 and any(not x.name.endswith(f"-of-{total}") for x in path.iterdir()):
        return True
    left = lambda x: x.name in (CALL, LOCK) or x.name.startswith(f".{CALL}.")  # not written to its end
    return part.is_dir() and any(not left(x) for x in part.iterdir())


def _made(path: Path) -> Path:
    make_folder(path)
    return path
