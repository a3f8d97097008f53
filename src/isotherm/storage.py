"""A file format for arrays and JSON: a zip of `.npy` members and `record.json`, written atomically."""

import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm import tree

_FORMAT = 2
_DAMAGE = (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, zlib.error, OverflowError)


def write_archive(path: str | os.PathLike[str], record: dict[str, PyTree], extra: dict[str, Any]) -> None:
    """Write `record`, a dict of pytrees of arrays, and `extra`, plain JSON, to `path`."""
    path, arrays = Path(path), []
    structure = {name: _encode(value, arrays) for name, value in record.items()}
    head = {"format": _FORMAT, "structure": structure, "dtypes": [x.dtype.name for x in arrays], **extra}
    text = json.dumps(head)
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("record.json", text)
        for i, x in enumerate(arrays):
            with archive.open(f"{i}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _to_plain(x), allow_pickle=False)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` in UTF-8, replacing an existing file completely or not at all."""
    with replacing(Path(path)) as file:
        file.write(text.encode())


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` once all of it is on the disk. Creates the folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)  # temporary files are private, the result need not be
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_archive(
    path: str | os.PathLike[str], *, kind: str, like: dict[str, PyTree]
) -> tuple[dict[str, PyTree], dict[str, Any]]:
    """Return the record and the JSON that `write_archive` wrote; entries named in `like` get its structure."""
    try:
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read("record.json"))
            arrays = [_read(archive, i, name) for i, name in enumerate(head["dtypes"])]
    except _DAMAGE as error:
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
        wanted = like.get(name)
        record[name] = _rebuild(node, arrays) if wanted is None else _restore(name, node, arrays, wanted)
    return record, head


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


def _rebuild(node: dict[str, Any], arrays: list[np.ndarray]) -> PyTree:
    def build(nesting: Any) -> Any:
        if nesting is None or isinstance(nesting, int):
            return None if nesting is None else arrays[nesting]
        ((kind, content),) = nesting.items()
        if kind == "dict":
            return {k: build(x) for k, x in content}
        return (list if kind == "list" else tuple)(build(x) for x in content)

    return build(node["nesting"])


def _restore(name: str, node: dict[str, Any], arrays: list[np.ndarray], like: PyTree) -> PyTree:
    expected, stored = [n for n, _ in tree.named_leaves(like)], [n for n, _ in node["leaves"]]
    if expected != stored:
        raise ValueError(
            f"`like` must have the leaves that the file has for {name}, {stored}; got {expected}."
        )
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[i] for _, i in node["leaves"]])


def _to_plain(x: np.ndarray) -> np.ndarray:
    # NumPy's file format has no bfloat16 and the like: store their bits as integers.
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "V" else x


def _read(archive: zipfile.ZipFile, i: int, name: str) -> np.ndarray:
    with archive.open(f"{i}.npy") as member:
        x = np.lib.format.read_array(member, allow_pickle=False)
    return x if x.dtype.name == name else x.view(jnp.dtype(name))
