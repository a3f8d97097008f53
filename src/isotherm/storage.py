"""A file format for arrays and JSON: a zip of `.npy` members and `record.json`, with checksums, written atomically.

`record.json` states dtype, shape and SHA-256 of every array, and `record.sha256` the SHA-256 of `record.json`.
Members are not compressed and their headers follow from the record. So no length in the file is taken on trust: what
is allocated is never more than what lies on the disk.
"""

import hashlib
import io
import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm import tree
from isotherm.errors import DamagedFileError, must
from isotherm.files import open_file, parse_json, refusing_damage
from isotherm.files import replacing as replacing
from isotherm.files import write_text as write_text

REPAIR = "Restore it from a copy, or sample again."
_FORMAT = 3
_RECORD, _SEAL = "record.json", "record.sha256"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same content gives the same bytes


def write_archive(path: str | os.PathLike[str], record: dict[str, PyTree], extra: dict[str, Any]) -> str:
    """Write `record`, a dict of pytrees of arrays, and `extra`, plain JSON, to `path`; return its seal.

    The seal is the checksum of `record.json`, and so of all the content.
    """
    arrays: list[np.ndarray] = []
    structure = {name: _encode(value, arrays) for name, value in record.items()}
    plain = [_to_plain(x) for x in arrays]
    about = [_describe(x, bits) for x, bits in zip(arrays, plain, strict=True)]
    head = json.dumps({"format": _FORMAT, "structure": structure, "arrays": about, **extra}).encode()
    seal = hashlib.sha256(head).hexdigest()
    with replacing(Path(path)) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member(_RECORD), head)
        archive.writestr(_member(_SEAL), seal)
        for i, x in enumerate(plain):
            with archive.open(_member(f"{i}.npy"), "w", force_zip64=True) as member:
                member.write(_npy_header(x.dtype, x.shape))
                member.write(_bytes_of(x))
    return seal


def read_archive(
    path: str | os.PathLike[str], *, kind: str, like: dict[str, PyTree]
) -> tuple[dict[str, PyTree], dict[str, Any]]:
    """Return the record and the JSON that `write_archive` wrote; entries named in `like` get its structure.

    The JSON has the seal of the file, too, under `seal`.

    Raises a `DamagedFileError` if anything in the file differs from what was written.
    """
    with open_file(path) as file, refusing_damage(path, REPAIR), zipfile.ZipFile(file) as archive:
        members = _members(archive, os.fstat(file.fileno()).st_size)
        head = _head(archive, members, path, kind)
        about = _checked(list, head["arrays"], "arrays")
        if list(members) != [_RECORD, _SEAL, *(f"{i}.npy" for i in range(len(about)))]:
            raise ValueError(f"it must have a member for each of the {len(about)} arrays of its record")
        arrays = [_read(archive, members[f"{i}.npy"], x) for i, x in enumerate(about)]
        structure = _checked(dict, head["structure"], "structure")
        record, leaves = {}, {}
        for name, node in structure.items():
            record[name], leaves[name] = _rebuild(node, arrays), _leaves(node, arrays)
        if [id(x) for part in leaves.values() for _, x in part] != [id(x) for x in arrays]:
            raise ValueError("its record must name every array once, in order")
    for name, wanted in like.items():
        if wanted is not None and name in leaves:
            record[name] = _restore(name, leaves[name], wanted)
    return record, head


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.external_attr = 0o644 << 16  # permissions, for those who unpack the file
    return member


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name; refuse those that could take more memory than the file has bytes."""
    infos = archive.infolist()
    if any(x.compress_type != zipfile.ZIP_STORED or x.compress_size != x.file_size for x in infos):
        raise ValueError("its members must not be compressed")
    if sum(x.file_size for x in infos) > size:
        raise ValueError("its members have more bytes than the file")
    members = {x.filename: x for x in infos}
    if len(members) < len(infos):
        raise ValueError("two of its members have the same name")
    return members


def _head(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], path: str | os.PathLike[str], kind: str
) -> dict[str, Any]:
    """Return `record.json`, after a check of its checksum, kind and format."""
    if _RECORD not in members:
        raise ValueError(f"it has no {_RECORD}")
    content = archive.read(members[_RECORD])
    sealed = archive.read(members[_SEAL]) if _SEAL in members else None
    if sealed is not None and sealed != hashlib.sha256(content).hexdigest().encode():
        raise ValueError(f"the checksum of its {_RECORD} is wrong")
    head = parse_json(content, nan=True)
    if head.get("format") != _FORMAT:
        raise DamagedFileError(
            f"{os.fspath(path)} has format {head.get('format')!r}, and this version of isotherm reads format "
            f"{_FORMAT} only. Read it with the version that wrote it, or sample again."
        )
    if sealed is None:
        raise ValueError(f"it has no checksum of its {_RECORD}")
    if head.get("kind") != kind:
        raise DamagedFileError(
            f"{os.fspath(path)} must hold {kind}; it holds {head.get('kind')!r}. Name another file."
        )
    return head | {"seal": sealed.decode()}


def _describe(x: np.ndarray, plain: np.ndarray) -> dict[str, Any]:
    digest = hashlib.sha256(_bytes_of(plain)).hexdigest()
    return {"dtype": x.dtype.name, "shape": list(x.shape), "sha256": digest}


def _to_plain(x: np.ndarray) -> np.ndarray:
    """Return a contiguous little-endian array. NumPy's format has no bfloat16 and the like: these become integers."""
    if not _is_stored(x.dtype):
        raise must("record", "arrays of booleans or of numbers of at most 64 bits", x)
    x = np.ascontiguousarray(x).reshape(x.shape)
    return x.view(f"<u{x.dtype.itemsize}") if x.dtype.kind == "V" else x.astype(_little(x.dtype), copy=False)


def _is_stored(dtype: np.dtype) -> bool:
    is_number = dtype.kind in "biuf" and dtype.itemsize <= 8
    is_short = (
        dtype.kind == "V" and dtype.type is not np.void and dtype.itemsize <= 2
    )  # bfloat16 and the like
    return is_number or is_short or dtype.name in ("complex64", "complex128")


def _little(dtype: np.dtype) -> np.dtype:
    return dtype.newbyteorder("<")


def _bytes_of(x: np.ndarray) -> memoryview:
    return x.reshape(-1).view(np.uint8).data


def _npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Return the header of NumPy's format, version 1.0 or 2.0. It is written here, so that its bytes never change."""
    text = f"{{'descr': '{_little(dtype).str}', 'fortran_order': False, 'shape': {shape}, }}"
    start, width = (b"\x93NUMPY\x01\x00", 2) if len(text) < 60_000 else (b"\x93NUMPY\x02\x00", 4)
    padding = -(len(start) + width + len(text) + 1) % 64
    text = text + " " * padding + "\n"
    return start + len(text).to_bytes(width, "little") + text.encode("ascii")


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, about: Any) -> np.ndarray:
    """Return an array whose header, length and checksum are those that the record states."""
    name, shape, digest = (_checked(dict, about, "arrays")[k] for k in ("dtype", "shape", "sha256"))
    shape = tuple(_check_length(n) for n in _checked(list, shape, "shape"))
    dtype = jnp.dtype(_checked(str, name, "dtype"))
    if dtype.name != name or not _is_stored(dtype):
        raise ValueError(f"{member.filename} has dtype {name!r}, which is not stored")
    plain = np.dtype(f"<u{dtype.itemsize}") if dtype.kind == "V" else _little(dtype)
    header = _npy_header(plain, shape)
    if member.file_size != len(header) + math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{member.filename} does not have the length of an array of shape {shape}")
    with cast(io.BufferedIOBase, archive.open(member)) as file:
        if file.read(len(header)) != header:
            raise ValueError(f"{member.filename} does not have the header of {name} of shape {shape}")
        x = np.empty(shape, plain)
        view, done = _bytes_of(x), 0
        while done < len(view) and (count := file.readinto(view[done:])):
            done += count
        at_end = file.read(1) == b""  # reading to the end checks the checksum of the zip, too
    if done < len(view) or not at_end or hashlib.sha256(view).hexdigest() != digest:
        raise ValueError(f"the checksum of {member.filename} is wrong")
    return x.view(dtype) if dtype.kind == "V" else x.astype(dtype, copy=False)


def _check_length(n: Any) -> int:
    """Return the length of an axis; raise unless it is an integer of at least 0."""
    if type(n) is not int or n < 0:
        raise ValueError(f"the length of an axis must be an integer of at least 0; it is {n!r}")
    return n


def _checked(kind: type, value: Any, name: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"`{name}` must be a {kind.__name__}; it is a {type(value).__name__}")
    return value


def _encode(value: PyTree, arrays: list[np.ndarray]) -> dict[str, Any]:
    """Return the leaves by name in flattening order, and the nesting as plain containers, which needs no classes."""
    leaves = tree.named_leaves(value)
    first = len(arrays)
    arrays += [np.asarray(leaf) for _, leaf in leaves]
    numbers = iter(range(first, len(arrays)))
    index = jax.tree.unflatten(jax.tree.structure(value), [next(numbers) for _ in leaves])
    return {"leaves": [[name, first + i] for i, (name, _) in enumerate(leaves)], "nesting": _nesting(index)}


def _nesting(node: Any) -> Any:
    if node is None or isinstance(node, int):
        return node
    if isinstance(node, dict) and all(isinstance(k, str) for k in node):
        return {"dict": [[k, _nesting(x)] for k, x in node.items()]}
    if type(node) in (list, tuple):
        return {type(node).__name__: [_nesting(x) for x in node]}
    return {"dict": [[name, i] for name, i in tree.named_leaves(node)]}


def _leaves(node: Any, arrays: list[np.ndarray]) -> list[tuple[str, np.ndarray]]:
    return [(_checked(str, name, "leaves"), _array(i, arrays)) for name, i in node["leaves"]]


def _array(i: Any, arrays: list[np.ndarray]) -> np.ndarray:
    if type(i) is not int or not 0 <= i < len(arrays):
        raise ValueError(f"an array must have a number below {len(arrays)}; it has {i!r}")
    return arrays[i]


def _rebuild(node: Any, arrays: list[np.ndarray]) -> PyTree:
    def build(nesting: Any) -> Any:
        if not isinstance(nesting, dict):
            return None if nesting is None else _array(nesting, arrays)
        ((kind, content),) = nesting.items()
        content = _checked(list, content, "nesting")
        if kind == "dict":
            return {_checked(str, k, "nesting"): build(x) for k, x in content}
        return {"list": list, "tuple": tuple}[kind](build(x) for x in content)

    value = build(node["nesting"])
    if sorted(id(x) for x in jax.tree.leaves(value)) != sorted(id(x) for _, x in _leaves(node, arrays)):
        raise ValueError("the nesting of its record must have the same arrays as the list of leaves")
    return value


def _restore(name: str, leaves: list[tuple[str, np.ndarray]], like: PyTree) -> PyTree:
    expected, stored = [n for n, _ in tree.named_leaves(like)], [n for n, _ in leaves]
    if expected != stored:
        raise ValueError(
            f"`like` must have the leaves that the file has for {name}, {stored}; got {expected}."
        )
    return jax.tree.unflatten(jax.tree.structure(like), [x for _, x in leaves])
