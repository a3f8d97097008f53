"""One file of plain arrays and JSON: a zip of `.npy` members and `record.json`, replaced atomically."""

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm import tree

_FORMAT = 1


def write_archive(path: str | os.PathLike[str], record: dict[str, PyTree], extra: dict[str, Any]) -> None:
    """Write `record`, a dict of pytrees of arrays, and `extra`, plain JSON, to `path`."""
    path, arrays = Path(path), []
    structure = {name: _encode(value, arrays) for name, value in record.items()}
    dtypes = [x.dtype.name for x in arrays]
    head = {"format": _FORMAT, "structure": structure, "dtypes": dtypes, **extra}
    text = json.dumps(head, allow_nan=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr("record.json", text)
                for i, x in enumerate(arrays):
                    with archive.open(f"{i}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, _to_plain(x), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_archive(
    path: str | os.PathLike[str], *, kind: str, like: dict[str, PyTree]
) -> tuple[dict[str, PyTree], dict[str, Any]]:
    """The record and the JSON that `write_archive` wrote; entries in `like` take its structure."""
    try:
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read("record.json"))
            arrays = [_read(archive, i, name) for i, name in enumerate(head["dtypes"])]
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise ValueError(
            f"`path` must be a file written by isotherm; {path} is not, or is damaged."
        ) from error
    if head.get("kind") != kind or head.get("format") != _FORMAT:
        raise ValueError(
            f"`path` must hold {kind} in format {_FORMAT}; {path} holds {head.get('kind')} in format "
            f"{head.get('format')}."
        )
    record = {}
    for name, node in head["structure"].items():
        record[name] = _decode(node, arrays)
        if name in like:
            record[name] = _restore(name, node, arrays, like[name])
    return record, head


def _encode(node: Any, arrays: list[np.ndarray]) -> Any:
    if node is None:
        return {"none": True}
    if isinstance(node, dict) and all(isinstance(k, str) for k in node):
        return {"dict": {k: _encode(node[k], arrays) for k in sorted(node)}}
    if type(node) in (list, tuple):
        return {type(node).__name__: [_encode(x, arrays) for x in node]}
    if isinstance(node, np.ndarray | np.generic | jax.Array):
        arrays.append(np.asarray(node))
        return {"array": len(arrays) - 1}
    return {"dict": {name: _encode(x, arrays) for name, x in tree.named_leaves(node)}}


def _decode(node: Any, arrays: list[np.ndarray]) -> Any:
    ((kind, content),) = node.items()
    if kind == "dict":
        return {k: _decode(x, arrays) for k, x in content.items()}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(_decode(x, arrays) for x in content)
    return None if kind == "none" else arrays[content]


def _restore(name: str, node: Any, arrays: list[np.ndarray], like: PyTree) -> PyTree:
    leaves, structure = jax.tree.leaves(_decode(node, arrays)), jax.tree.structure(like)
    if structure.num_leaves != len(leaves):
        raise ValueError(
            f"`like` must have the {len(leaves)} leaves that the file has for {name}; "
            f"got {structure.num_leaves}."
        )
    order = _array_order(node)
    return jax.tree.unflatten(structure, [arrays[i] for i in order])


def _array_order(node: Any) -> list[int]:
    ((kind, content),) = node.items()
    if kind == "array":
        return [content]
    children = content.values() if kind == "dict" else content if kind in ("list", "tuple") else []
    return [i for child in children for i in _array_order(child)]


def _to_plain(x: np.ndarray) -> np.ndarray:
    # bfloat16 and its kin are no dtypes of numpy's file format: their bits are.
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "V" else x


def _read(archive: zipfile.ZipFile, i: int, name: str) -> np.ndarray:
    with archive.open(f"{i}.npy") as member:
        x = np.lib.format.read_array(member, allow_pickle=False)
    return x if x.dtype.name == name else x.view(jnp.dtype(name))
