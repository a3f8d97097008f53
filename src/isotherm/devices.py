"""The devices that a call computes on, and arrays that are spread over them.

Rows are split over devices in passes, and chains in sampling. On one device nothing here is used.
"""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, cast

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from isotherm.errors import check_count, must

Devices = int | Sequence[jax.Device] | None

AXIS = "devices"
EVERYWHERE, SPLIT = PartitionSpec(), PartitionSpec(AXIS)

_FEWEST_LANES = 2

_CHOSEN: ContextVar[tuple[jax.Device, ...] | None] = ContextVar("devices", default=None)


@contextlib.contextmanager
def using(devices: Devices) -> Iterator[None]:
    """Compute on `devices`: some of those of this process, or the number of them; `None` changes nothing."""
    if devices is None:
        yield
        return
    chosen = _checked(devices)
    token = _CHOSEN.set(chosen)
    try:
        with contextlib.ExitStack() as stack:
            if chosen[0] != jax.local_devices()[0]:
                stack.enter_context(jax.default_device(chosen[0]))
            yield
    finally:
        _CHOSEN.reset(token)


def current() -> tuple[jax.Device, ...]:
    """Return the devices in use: those of `using`, JAX's default device if one is set, or all of this process."""
    chosen = _CHOSEN.get()
    if chosen is not None:
        return chosen
    if cast(Any, jax.config).jax_default_device is None:
        return tuple(jax.local_devices())
    return tuple(jax.device_put(np.zeros(())).devices())


def _checked(devices: int | Sequence[jax.Device]) -> tuple[jax.Device, ...]:
    local = jax.local_devices()
    if not isinstance(devices, Sequence):
        count = check_count("devices", devices, minimum=1)
        if count > len(local):
            names = "device" if len(local) == 1 else "devices"
            rule = f"at most {len(local)}, the number of {names} of this process"
            raise must("devices", rule, count, "`jax.local_devices()` lists them.")
        return tuple(local[:count])
    rule = "a number, or a list of different devices of this process"
    of_process = [isinstance(x, jax.Device) and x.process_index == jax.process_index() for x in devices]
    if not devices or not all(of_process) or len(set(devices)) < len(devices):
        raise must("devices", rule, devices, "`jax.local_devices()` lists them.")
    if len({x.platform for x in devices}) > 1:
        raise must("devices", "of one kind", devices)
    return tuple(devices)


@functools.cache
def mesh(devices: tuple[jax.Device, ...]) -> Mesh:
    """Return the mesh of some devices, with one axis."""
    return Mesh(np.array(devices), (AXIS,))


def replicated(x: PyTree[Array], devices: tuple[jax.Device, ...]) -> PyTree[Array]:
    """Return arrays with a copy on each device. Copies are kept for as long as the original is.

    The original serves as the copy on its own device.
    """
    return jax.tree.map(lambda leaf: _replicas(leaf, devices), x)


_COPIES: dict[tuple[int, tuple[jax.Device, ...]], tuple["weakref.ref[Array]", Array]] = {}


def _replicas(x: Array, devices: tuple[jax.Device, ...]) -> Array:
    name = (id(x), devices)
    known = _COPIES.get(name)
    if known is not None and known[0]() is x:
        return known[1]
    sharding = NamedSharding(mesh(devices), EVERYWHERE)
    if x.sharding == sharding:
        return x
    copies = [x if x.devices() == {device} else jax.device_put(x, device) for device in devices]
    whole = jax.make_array_from_single_device_arrays(x.shape, sharding, copies)
    _COPIES[name] = weakref.ref(x, lambda _: _COPIES.pop(name, None)), whole
    return whole


def split(x: PyTree[Array | np.ndarray], devices: tuple[jax.Device, ...]) -> PyTree[Array]:
    """Return arrays whose leading axis is split over the devices, in order.

    If it cannot be split evenly, the last row is repeated. The caller must ignore these rows.
    """
    return jax.tree.map(lambda leaf: _split(leaf, devices), x)


def _split(x: Array | np.ndarray, devices: tuple[jax.Device, ...]) -> Array:
    rows, each = x.shape[0], -(-x.shape[0] // len(devices))
    sharding = NamedSharding(mesh(devices), SPLIT)
    if isinstance(x, np.ndarray) and each * len(devices) == rows:
        return jax.device_put(x, sharding)
    pieces = []
    for i, device in enumerate(devices):
        piece = x[min(i * each, rows - 1) : max(min((i + 1) * each, rows), min(i * each, rows - 1) + 1)]
        if (missing := each - piece.shape[0]) > 0:
            module = np if isinstance(piece, np.ndarray) else jax.numpy
            piece = module.concatenate([piece, module.repeat(piece[-1:], missing, axis=0)])
        pieces.append(jax.device_put(piece, device))
    return jax.make_array_from_single_device_arrays((each * len(devices), *x.shape[1:]), sharding, pieces)


def for_lanes(lanes: int) -> tuple[tuple[jax.Device, ...], int]:
    """Return the devices that run so many chains, and how many chains each of them has.

    A device has two or more, unless there is only one: one chain rounds differently from several, which agree.
    """
    chosen = current()
    chosen = chosen[: max(1, -(-lanes // _FEWEST_LANES))]
    return chosen, -(-lanes // len(chosen))


def in_groups(f: Callable[..., PyTree[Array]], size: int, *arrays: PyTree[Array]) -> PyTree[Array]:
    """Return `f(*arrays)`, computed for `size` chains at a time: bits do not depend on the number of groups.

    All arrays have a leading axis of chains. The last group is filled up with the first chains.
    """
    count = jax.tree.leaves(arrays)[0].shape[0]
    if count <= size:
        return f(*arrays)
    groups = np.arange(-(-count // size) * size).reshape(-1, size) % count
    parts = [f(*jax.tree.map(lambda x, group=group: x[group], arrays)) for group in groups]
    return jax.tree.map(lambda *xs: jax.numpy.concatenate(xs)[:count], *parts)


def placed(x: PyTree[Any], specs: PyTree[PartitionSpec], devices: tuple[jax.Device, ...]) -> PyTree[Array]:
    """Return arrays on the devices, each as its partition says."""
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh(devices), spec), specs)
    return jax.device_put(x, shardings)
