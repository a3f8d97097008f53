"""Decompression that ends with an error when the content is larger than it should be."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import IO

from isotherm.files import open_file

_LZMA_MEMORY = 2**28  # bytes; the default presets of xz need at most 65 MB, and a header may ask for 4 GB
_PIECE = 2**20  # bytes that are read at once


def read_at_most(path: Path, limit: int) -> bytes:
    """Return the content of a file, uncompressed if its name ends in .gz, .xz or .bz2.

    Raises a `ValueError` if there are more than `limit` bytes, before more than that is held in memory.
    """
    with open_file(path) as file:
        content = _READERS.get(path.suffix, _plain)(file, limit + 1)
    if len(content) > limit:
        raise ValueError(f"it has more than {limit:,} bytes uncompressed")
    return content


def _at_most(read: Callable[[int], bytes], count: int) -> bytes:
    """Return up to `count` bytes. A single `read(count)` would allocate as many at once, also for a short file."""
    parts, left = [], count
    while left > 0 and (part := read(min(left, _PIECE))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _plain(file: IO[bytes], count: int) -> bytes:
    return _at_most(file.read, count)


def _gzip(file: IO[bytes], count: int) -> bytes:
    with gzip.GzipFile(fileobj=file) as stream:
        return _at_most(stream.read, count)


def _bz2(file: IO[bytes], count: int) -> bytes:
    with bz2.BZ2File(file) as stream:
        return _at_most(stream.read, count)


def _xz(file: IO[bytes], count: int) -> bytes:
    """Return up to `count` bytes. Python's `LZMAFile` has no limit of memory, so its loop over streams is here."""
    parts, held, left = [], b"", count
    while left > 0 and (held := held.lstrip(b"\0") or file.read(_PIECE)):  # zeros may pad streams
        stream = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_LZMA_MEMORY)
        while left > 0 and not stream.eof:
            if stream.needs_input and not held:
                held = file.read(_PIECE)
                if not held:
                    raise EOFError("the compressed file ended too early")
            part = stream.decompress(held, max_length=left)
            parts.append(part)
            held, left = b"", left - len(part)
        held = stream.unused_data
    return b"".join(parts)


_READERS: dict[str, Callable[[IO[bytes], int], bytes]] = {"": _plain, ".gz": _gzip, ".xz": _xz, ".bz2": _bz2}
SUFFIXES = tuple(_READERS)
