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
import dataclasses
import itertools
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from isotherm import processes
from isotherm.errors import DamagedFileError, must
from isotherm.files import damaged, make_folder, read_json, refusing_damage, sync_folder, write_json
from isotherm.storage import REPAIR, read_archive, write_archive
from isotherm.store import plain
from isotherm.store.lock import LOCK, Lock
from isotherm.store.stored_array import StoredArray
from isotherm.store.zarr_layout import StoredLeaf, ZarrLayout
from isotherm.typed_json import typed

CALL, PROBLEM, SETUP, RESULT = "call.iso", "problem.json", "setup.iso", "result.iso"
DRAWS, PASSES, ABOUT = "draws.zarr", "passes", "about.json"
STATES = ("state-0.iso", "state-1.iso")
_FIRST = {CALL: "call", SETUP: "setup"}  # files that are written once, and their kinds
TOKEN, _AFTER = "token", "after"
IN_MEMORY = 2**28  # bytes of draws, up to which they are read into memory


@dataclasses.dataclass(frozen=True)
class Saved:
    """An object as it is stored: JSON with arrays, and the plain values beside it.

    `seal` is the checksum of its file. `after` has the seals of the files that it follows from, by name: a file of
    another run, or one that was changed together with its checksum, does not fit the others.
    """

    node: plain.Node
    arrays: list[np.ndarray]
    about: dict[str, Any]
    seal: str
    after: dict[str, str]

    def decoded(self, known: Mapping[str, Any] | None = None, like: PyTree | None = None) -> Any:
        """Return the object, with what it refers to by name taken from `known`."""
        return plain.decode(self.node, self.arrays, known, like)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """Where a run stood when its state was last written, and its draws up to there.

    `about` has the numbers `step`, `drawn`, `num_steps`, `num_draws` and `seconds`.
    """

    saved: Saved
    layout: ZarrLayout

    @property
    def about(self) -> dict[str, Any]:
        """Plain values: counts of steps and draws."""
        return self.saved.about

    @property
    def drawn(self) -> int:
        """The number of draws of each chain."""
        return self.about["drawn"]

    def check(self) -> None:
        """Raise unless counts and checksums fit each other."""
        sequence, drawn, length = self.about["sequence"], self.drawn, self.layout.chunk_draws
        counts = (sequence, drawn, length, self.layout.chains, self.about["step"], self.about["num_draws"])
        if any(type(x) is not int or x < 0 for x in counts):
            raise ValueError(f"its counts must be integers of at least 0; they are {counts}")
        if self.checksums.shape != (-(-drawn // max(length, 1)), len(self.layout.leaves)):
            raise ValueError(f"it must have a checksum for each chunk of {drawn} draws")
        self.layout.check_size()

    @property
    def value(self) -> Saved:
        """All chains, and what the driver keeps beside them."""
        return dataclasses.replace(self.saved, node=self.saved.node["value"])

    @property
    def checksums(self) -> np.ndarray:
        """Checksums of the draws, as for `DrawsWriter`."""
        return self.saved.arrays[self.saved.node["checksums"]]

    def arrays(self) -> dict[str, dict[str, StoredArray]]:
        """Return the draws of each group, by name, on the disk."""
        found: dict[str, dict[str, StoredArray]] = {"posterior": {}, "sample_stats": {}}
        for leaf in self.layout.leaves:
            found[leaf.group][leaf.name] = StoredArray(self.layout, leaf, self.drawn, self.checksums)
        return found


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
        folder = RunFolder(_made(part_of(whole)))
        folder.write(
            CALL, "call", call, about=about | {TOKEN: secrets.token_hex(16)}
        )  # no two runs are the same
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
            folder.seals = _seals(part)
            _check_whole(part)
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
        self._write(name, kind, node, arrays, about or {})

    def _write(
        self, name: str, kind: str, node: plain.Node, arrays: list[np.ndarray], about: dict[str, Any]
    ) -> None:
        after = {x: seal for x, seal in self.seals.items() if x != name}
        extra = {"kind": kind, "node": node, "about": about, "after": after}
        seal = write_archive(self.path / name, {"arrays": arrays}, extra)
        if name in _FIRST:
            self.seals[name] = seal

    def read(self, name: str, kind: str) -> Saved | None:
        """Return an object that `write` wrote; `None` if there is none."""
        return read_saved(self.path / name, kind, self.seals) if (self.path / name).is_file() else None

    def check_problem(self, **hashes: str) -> None:
        """Store hashes of the data and the posterior. Raise if others have been stored before."""
        path = self.path / PROBLEM
        if not path.is_file():
            write_json(path, hashes | {_AFTER: {CALL: self.seals[CALL]}})
            return
        stored = read_json(path, REPAIR)
        _check_seals(path, stored.get(_AFTER), {CALL: self.seals[CALL]})
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


@contextlib.contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Say what to do if a file cannot be written."""
    try:
        yield
    except DamagedFileError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            f"`store` could not be written: {reason} ({path}). All that was stored before is whole. Make room, or "
            "correct the permissions, and go on with `iso.resume`."
        ) from error


def read_saved(path: Path, kind: str, seals: Mapping[str, str] | None = None) -> Saved:
    """Return an object that a `RunFolder` wrote. Raises if it follows from files with other seals than `seals`."""
    record, extra = read_archive(path, kind=kind, like={})
    with refusing_damage(path, REPAIR):
        saved = Saved(
            extra["node"],
            list(record["arrays"]),
            dict(extra["about"]),
            extra["seal"],
            typed(dict[str, str], extra[_AFTER], _AFTER),
        )
    _check_seals(path, saved.after, seals or {})
    return saved


def run_of(path: Path) -> str:
    """Return what tells the run in a folder from all others: the seal of its call."""
    return read_saved(path / CALL, "call").seal


def _seals(path: Path) -> dict[str, str]:
    """Return the seals of the files in a folder that are written before all others."""
    seals: dict[str, str] = {}
    for name, kind in _FIRST.items():
        if (path / name).is_file():
            seals[name] = read_saved(path / name, kind, seals).seal
    return seals


def _check_seals(path: Path, after: Any, seals: Mapping[str, str]) -> None:
    """Raise unless the seals that a file follows from are those of the files that were written before it."""
    earlier = itertools.takewhile(lambda item: item[0] != path.name, seals.items())
    if not isinstance(after, dict) or any(after.get(name) != seal for name, seal in earlier):
        raise damaged(path, "it does not belong to the other files of the folder", REPAIR)


def _check_whole(path: Path) -> None:
    """Raise if a file is missing that was written before a state or a result that is there."""
    if any((path / name).exists() for name in (*STATES, RESULT)):
        for name in (PROBLEM, SETUP):
            if not (path / name).is_file():
                raise damaged(path / name, "it is missing", REPAIR)


def read_snapshot(path: Path, seals: Mapping[str, str] | None = None) -> Snapshot | None:
    """Return the last state in a folder that is whole; `None` if none was written.

    It must follow from files with these seals: from the call of the run, if none are given.
    """
    seals = {CALL: run_of(path)} if seals is None else seals
    found: list[Snapshot] = []
    damage = None
    for name in STATES:
        if (path / name).is_file():
            try:
                found.append(_read_snapshot(path, name, seals))
            except DamagedFileError as error:  # the other one is whole
                damage = error
    if not found and damage is not None:
        raise damage
    return max(found, key=lambda x: x.about["sequence"], default=None)


def _read_snapshot(path: Path, name: str, seals: Mapping[str, str]) -> Snapshot:
    saved = read_saved(path / name, "state", seals)
    with refusing_damage(path / name, REPAIR):
        snapshot = Snapshot(saved, _layout(path, saved.about))
        snapshot.check()
        return snapshot


def _layout(path: Path, about: dict[str, Any]) -> ZarrLayout:
    leaves = tuple(
        StoredLeaf(group, name, tuple(shape), dtype) for group, name, shape, dtype in about["leaves"]
    )
    return ZarrLayout(path / DRAWS, leaves, about["chains"], about["chunk_draws"])


def parts(path: Path) -> Iterator[Path]:
    """Yield the folders of all processes of a run, in order: the folder itself if there was one process."""
    if (path / CALL).is_file():
        yield path
        return
    numbered = ((re.fullmatch(r"process-(\d+)-of-\d+", x.name), x) for x in path.glob("process-*"))
    yield from (x for _, x in sorted((int(match.group(1)), x) for match, x in numbered if match))


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
