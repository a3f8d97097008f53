"""Passes over rows on several devices, and by several processes."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import devices, processes, tree
from isotherm.sums.compensated import Sum
from isotherm.sums.programs import SPREAD_BLOCK_FOLDS, SPREAD_EACHES, SPREAD_FOLDS, RowFunction

_FEWEST = 2**20  # numbers in the rows of a pass that is spread over devices; a smaller one is as fast on one


def over(numbers: int) -> tuple[jax.Device, ...] | None:
    """Return the devices that a pass over so many numbers is spread over; `None` if this device does it alone."""
    chosen = devices.current()
    several = len(chosen) > 1 or processes.count() > 1
    return chosen if several and numbers >= _FEWEST else None


def shorter(length: int, num_rows: int, chunk: int) -> int:
    """Return a block length that gives each device of each process a block, if that has at least `chunk` rows.

    It is the same in all processes.
    """
    share = -(-num_rows // max(jax.device_count(), len(devices.current()) * processes.count()))
    return min(length, -(-share // chunk) * chunk)


def fold_arrays(
    f: RowFunction,
    data: PyTree[Array],
    args: tuple[PyTree, ...],
    key: Key[Array, ""],
    bounds: tuple[int, int],
    length: int,
    effort: int,
    chosen: tuple[jax.Device, ...],
) -> PyTree[np.ndarray]:
    """Return the sum of `f` over the rows within `bounds`, of which this process and its devices take some blocks."""

    def own() -> PyTree[np.ndarray]:
        stride = processes.count() * len(chosen)
        first = np.arange(processes.index(), stride, processes.count(), dtype=np.int32)
        begin, end = (tree.put(x, np.int32) for x in bounds)
        shared = _everywhere((args, key, begin, end), chosen)
        total = SPREAD_FOLDS[effort](
            devices.mesh(chosen),
            devices.split(first, chosen),
            stride,
            length,
            _everywhere(f, chosen),
            devices.replicated(data, chosen),
            *shared,
        )
        return over_devices(total)

    return added(processes.gathered(own, f"sum {type(f).__name__}"))


class BlockFold:
    """The sum of `f` over blocks that are split over devices."""

    def __init__(
        self, f: RowFunction, args: tuple[PyTree, ...], effort: int, chosen: tuple[jax.Device, ...]
    ) -> None:
        self.effort, self.chosen, self.mesh = effort, chosen, devices.mesh(chosen)
        self.f, self.args = _everywhere((f, args), chosen)

    def zero(self, nothing: Sum) -> Sum:
        """Return an empty sum for each device."""
        stack = lambda x: np.zeros((len(self.chosen), *x.shape), x.dtype)
        return devices.split(jax.tree.map(stack, nothing), self.chosen)

    def add(self, block: PyTree[Array | np.ndarray], count: int, length: int, total: Sum) -> Sum:
        """Return the sums with the first `count` rows of a block added, `length` of them at a time."""
        rows = jax.tree.leaves(block)[0].shape[0]
        each = -(-rows // len(self.chosen))
        counts = np.clip(count - each * np.arange(len(self.chosen)), 0, each).astype(np.int32)
        parts = devices.split((block, counts), self.chosen)
        return SPREAD_BLOCK_FOLDS[self.effort](self.mesh, *parts, total, length, self.f, self.args)


def each_of(
    f: RowFunction,
    rows: PyTree[Array | np.ndarray],
    args: tuple[PyTree, ...],
    length: int,
    effort: int,
    chosen: tuple[jax.Device, ...],
) -> PyTree[np.ndarray]:
    """Return `f` of all rows, on the host. Devices have equally many of them."""
    count = jax.tree.leaves(rows)[0].shape[0]
    f, args = _everywhere((f, args), chosen)
    found = SPREAD_EACHES[effort](devices.mesh(chosen), devices.split(rows, chosen), length, f, args)
    return jax.tree.map(lambda x: np.asarray(x)[:count], found)


def over_devices(total: Sum) -> PyTree[np.ndarray]:
    """Return the sum of the sums of all devices, in float64."""
    return jax.tree.map(lambda x: np.asarray(x.sum(axis=0)), total.result())


def added(parts: list[PyTree[np.ndarray]]) -> PyTree[np.ndarray]:
    """Return the sum of the parts of all processes, in the order of the processes."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *xs: np.asarray(sum(xs)), *parts)


def _everywhere(x: Any, chosen: tuple[jax.Device, ...]) -> Any:
    """Return a pytree with its arrays on all devices."""
    arrays, rest = eqx.partition(x, eqx.is_array)
    return eqx.combine(
        devices.placed(arrays, jax.tree.map(lambda _: devices.EVERYWHERE, arrays), chosen), rest
    )
