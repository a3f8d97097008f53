"""Feeds: the rows of the next steps of all chains, found in a stream on a thread and put on the device.

Which rows a step uses depends on (key, chain, step) alone. So the rows of many steps are found in one pass over the
stream, and the compiled loop runs on them as it does on all rows in memory.
"""

import math
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotReady

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree, Shaped

from isotherm.chains.ensemble import Ensemble
from isotherm.chains.placement import Placement
from isotherm.compilation import compile_quickly
from isotherm.data.fed import Fed
from isotherm.data.plans import MinibatchPlan
from isotherm.data.sources.base import row_bytes
from isotherm.data.stream import Drawn, Stream, put
from isotherm.kernel import Kernel

_BYTES = 2**28  # of the rows of one portion, and of what finding them takes
_NAME_BYTES = 104  # that finding a row takes


class Feed:
    """Portions of rows for `steps` steps each, from step `begin` on. The next is found while chains use the last."""

    def __init__(self, ensemble: Ensemble, data: Stream, placement: Placement, begin: int) -> None:
        self.ensemble, self.data, self.kernel = ensemble, data, ensemble.kernel
        self.placement = placement
        most = most_steps(self.kernel, data, len(ensemble.lane_keys))
        self.steps = math.ceil(ensemble.num_steps / math.ceil(ensemble.num_steps / most))
        self.begin = begin
        self.next: Future[Drawn] = self._find(begin)

    def portion(self, begin: int, stopped: threading.Event) -> tuple[PyTree[Array], Fed] | None:
        """Return the rows of the steps from `begin` on, and where they are for each lane; `None` once `stopped`."""
        drawn = self._wait(stopped)
        if drawn is None:
            return None
        if begin + self.steps < self.ensemble.num_steps:
            self.next = self._find(begin + self.steps)
        return _laid_out(self.kernel, drawn, len(self.ensemble.lane_keys), self.steps, begin, self.placement)

    def _find(self, begin: int) -> "Future[Drawn]":
        names = _named(self.kernel, self.ensemble.lane_keys, begin, self.steps)
        future: Future[Drawn] = Future()

        def find() -> None:
            try:
                future.set_result(self.kernel.minibatch.found(self.data, names))
            except BaseException as error:  # raised again where the rows are used
                future.set_exception(error)

        # A daemon, so that a long pass does not keep a process alive after an interruption.
        threading.Thread(target=find, name="isotherm-feed", daemon=True).start()
        return future

    def _wait(self, stopped: threading.Event) -> Drawn | None:
        while not stopped.is_set():
            try:
                return self.next.result(timeout=0.2)
            except NotReady:
                if self.next.done():  # since then, or with an error of that kind
                    return self.next.result()
        return None


def fetched(
    kernel: Kernel, data: Stream, keys: Key[Array, " lanes"], steps: int
) -> tuple[PyTree[Array], Fed]:
    """Return the rows of the first `steps` steps of chains with these keys, and where they are for each."""
    drawn = kernel.minibatch.found(data, _named(kernel, keys, 0, steps))
    return _laid_out(kernel, drawn, len(keys), steps, 0)


def most_steps(kernel: Kernel, data: Stream, lanes: int) -> int:
    """Return the number of steps whose rows are put on the device together."""
    return max(1, most_lanes(kernel, data) // lanes)


def most_lanes(kernel: Kernel, data: Stream) -> int:
    """Return the number of chains for which the rows of a step are put on the device together."""
    return max(1, _BYTES // (kernel.batch_size * (row_bytes(data.source.row) + _NAME_BYTES)))


def _laid_out(
    kernel: Kernel, drawn: Drawn, lanes: int, steps: int, begin: int, placement: Placement | None = None
) -> tuple[PyTree[Array], Fed]:
    """Return the rows on the device, and where they are. With several devices, each has those of its lanes."""
    shape = (lanes, steps, kernel.batch_size)
    several = None if placement is None or not placement.several else placement
    place = put if several is None else several.split
    rows_each = math.prod(shape) // (1 if several is None else len(several.devices))
    places = (np.arange(math.prod(shape), dtype=np.int32) % rows_each).reshape(shape)
    weights = None if drawn.weights is None else place(drawn.weights.reshape(shape))
    factor = kernel.minibatch.noise_factor(kernel.num_data, kernel.batch_size)
    fed = Fed(place(places), weights, place(np.full(lanes, begin, np.int32)), factor)
    return jax.tree.map(place, drawn.rows), fed


def _named(kernel: Kernel, keys: Key[Array, " lanes"], begin: int, steps: int) -> np.ndarray:
    """Return what names the rows of each step of each lane, one after the other."""
    numbers = jnp.arange(begin, begin + steps, dtype=jnp.int32)
    names = np.asarray(_names(kernel.minibatch.naming, keys, numbers, kernel.num_data, kernel.batch_size))
    return names.reshape(-1, *names.shape[3:])


@compile_quickly
def _names(
    plan: MinibatchPlan,
    lane_keys: Key[Array, " lanes"],
    steps: Int[Array, " steps"],
    num_data: int,
    batch_size: int,
) -> Shaped[Array, "lanes steps n ..."]:
    """Return what names the rows of each step of each lane."""

    def one(key: Key[Array, ""], step: Int[Array, ""]) -> Array:
        batch_key = Kernel.step_keys(key, step)[1]
        return plan.names(step, num_data=num_data, batch_size=batch_size, key=batch_key, chain_key=key)

    return jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None))(lane_keys, steps)
