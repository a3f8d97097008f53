"""The elements of a parameter one by one, also of draws that stay on the disk."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Shaped

from isotherm.store.stored_array import StoredArray

_AT_ONCE = 2**27  # bytes that are read of draws on the disk


def elements_of(leaf: Any) -> Iterator[Shaped[np.ndarray, "chain draw"]]:
    """Yield each element of a leaf (chain, draw, ...) in the order of a flattened draw."""
    if not isinstance(leaf, StoredArray):
        flat = np.asarray(leaf).reshape(*leaf.shape[:2], -1)
        yield from np.moveaxis(flat, 2, 0)
        return
    size = math.prod(leaf.leaf.shape)
    count = max(1, _AT_ONCE * size // max(1, leaf.nbytes))
    for begin in range(0, size, count):
        block = leaf.elements(begin, begin + count)
        for i in range(block.shape[2]):
            yield np.ascontiguousarray(block[:, :, i])  # no view, which would keep the block in memory
        del block
