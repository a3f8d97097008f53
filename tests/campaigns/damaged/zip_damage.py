"""Damage to archives: members, their headers and the record, with the old checksums or with new ones."""

import hashlib
import json
import random
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np

from campaigns.damaged.bytes_damage import Damage
from campaigns.damaged.json_damage import FORGED, changed
from campaigns.damaged.originals import Original
from isotherm import storage

RECORD, SEAL = "record.json", "record.sha256"
_BOMB_BYTES = 3 * 2**29


def _members(path: Path) -> dict[str, bytes] | None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {x.filename: archive.read(x) for x in archive.infolist()}
    except (zipfile.BadZipFile, NotImplementedError, OSError, RuntimeError, ValueError, EOFError):
        return None  # damaged before
    return members if RECORD in members and len(members) > 2 else None


def _write(path: Path, members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a duplicate name
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in members:
                archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, compression)


def change_members(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Remove, repeat, rename, reorder or compress members, or add one."""
    if (members := _members(path)) is None:
        return None
    what, items = (
        rng.choice(("removed", "twice", "renamed", "shuffled", "added", "deflated", "lzma")),
        list(members.items()),
    )
    i = rng.randrange(len(items))
    name, content = items[i]
    if what == "removed":
        del items[i]
    elif what == "twice":
        items.insert(rng.randrange(len(items)), (name, content))
    elif what == "renamed":
        name = rng.choice((f"/{name}", f"../../{name}", name.upper(), "", f"{name}\0x", "C:\\x", f"{i}"))
        items[i] = (name, content)
    elif what == "shuffled":
        rng.shuffle(items)
    elif what == "added":
        items.append((rng.choice(("/etc/x", f"{len(items) - 2}.npy", "folder/")), b"x"))
    _write(
        path,
        items,
        {"deflated": zipfile.ZIP_DEFLATED, "lzma": zipfile.ZIP_LZMA}.get(what, zipfile.ZIP_STORED),
    )
    return f"member {name!r} {what}"


def change_an_array(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Write an array anew with another shape or dtype, as `numpy.save` would. The record keeps its checksum."""
    if (members := _members(path)) is None:
        return None
    name = rng.choice([x for x in members if x.endswith(".npy")])
    what, record = (
        rng.choice(("values", "shape", "dtype", "order", "huge", "object")),
        json.loads(members[RECORD]),
    )
    if what == "values":  # only the checksum in the record knows
        content = members[name]
        members[name] = content[:-1] + bytes([content[-1] ^ 1])
        _write(path, list(members.items()))
        return f"last byte of {name}, in a zip that is whole"
    about = record["arrays"][int(name[:-4])]
    x, shape = np.arange(int(np.prod(about["shape"])), dtype=np.float32), tuple(about["shape"])
    text = {
        "shape": f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(max(0, n - 1) for n in shape)}, }}",
        "dtype": f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}",
        "order": f"{{'descr': '<f4', 'fortran_order': True, 'shape': {shape}, }}",
        "huge": "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "object": "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    }[what]
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"
    members[name] = header + x.tobytes()
    _write(path, list(members.items()))
    return f"{name} with another header: {what}"


def change_the_record(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Change a value in the record. Its checksum remains."""
    if (members := _members(path)) is None:
        return None
    record, what = changed(rng, json.loads(members[RECORD]))
    members[RECORD] = json.dumps(record).encode()
    _write(path, list(members.items()))
    return f"{RECORD}: {what}"


def forge_the_record(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Change a value in the record, and make the checksum fit."""
    if (members := _members(path)) is None:
        return None
    record, what = changed(rng, json.loads(members[RECORD]))
    members[RECORD] = json.dumps(record).encode()
    members[SEAL] = hashlib.sha256(members[RECORD]).hexdigest().encode()
    _write(path, list(members.items()))
    return f"{FORGED}{RECORD}: {what}"


def forge_an_array(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Give an array another shape, dtype or length, and make record and checksums fit."""
    if (members := _members(path)) is None:
        return None
    record = json.loads(members[RECORD])
    i = rng.randrange(len(record["arrays"]))
    about = record["arrays"][i]
    shape = [*about["shape"]]
    what = rng.choice(("shorter", "longer", "flat", "empty", "dtype", "scalar"))
    if what in ("shorter", "longer") and shape:
        shape[rng.randrange(len(shape))] += 1 if what == "longer" else -1
    elif what == "flat":
        shape = [int(np.prod(shape))]
    elif what == "scalar":
        shape = []
    elif what == "empty":
        shape = [0, *shape[1:]]
    dtype = rng.choice(("float64", "int32", "bool", "float16")) if what == "dtype" else about["dtype"]
    if min(shape, default=0) < 0 or not hasattr(np, dtype):
        return None
    x = np.ones(shape, np.dtype(dtype))
    record["arrays"][i] = storage._describe(x, x)
    members[f"{i}.npy"] = storage._npy_header(x.dtype, x.shape) + x.tobytes()
    members[RECORD] = json.dumps(record).encode()
    members[SEAL] = hashlib.sha256(members[RECORD]).hexdigest().encode()
    _write(path, list(members.items()))
    return f"{FORGED}{i}.npy {what}"


def change_the_directory(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Change a field of the directory of the zip: flags, compression, sizes, offsets and counts."""
    content = bytearray(path.read_bytes())
    where = rng.choice((b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06"))
    starts = [i for i in range(len(content) - 46) if content[i : i + 4] == where]
    if not starts:
        return None
    start, place, size = rng.choice(starts), rng.randrange(4, 42), rng.choice((1, 2, 4))
    value = rng.choice((0, 1, 8, 9, 2 ** (8 * size) - 1, rng.randrange(2 ** (8 * size))))
    content[start + place : start + place + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
    path.write_bytes(content)
    return f"{where!r} at {start}: {value} at byte {place}"


def plant_a_bomb(rng: random.Random, folder: Path, path: Path, original: Original) -> str | None:
    """Replace an array by zeros that are a thousand times longer than the file."""
    if (members := _members(path)) is None:
        return None
    name = rng.choice(list(members))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for other in [x for x in members if x != name] + [name]:
            with archive.open(zipfile.ZipInfo(other), "w", force_zip64=True) as member:
                member.write(bytes(2**24) if other == name else members[other])
    content = bytearray(path.read_bytes())  # 16 MB are as good as 1.5 GB if the directory says so
    start = content.rindex(b"PK\x01\x02")
    content[start + 24 : start + 28] = struct.pack("<I", _BOMB_BYTES)
    path.write_bytes(content)
    return f"{name} is a bomb"


ZIP: tuple[Damage, ...] = (
    change_members,
    change_an_array,
    change_the_record,
    forge_the_record,
    forge_the_record,
    forge_an_array,
    forge_an_array,
    change_the_directory,
    change_the_directory,
    plant_a_bomb,
)
