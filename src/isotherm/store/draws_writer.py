"""Draws on their way to the disk: one chunk in memory, the rest in files."""

import zlib
from collections.abc import Sequence

import numpy as np

from isotherm.files import damaged
from isotherm.store.zarr_layout import StoredLeaf, ZarrLayout


class DrawsWriter:
    """Appends draws to the arrays of a layout. They count once `flush` was called and the state was written.

    `checksums` has a row for each chunk, the last of which may be incomplete, and a column for each array. That of an
    incomplete chunk covers the draws in it: the file may hold later ones, which a run made that was then ended.
    """

    def __init__(self, layout: ZarrLayout) -> None:
        self.layout, self.drawn = layout, 0
        self.buffers = [layout.empty_chunk(leaf) for leaf in layout.leaves]
        self.complete: list[list[int]] = []  # checksums of complete chunks

    def restore(self, drawn: int, checksums: np.ndarray) -> None:
        """Go on after the first `drawn` draws, of which the last chunk is read back if it is incomplete."""
        whole, rest = divmod(drawn, self.layout.chunk_draws)
        self.drawn, self.complete = drawn, checksums[:whole].tolist()
        self.buffers = [self.layout.empty_chunk(leaf) for leaf in self.layout.leaves]
        if rest:
            chunks = checked_chunk(self.layout, self.layout.leaves, whole, drawn, checksums)
            for buffer, chunk in zip(self.buffers, chunks, strict=True):
                buffer[:, :rest] = chunk

    def add(self, arrays: Sequence[np.ndarray], count: int) -> None:
        """Append `count` draws. Arrays are (draw, chain, ...), one for each leaf; they may be longer."""
        length, taken = self.layout.chunk_draws, 0
        while taken < count:
            place = self.drawn % length
            here = min(count - taken, length - place)
            for buffer, x in zip(self.buffers, arrays, strict=True):
                buffer[:, place : place + here] = x[taken : taken + here, : self.layout.chains].swapaxes(0, 1)
            self.drawn, taken = self.drawn + here, taken + here
            if self.drawn % length == 0:
                self._write()
                self.complete.append([_checksum(buffer) for buffer in self.buffers])
                for buffer in self.buffers:
                    buffer[:] = np.nan

    def flush(self) -> np.ndarray:
        """Write the incomplete chunk; return the checksums of all chunks."""
        rows, rest = list(self.complete), self.drawn % self.layout.chunk_draws
        if rest:
            self._write()
            rows.append([_checksum(buffer[:, :rest]) for buffer in self.buffers])
        return np.asarray(rows, np.uint32).reshape(-1, len(self.layout.leaves))

    def truncate(self, count: int) -> None:
        """Drop all but the first `count` draws."""
        if count < self.drawn:
            whole = count // self.layout.chunk_draws
            rows = self.flush()
            first = self.drawn // self.layout.chunk_draws
            if whole < first:
                chunks = checked_chunk(self.layout, self.layout.leaves, whole, self.drawn, rows)
                for buffer, chunk in zip(self.buffers, chunks, strict=True):
                    buffer[:] = chunk
            for buffer in self.buffers:
                buffer[:, count % self.layout.chunk_draws :] = np.nan
            self.drawn, self.complete = count, self.complete[:whole]

    def _write(self) -> None:
        number = (self.drawn - 1) // self.layout.chunk_draws
        for leaf, buffer in zip(self.layout.leaves, self.buffers, strict=True):
            self.layout.write_chunk(leaf, number, buffer)


def checked_chunk(
    layout: ZarrLayout, leaves: Sequence[StoredLeaf], number: int, drawn: int, checksums: np.ndarray
) -> list[np.ndarray]:
    """Return the draws of a chunk that count, of some arrays. Raises if they are not those that were written."""
    count, found = min(drawn - number * layout.chunk_draws, layout.chunk_draws), []
    for leaf in leaves:
        chunk = layout.read_chunk(leaf, number)[:, :count]
        if _checksum(chunk) != checksums[number, layout.leaves.index(leaf)]:
            raise damaged(layout.chunk_path(leaf, number), "its checksum differs")
        found.append(chunk)
    return found


def _checksum(x: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(x, x.dtype.newbyteorder("<")).data)
