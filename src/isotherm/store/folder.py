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
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from isotherm import processes
from isotherm.errors import DamagedFileError, must
from isotherm.files import read_json, refusing_damage, write_json
from isotherm.storage import REPAIR, read_archive, write_archive
from isotherm.store import plain
from isotherm.store.lock import LOCK, Lock
from isotherm.store.stored_array import StoredArray
from isotherm.store.zarr_layout import StoredLeaf, ZarrLayout

CALL, PROBLEM, SETUP, RESULT = "call.iso", "problem.json", "setup.iso", "result.iso"
DRAWS, PASSES, ABOUT = "draws.zarr", "passes", "about.json"
STATES = ("state-0.iso", "state-1.iso")
IN_MEMORY = 2**28  # bytes of draws, up to which they are read into memory


@dataclasses.dataclass(frozen=True)
class Saved:
    """An object as it is stored: JSON with arrays, and the plain values beside it."""

    node: plain.Node
    arrays: list[np.ndarray]
    about: dict[str, Any]

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
        folder.write(CALL, "call", call, about=about)
        return folder

    @staticmethod
    def open(path: Any) -> "RunFolder":
        """Return the folder of a run that was ended."""
        part = part_of(checked_path(path))
        if not (part / CALL).is_file():
            others = any(parts(checked_path(path)))
            hint = "It holds a run of another number of processes." if others else ""
            raise must("path", "the folder of a run, as `store` of `iso.sample` makes it", str(path), hint)
        return RunFolder(part)

    def write(
        self,
        name: str,
        kind: str,
        value: Any,
        *,
        known: Mapping[str, Any] | None = None,
        about: dict[str, Any] | None = None,
    ) -> plain.Node:
        """Write an object to a file; return it as JSON."""
        node, arrays = plain.encode(value, known)
        write_archive(
            self.path / name, {"arrays": arrays}, {"kind": kind, "node": node, "about": about or {}}
        )
        return node

    def read(self, name: str, kind: str) -> Saved | None:
        """Return an object that `write` wrote; `None` if there is none."""
        return read_saved(self.path / name, kind) if (self.path / name).is_file() else None

    def check_problem(self, **hashes: str) -> None:
        """Store hashes of the data and the posterior. Raise if others have been stored before."""
        path = self.path / PROBLEM
        if not path.is_file():
            write_json(path, hashes)
            return
        stored = read_json(path, REPAIR)
        for name, value in hashes.items():
            if stored.get(name) != value:
                raise ValueError(
                    f"`{name}` must be that of the stored run; its hash is {value[:12]}, and that of the run in "
                    f"{self.path} is {str(stored.get(name))[:12]}. Pass the same {name}, or start a new run."
                )

    def snapshot(self) -> Snapshot | None:
        """Return the last state that was written whole; `None` if there is none."""
        found = read_snapshot(self.path)
        self.sequence = 0 if found is None else found.about["sequence"]
        return found

    def write_snapshot(self, value: dict[str, Any], checksums: np.ndarray, about: dict[str, Any]) -> None:
        """Write a state to the older one of two files. The draws that it counts must be on the disk."""
        node, arrays = plain.encode(value)
        node = {"value": node, "checksums": len(arrays)}
        about = about | {"sequence": self.sequence + 1}
        name = STATES[(self.sequence + 1) % 2]
        record = {"arrays": [*arrays, checksums]}
        write_archive(self.path / name, record, {"kind": "state", "node": node, "about": about})
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


def read_saved(path: Path, kind: str) -> Saved:
    """Return an object that a `RunFolder` wrote."""
    record, extra = read_archive(path, kind=kind, like={})
    with refusing_damage(path, REPAIR):
        return Saved(extra["node"], list(record["arrays"]), dict(extra["about"]))


def read_snapshot(path: Path) -> Snapshot | None:
    """Return the last state in a folder that is whole; `None` if none was written."""
    found: list[Snapshot] = []
    damage = None
    for name in STATES:
        if (path / name).is_file():
            try:
                found.append(_read_snapshot(path, name))
            except DamagedFileError as error:  # the other one is whole
                damage = error
    if not found and damage is not None:
        raise damage
    return max(found, key=lambda x: x.about["sequence"], default=None)


def _read_snapshot(path: Path, name: str) -> Snapshot:
    saved = read_saved(path / name, "state")
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
    found = sorted(path.glob("process-*-of-*"), key=lambda x: int(x.name.split("-")[1]))
    yield from found


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
    path.mkdir(parents=True, exist_ok=True)
    return path
