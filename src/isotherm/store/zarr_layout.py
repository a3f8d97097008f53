"""The layout of stored draws: a Zarr folder of uncompressed chunks, which xarray and ArviZ open while it grows.

Arrays are as long as the run will be, and NaN where there is no draw yet. A chunk holds some draws of all chains.
Files are written here, not by the `zarr` package, since each must be on the disk before the state that counts it.
"""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isotherm.files import damaged, replacing, write_text

_CHUNK_BYTES = 2**22  # of one chunk of all arrays together
_LONGEST_NAME = 200  # bytes; file systems allow 255
_UNSAFE = r'^\.|[\x00-\x1f\x7f/\\%:*?"<>|]'  # a leading dot, or what a file system may not allow


@dataclasses.dataclass(frozen=True)
class StoredLeaf:
    """One stored array: its group and name, the shape of one draw of one chain, and the dtype."""

    group: str
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def folder(self) -> str:
        """The folder of the array: its group, and its name without characters that mean something in a path."""
        safe = re.sub(_UNSAFE, lambda found: f"%{ord(found.group()):02X}", self.name)
        safe = f"{safe}%" if safe in ("", "chain", "draw") else safe  # not the name of a coordinate
        if len(safe.encode()) > _LONGEST_NAME:
            digest = hashlib.sha256(self.name.encode()).hexdigest()[:16]
            safe = f"{safe.encode()[:_LONGEST_NAME].decode(errors='ignore')}~{digest}"
        return f"{self.group}/{safe}"

    @property
    def nbytes(self) -> int:
        """The size of one draw of one chain."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclasses.dataclass(frozen=True)
class ZarrLayout:
    """Where draws are stored: the folder, the arrays, the number of chains, and the draws in a chunk."""

    path: Path
    leaves: tuple[StoredLeaf, ...]
    chains: int
    chunk_draws: int

    @staticmethod
    def of(path: Path, leaves: Sequence[StoredLeaf], chains: int, num_draws: int) -> "ZarrLayout":
        """Return the layout of a run of `num_draws` draws in each of the chains."""
        each = chains * sum(leaf.nbytes for leaf in leaves)
        return ZarrLayout(path, tuple(leaves), chains, max(1, min(num_draws, _CHUNK_BYTES // max(each, 1))))

    def describe(self, num_draws: int) -> None:
        """Write the metadata of all arrays, for `num_draws` draws in each chain."""
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        content: dict[str, Any] = {}
        for name in dict.fromkeys(leaf.group for leaf in self.leaves):
            content[name] = dict(group)
            for axis, length in (("chain", self.chains), ("draw", num_draws)):
                content[f"{name}/{axis}"] = _array((length,), (length,), "int64", 0, [axis])
                with replacing(self.path / name / axis / "c.0") as file:
                    file.write(np.arange(length, dtype="<i8").data)
        for leaf in self.leaves:
            names = ["chain", "draw", *(f"{leaf.name}_dim_{i}" for i in range(len(leaf.shape)))]
            shape, chunk = (self.chains, num_draws, *leaf.shape), self._chunk_shape(leaf)
            content[leaf.folder] = _array(shape, chunk, leaf.dtype, "NaN", names)
        for folder, one in content.items():
            write_text(self.path / folder / "zarr.json", json.dumps(one, indent=1))
        # The root repeats all of it, so that readers need to open one file; without it, xarray warns.
        for one in content.values():
            if one["node_type"] == "group":
                one |= {"consolidated_metadata": _consolidated({})}
        in_order = {
            folder: content[folder] for folder in sorted(content)
        }  # zarr wants those of a group together
        root = {**group, "consolidated_metadata": _consolidated(in_order)}
        write_text(self.path / "zarr.json", json.dumps(root, indent=1))

    def chunk_path(self, leaf: StoredLeaf, number: int) -> Path:
        """Return the file of a chunk of an array."""
        places = ["c", 0, number, *(0 for _ in leaf.shape)]
        return self.path / leaf.folder / ".".join(map(str, places))

    def check_size(self) -> None:
        """Raise unless a chunk has a size that `of` chooses."""
        each = self.chains * sum(leaf.nbytes for leaf in self.leaves)
        if self.chunk_draws < 1 or (self.chunk_draws > 1 and self.chunk_draws * each > _CHUNK_BYTES):
            raise ValueError(f"a chunk must not have {self.chunk_draws} draws of {each} bytes")

    def check_chunk(self, leaf: StoredLeaf, number: int) -> None:
        """Raise unless the file of a chunk has the right length."""
        path = self.chunk_path(leaf, number)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise damaged(path, "it is missing") from None
        if size != math.prod(self._chunk_shape(leaf)) * np.dtype(leaf.dtype).itemsize:
            raise damaged(path, f"it has {size} bytes")

    def write_chunk(self, leaf: StoredLeaf, number: int, content: np.ndarray) -> None:
        """Write a chunk of an array, all of it or nothing."""
        with replacing(self.chunk_path(leaf, number)) as file:
            file.write(np.ascontiguousarray(content, _little(leaf.dtype)).data)

    def read_chunk(self, leaf: StoredLeaf, number: int) -> np.ndarray:
        """Return a chunk of an array, (chain, draw, ...), whose contents have not been checked."""
        self.check_chunk(leaf, number)
        x = np.fromfile(self.chunk_path(leaf, number), _little(leaf.dtype))
        return x.astype(leaf.dtype, copy=False).reshape(self._chunk_shape(leaf))

    def empty_chunk(self, leaf: StoredLeaf) -> np.ndarray:
        """Return a chunk without draws."""
        return np.full(self._chunk_shape(leaf), np.nan, leaf.dtype)

    def _chunk_shape(self, leaf: StoredLeaf) -> tuple[int, ...]:
        return (self.chains, self.chunk_draws, *leaf.shape)


def _consolidated(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "inline", "must_understand": False, "metadata": metadata}


def _array(
    shape: tuple[int, ...], chunk: tuple[int, ...], dtype: str, fill: Any, names: list[str]
) -> dict[str, Any]:
    """Return the metadata of an array."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": fill,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
        "dimension_names": names,
    }


def _little(dtype: str) -> np.dtype:
    return np.dtype(dtype).newbyteorder("<")
