"""The elements of a parameter one by one and their names, also of draws that stay on the disk."""

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int, Shaped

from isotherm.store.stored_array import StoredArray
from isotherm.text import visible

if TYPE_CHECKING:
    from isotherm.draws.draws import Draws

_AT_ONCE = 2**27  # bytes that are read of draws on the disk


def elements_of(leaf: Any) -> Iterator[Shaped[np.ndarray, "chain draw"]]:
    """Yield each element of a leaf (chain, draw, ...) in the order of a flattened draw."""
    for piece in _pieces(leaf):
        for i in range(piece.shape[2]):
            element = piece[:, :, i]
            # A view would keep all that was read of a leaf on the disk.
            yield np.ascontiguousarray(element) if isinstance(leaf, StoredArray) else element
            del element
        del piece


def blocks_of(
    leaf: Any, chains: Int[np.ndarray, " chain"], values: int
) -> Iterator[Float64[np.ndarray, "number chain draw"]]:
    """Yield copies of elements of a leaf (chain, draw, ...), as many at once as have about `values` draws."""
    every = len(chains) == leaf.shape[0]
    most = max(1, values // max(1, len(chains) * leaf.shape[1]))
    for piece in _pieces(leaf):
        for begin in range(0, piece.shape[2], most):
            part = np.moveaxis(piece[:, :, begin : begin + most], 2, 0)
            block = (part if every else part[:, chains]).astype(np.float64, order="C")
            del part
            yield block
            del block  # before the next one is made
        del piece


def _pieces(leaf: Any) -> Iterator[Shaped[np.ndarray, "chain draw number"]]:
    """Yield all elements of a leaf in memory at once, and of one on the disk as many as may be read at once."""
    if not isinstance(leaf, StoredArray):
        yield np.asarray(leaf).reshape(*leaf.shape[:2], -1)
        return
    size = math.prod(leaf.leaf.shape)
    count = max(1, _AT_ONCE * size // max(1, leaf.nbytes))
    for begin in range(0, size, count):
        yield leaf.elements(begin, begin + count)


def labels_of(draws: "Draws") -> dict[str, list[str]]:
    """Return names for the elements of each leaf: `w[2, 0]`, or the labels along its axes if the draws have some."""
    known, leaves = draws.labels, {**draws.flat(), **draws.derived}
    return {
        name: [_label(name, x.shape[2:], i, known.get(name)) for i in range(int(np.prod(x.shape[2:])))]
        for name, x in leaves.items()
    }


def _label(name: str, shape: tuple[int, ...], i: int, axes: list[list[str]] | None) -> str:
    if axes is not None:
        return ": ".join(names[k] for names, k in zip(axes, np.unravel_index(i, shape), strict=True))
    index = ", ".join(str(k) for k in np.unravel_index(i, shape)) if shape else ""
    return f"{name}[{index}]" if index else name


def unknown(name: object, known: Iterable[str]) -> str:
    """Return the message for a name that no parameter has: those that begin with it, or else the first ones."""
    known = list(known)
    inside = [x for x in known if x.startswith(f"{name}.")]
    listed = [visible(x) for x in (inside or known)[:10]]
    more = f" and {len(inside or known) - 10} more" if len(inside or known) > 10 else ""
    return f"{visible(repr(name))} is not the name of a parameter; there are {', '.join(listed)}{more}"
