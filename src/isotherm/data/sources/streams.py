"""Streams of blocks: cut to another length, and prepared ahead on a thread."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from isotherm.data.sources.base import joined

_END = object()


def ahead(items: Generator[Any]) -> Iterator[Any]:
    """Yield the items. Each is computed on a thread while the caller uses the one before."""
    try:
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(next, items, _END)
            while (item := pending.result()) is not _END:
                pending = pool.submit(next, items, _END)
                yield item
    finally:
        items.close()


def regrouped(pieces: Iterator[PyTree[np.ndarray]], length: int) -> Iterator[PyTree[np.ndarray]]:
    """Yield the rows of `pieces` again, `length` at a time. Rows are copied only where pieces meet in a block."""
    parts, missing = [], length
    for piece in pieces:
        size, begin = len(jax.tree.leaves(piece)[0]), 0
        while begin < size:
            end = min(size, begin + missing)
            parts.append(jax.tree.map(lambda x, rows=slice(begin, end): x[rows], piece))
            missing, begin = missing - (end - begin), end
            if missing == 0:
                yield joined(parts)
                parts, missing = [], length
    if parts:
        yield joined(parts)
