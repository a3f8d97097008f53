"""Results of passes over the data, kept on the disk, so that a warm-up that was ended does not make them again.

A warm-up makes the same passes in the same order each time. The n-th result is used if the n-th pass has the same
arguments as when it was stored.
"""

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from isotherm.errors import DamagedFileError
from isotherm.files import refusing_damage
from isotherm.storage import REPAIR, read_archive, write_archive
from isotherm.store import plain
from isotherm.store.folder import explaining

T = TypeVar("T")

_SECONDS = 0.2  # that a pass takes, from which its result is worth storing
_current: ContextVar["Journal | None"] = ContextVar("journal", default=None)


class Journal:
    """Results in the files 0.iso, 1.iso, ... of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.passes = folder, 0

    def recall(self, label: str, compute: Callable[[], T]) -> T:
        """Return the stored result of the next pass, or compute it and store it if that took long."""
        path = self.folder / f"{self.passes}.iso"
        self.passes += 1
        if path.is_file():
            with contextlib.suppress(DamagedFileError), refusing_damage(path, REPAIR):  # it is computed again
                record, extra = read_archive(path, kind="pass", like={})
                if extra["about"]["label"] == label:
                    return plain.decode(extra["node"], record["arrays"])
        began = time.perf_counter()
        result = compute()
        if time.perf_counter() - began >= _SECONDS:
            node, arrays = plain.encode(result)
            if not plain.opaque(node):
                extra = {"kind": "pass", "node": node, "about": {"label": label}}
                with explaining(self.folder):
                    write_archive(path, {"arrays": arrays}, extra)
        return result


@contextlib.contextmanager
def recorded_in(journal: Journal) -> Iterator[None]:
    """Keep the results of all passes that are made inside."""
    token = _current.set(journal)
    try:
        yield
    finally:
        _current.reset(token)


def recalled(f: Any, args: PyTree, detail: str, compute: Callable[[], T]) -> T:
    """Return `compute()`, or what it returned before it was last stored, if a journal is kept."""
    journal = _current.get()
    return compute() if journal is None else journal.recall(_label(f, args, detail), compute)


def _label(f: Any, args: PyTree, detail: str) -> str:
    """Return a hash of the function's name and of all arrays that it is called with."""
    digest = hashlib.sha256(f"{type(f).__name__} {detail}\n".encode())
    for x in jax.tree.leaves(eqx.filter((f, args), eqx.is_array)):
        if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key):
            x = jax.random.key_data(x)
        x = np.asarray(x)
        digest.update(f"{x.shape} {x.dtype}".encode() + x.tobytes())
    return digest.hexdigest()
