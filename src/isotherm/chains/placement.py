"""Lanes on several devices: the compiled loop of `loop`, on each device for the lanes that it holds.

No lane needs anything of another, so devices do not communicate. What all lanes share is copied to each device.
"""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Int, PyTree

from isotherm import devices, tree
from isotherm.chains import loop
from isotherm.chains.ensemble import Ensemble
from isotherm.compilation import compile_ahead, compile_fully, compile_quickly
from isotherm.devices import AXIS, EVERYWHERE, SPLIT


@dataclasses.dataclass(frozen=True)
class Placement:
    """Which devices run an ensemble, and the number of its lanes.

    Each device runs equally many lanes, at least two. Lanes are repeated to make that possible, and their results
    dropped.
    """

    devices: tuple[jax.Device, ...]
    lanes: int

    @staticmethod
    def of(ensemble: Ensemble) -> "Placement":
        """Return the placement of an ensemble on the devices in use, or on some of them if it has few lanes."""
        lanes = len(ensemble.lane_keys)
        return Placement(devices.for_lanes(lanes)[0], lanes)

    @property
    def several(self) -> bool:
        """Whether there are several devices."""
        return len(self.devices) > 1

    def padded(self, ensemble: Ensemble) -> Ensemble:
        """Return the ensemble with some lanes repeated, so that each device has equally many."""
        return ensemble.of_lanes(self._repeated) if self.several else ensemble

    def placed(self, x: np.ndarray) -> Array:
        """Return an array with an axis of lanes, none of them repeated, on the devices."""
        return self.split(x[self._repeated]) if self.several else tree.put(x)

    @property
    def _repeated(self) -> np.ndarray:
        """The numbers of the lanes, some of them repeated, so that each device has equally many."""
        each = -(-self.lanes // len(self.devices))
        return np.arange(each * len(self.devices)) % self.lanes

    def split(self, x: PyTree[Array | np.ndarray]) -> PyTree[Array]:
        """Return arrays with an axis of lanes, or of rows in the order of lanes, split over several devices."""
        return devices.split(x, self.devices)

    def program(self, program: loop.Program) -> loop.Program:
        """Return the program on its devices. Rows of a feed must have been split before."""
        if not self.several:
            return program
        rows = program.data if program.feed is not None else devices.replicated(program.data, self.devices)
        arrays, rest = eqx.partition(dataclasses.replace(program, data=None, feed=None), eqx.is_array)
        specs = _specs(arrays)
        whole = eqx.combine(devices.placed(arrays, specs, self.devices), rest)
        return dataclasses.replace(whole, data=rows, feed=program.feed)

    def start(self, program: loop.Program, positions: PyTree) -> loop.Lane:
        """Return what `loop.start` does."""
        if not self.several:
            return loop.start(program, positions)
        return _start(self._mesh, program, self.split(positions))

    def restart_averages(self, program: loop.Program, lanes: loop.Lane, time: Int[Array, ""]) -> loop.Lane:
        """Return what `loop.restart_averages` does."""
        if not self.several:
            return loop.restart_averages(program, lanes, time)
        return _restart_averages(self._mesh, program, lanes, time)

    def advance(
        self,
        program: loop.Program,
        lanes: loop.Lane,
        num_kept: Int[Array, ""],
        thinning: Int[Array, ""],
        collect: Bool[Array, ""],
        capacity: int,
    ) -> tuple[loop.Lane, loop.Kept]:
        """Return what `loop.advance` does."""
        if not self.several:
            return loop.advance(program, lanes, num_kept, thinning, collect, capacity)
        return _advance(self._mesh, program, lanes, (num_kept, thinning, collect), capacity)

    def compile_advance(self, program: loop.Program, lanes: loop.Lane, capacity: int) -> Callable[[], None]:
        """Begin to compile `advance` on another thread; return a function that waits until it is compiled."""
        if self.several:
            return lambda: None
        number, flag = jnp.asarray(0), jnp.asarray(False)
        return compile_ahead(loop.advance, program, lanes, number, number, flag, capacity)

    def together(self, lanes: PyTree) -> PyTree:
        """Return the lanes of all devices on one, without those that were repeated."""
        if not self.several:
            return lanes
        return jax.tree.map(lambda x: tree.put(np.asarray(x)[: self.lanes]), lanes)

    @property
    def _mesh(self) -> Mesh:
        return devices.mesh(self.devices)


def _specs(program: loop.Program) -> loop.Program:
    """Return how each array of a program is divided over devices."""
    divided = lambda x, spec: jax.tree.map(lambda _: spec, x)
    kernel = divided(program.kernel, EVERYWHERE)
    if program.stacked:
        kernel = eqx.tree_at(lambda k: k.sampler, kernel, divided(program.kernel.sampler, SPLIT))
    return dataclasses.replace(
        program,
        kernel=kernel,
        data=divided(program.data, EVERYWHERE if program.feed is None else SPLIT),
        keys=divided(program.keys, SPLIT),
        anchors=divided(program.anchors, SPLIT),
        feed=divided(program.feed, SPLIT),
    )


def _on_devices(
    f: Callable,
    mesh: Mesh,
    program: loop.Program,
    lanes: PyTree,
    shared: PyTree,
    out: PyTree[PartitionSpec],
) -> PyTree:
    """Return `f(program, lanes, *shared)` of each device, put together as `out` says."""
    arrays, rest = eqx.partition(program, eqx.is_array)

    def local(arrays: PyTree, lanes: PyTree, shared: PyTree) -> PyTree:
        return f(eqx.combine(arrays, rest), lanes, *shared)

    specs = (_specs(arrays), SPLIT, EVERYWHERE)
    run = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)
    return run(arrays, lanes, shared)


@compile_quickly
def _start(mesh: Mesh, program: loop.Program, positions: PyTree) -> loop.Lane:
    return _on_devices(loop._start, mesh, program, positions, (), SPLIT)


@compile_quickly
def _restart_averages(mesh: Mesh, program: loop.Program, lanes: loop.Lane, time: Int[Array, ""]) -> loop.Lane:
    return _on_devices(loop._restart_averages, mesh, program, lanes, (time,), SPLIT)


@compile_fully
def _advance(
    mesh: Mesh, program: loop.Program, lanes: loop.Lane, numbers: tuple[Array, Array, Array], capacity: int
) -> tuple[loop.Lane, loop.Kept]:
    run = functools.partial(loop._advance_lanes, capacity=capacity)
    return _on_devices(run, mesh, program, lanes, numbers, (SPLIT, PartitionSpec(None, AXIS)))
