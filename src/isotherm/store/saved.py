"""What `RunFolder` has written, read back and held against the files that came before it."""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from isotherm.errors import DamagedFileError
from isotherm.files import damaged, refusing_damage
from isotherm.storage import REPAIR, read_archive
from isotherm.store import plain
from isotherm.store.stored_array import StoredArray
from isotherm.store.zarr_layout import StoredLeaf, ZarrLayout
from isotherm.typed_json import typed

CALL, PROBLEM, SETUP, RESULT = "call.iso", "problem.json", "setup.iso", "result.iso"
DRAWS, PASSES, ABOUT = "draws.zarr", "passes", "about.json"
STATES = ("state-0.iso", "state-1.iso")
FIRST = {CALL: "call", SETUP: "setup"}  # files that are written once, and their kinds
TOKEN, AFTER = "token", "after"
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
        steps = (self.about["step"], self.about["num_steps"])
        counts = (sequence, drawn, length, self.layout.chains, self.about["num_draws"], *steps)
        if any(type(x) is not int or x < 0 for x in counts):
            raise ValueError(f"its counts must be integers of at least 0; they are {counts}")
        if not isinstance(seconds := self.about["seconds"], int | float) or not seconds >= 0:
            raise ValueError(f"its time must be a number of seconds; it is {seconds!r}")
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


def read_saved(path: Path, kind: str, seals: Mapping[str, str] | None = None) -> Saved:
    """Return an object that a `RunFolder` wrote. Raises if it follows from files with other seals than `seals`."""
    record, extra = read_archive(path, kind=kind, like={})
    with refusing_damage(path, REPAIR):
        saved = Saved(
            extra["node"],
            list(record["arrays"]),
            dict(extra["about"]),
            extra["seal"],
            typed(dict[str, str], extra[AFTER], AFTER),
        )
    check_seals(path, saved.after, seals or {})
    return saved


def run_of(path: Path) -> str:
    """Return what tells the run in a folder from all others: the seal of its call."""
    return read_saved(path / CALL, "call").seal


def seals_of(path: Path) -> dict[str, str]:
    """Return the seals of the files in a folder that are written before all others."""
    seals: dict[str, str] = {}
    for name, kind in FIRST.items():
        if (path / name).is_file():
            seals[name] = read_saved(path / name, kind, seals).seal
    return seals


def check_seals(path: Path, after: Any, seals: Mapping[str, str]) -> None:
    """Raise unless the seals that a file follows from are those of the files that were written before it."""
    earlier = itertools.takewhile(lambda item: item[0] != path.name, seals.items())
    if not isinstance(after, dict) or any(after.get(name) != seal for name, seal in earlier):
        raise damaged(path, "it does not belong to the other files of the folder", REPAIR)


def check_whole(path: Path) -> None:
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
