"""Damage to bytes, names and places of files, whatever is in them."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from campaigns.damaged.originals import Original

Damage = Callable[[random.Random, Path, Path, Original], str | None]


def flip_a_bit(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Flip one bit."""
    content = bytearray(path.read_bytes())
    if not content:
        return None
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"bit of byte {place} flipped"


def overwrite(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Replace a run of bytes by random ones, zeros or ones."""
    content = bytearray(path.read_bytes())
    if not content:
        return None
    count = min(len(content), rng.choice((2, 8, 100, 512, 4096)))
    place = rng.randrange(len(content) - count + 1)
    fill = rng.choice((rng.randbytes(count), bytes(count), b"\xff" * count))
    content[place : place + count] = fill
    path.write_bytes(content)
    return f"{count} bytes from {place} overwritten"


def truncate(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Cut off the end."""
    size = path.stat().st_size
    if size == 0:
        return None
    left = rng.choice((0, 1, size - 1, rng.randrange(size)))
    os.truncate(path, left)
    return f"truncated to {left} of {size} bytes"


def extend(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Put bytes after the end or before the beginning."""
    content, more = path.read_bytes(), rng.choice((b"\0", b"\n", b"}", rng.randbytes(100), bytes(70_000)))
    if rng.random() < 0.5:
        path.write_bytes(content + more)
        return f"{len(more)} bytes appended"
    path.write_bytes(more + content)
    return f"{len(more)} bytes before the first"


def move_bytes(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Remove some bytes from the middle, or repeat them."""
    content = path.read_bytes()
    if len(content) < 3:
        return None
    begin = rng.randrange(len(content) - 1)
    end = min(len(content), begin + rng.choice((1, 4, 64)))
    if rng.random() < 0.5:
        path.write_bytes(content[:begin] + content[end:])
        return f"bytes {begin} to {end} removed"
    path.write_bytes(content[:end] + content[begin:])
    return f"bytes {begin} to {end} repeated"


def delete(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Delete the file."""
    path.unlink()
    return "deleted"


def replace_by_a_folder(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Put a folder in its place."""
    path.unlink()
    path.mkdir()
    return "replaced by a folder"


def replace_by_a_link(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Put a symbolic link in its place: to itself, to nowhere, to the file elsewhere or to a device."""
    where = rng.choice(("itself", "nowhere", "elsewhere", "/dev/zero", "/dev/null"))
    if where == "elsewhere":
        elsewhere = folder.parent / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        target = elsewhere / str(len(list(elsewhere.iterdir())))
        shutil.move(path, target)
    else:
        target = {"itself": path, "nowhere": folder / "nowhere"}.get(where, Path(where))
        path.unlink()
    path.symlink_to(target)
    return f"a link to {where}"


def replace_by_a_pipe(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Put a named pipe in its place, to which nobody writes."""
    path.unlink()
    os.mkfifo(path)
    return "replaced by a pipe"


def take_rights(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Take all permissions away; the administrator does not notice."""
    path.chmod(0)
    return "no permissions"


def swap(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Swap it with another file of the same suffix."""
    others = [x for x in files(folder) if x.suffix == path.suffix and x != path]
    if not others:
        return None
    other = rng.choice(others)
    path.rename(folder / "swapped")
    other.rename(path)
    (folder / "swapped").rename(other)
    return f"swapped with {other.relative_to(folder)}"


def replace_by_an_older(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Put an earlier version of the same file in its place."""
    name = path.relative_to(folder)
    known = [x / name for x in original.older if (x / name).is_file()]
    if not known:
        return None
    source = rng.choice(known)
    shutil.copyfile(source, path)
    return f"replaced by that of {source.relative_to(source.parents[len(name.parts)])}"


def replace_by_that_of_another(
    rng: random.Random, folder: Path, path: Path, original: Original
) -> str | None:
    """Put the same file of another run in its place."""
    name = path.relative_to(folder)
    if original.other is None or not (original.other / name).is_file():
        return None
    shutil.copyfile(original.other / name, path)
    return "replaced by that of another run"


def files(folder: Path) -> list[Path]:
    """Return all files in a folder, in order."""
    return sorted(x for x in folder.rglob("*") if x.is_file() and not x.is_symlink())


BYTES: tuple[Damage, ...] = (flip_a_bit, flip_a_bit, overwrite, truncate, extend, move_bytes)
PLACES: tuple[Damage, ...] = (
    delete,
    replace_by_a_folder,
    replace_by_a_link,
    replace_by_a_pipe,
    take_rights,
    swap,
    replace_by_an_older,
    replace_by_that_of_another,
)
