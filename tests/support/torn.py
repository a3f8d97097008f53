"""Disks as a power cut may leave them: some of the operations that were not yet flushed are missing.

`recorded` notes the operations of a run on the disk. `disks` gives what may be left of them after each one. By POSIX,
content is safe once its file was flushed, and a name once its folder was. Until then any of them may be missing, and
in any order: a name may be there before its content, or the content before its name.
"""

import contextlib
import dataclasses
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MISSING_CONTENT = (b"", b"half", b"zeros")  # what stands for content that was not flushed


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation: `make` a folder, `create` or `flush` a file, `rename` it, or `sync` a folder."""

    kind: str
    path: Path
    source: Path | None = None
    content: bytes = b""


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[list[Operation]]:
    """Note the operations below the parent of a folder, with paths relative to it. Nothing is flushed."""
    operations: list[Operation] = []
    root = folder.parent
    mkdir, replace, fsync = os.mkdir, os.replace, os.fsync

    def note(kind: str, path: Any, **details: Any) -> None:
        if (path := Path(path).absolute()).is_relative_to(root):
            operations.append(Operation(kind, path.relative_to(root), **details))

    def noting_mkdir(path: Any, *args: Any, **options: Any) -> None:
        mkdir(path, *args, **options)
        note("make", path)

    def noting_replace(source: Any, target: Any) -> None:
        replace(source, target)
        note("rename", target, source=Path(source).relative_to(root))

    def noting_fsync(handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            note("sync", path)
        else:
            note("create", path, content=path.read_bytes())
            note("flush", path)

    os.mkdir, os.replace, os.fsync = noting_mkdir, noting_replace, noting_fsync
    try:
        yield operations
    finally:
        os.mkdir, os.replace, os.fsync = mkdir, replace, fsync


@dataclasses.dataclass(frozen=True)
class Disk:
    """Folders and files, by path: the content of a file, or `None` for a folder.

    `when` says what was lost. If it is `reordered`, something later is there.
    """

    when: str
    reordered: bool
    entries: tuple[tuple[Path, bytes | None], ...]

    def write(self, root: Path) -> None:
        """Write everything below `root`."""
        for path, content in self.entries:
            if content is None:
                (root / path).mkdir(parents=True)
            else:
                (root / path).write_bytes(content)


def disks(operations: list[Operation]) -> list[Disk]:
    """Return every different disk that a power cut after one of the operations may leave."""
    safe: list[Operation] = []  # names that are on the disk for certain
    pending: list[Operation] = []
    flushed: set[Path] = set()
    found: dict[tuple[Any, ...], Disk] = {}
    for number, operation in enumerate(operations):
        if operation.kind == "flush":
            flushed.add(operation.path)
        elif operation.kind == "sync":
            safe += [x for x in pending if x.path.parent == operation.path]
            pending = [x for x in pending if x.path.parent != operation.path]
        else:
            pending.append(operation)
        for lost in _subsets(pending):
            kept = [x for x in pending if x not in lost]
            for missing in MISSING_CONTENT:
                names = ", ".join(f"{x.kind} {x.path}" for x in lost) or "nothing"
                when = f"after operation {number}, {operation.kind} {operation.path}, without {names}"
                entries = _applied(operations[: number + 1], [*safe, *kept], flushed, missing)
                reordered = bool(lost and kept) and pending.index(lost[0]) < pending.index(kept[-1])
                found.setdefault(entries, Disk(when, reordered, entries))
    return list(found.values())


def _subsets(pending: list[Operation]) -> Iterator[tuple[Operation, ...]]:
    """Yield what may be missing: any of the last few names, or these and all before."""
    last = pending[-4:]
    for count in range(len(last) + 1):
        yield from itertools.combinations(last, count)
    yield tuple(pending)


def _applied(
    operations: list[Operation], names: list[Operation], flushed: set[Path], missing: bytes
) -> tuple[tuple[Path, bytes | None], ...]:
    """Return the entries of a disk with some names. Content that was not flushed is empty, cut off or zeros."""
    chosen = {id(x) for x in names}
    content: dict[Path, bytes] = {}
    for x in operations:
        if x.kind == "create":
            lost = {b"": b"", b"half": x.content[: len(x.content) // 2], b"zeros": bytes(len(x.content))}
            content[x.path] = x.content if x.path in flushed else lost[missing]
    entries: dict[Path, bytes | None] = {}
    for x in (x for x in operations if id(x) in chosen):
        if x.kind == "make":
            entries[x.path] = None
        elif x.kind == "create":
            entries[x.path] = content[x.path]
        elif x.source is not None:
            entries[x.path] = content[x.source]
            entries.pop(x.source, None)
    reached = lambda path: all(parent in entries for parent in path.parents if parent != Path())
    return tuple((path, x) for path, x in sorted(entries.items()) if reached(path))
