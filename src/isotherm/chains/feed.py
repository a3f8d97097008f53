"""Feeds: the rows of the next steps of all chains, found in a stream on a thread and put on the device.

Which rows a step uses depends on (key, chain, step) alone. So the rows of many steps are found in one pass over the
stream, and the compiled loop runs on them as it does on all rows in memory.
"""

import math
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotReady

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree, Shaped

from isotherm.chains.ensemble import Ensemble
from isotherm.compilation import compile_quickly
from isotherm.data.fed import Fed
from isotherm.data.plans import MinibatchPlan
from isotherm.data.sources.base import row_bytes
from isotherm.data.stream import Drawn, Stream, put
from isotherm.kernel import Kernel

_BYTES = 2**28  # of the rows of one portion


class Feed:
    """Portions of rows for `steps` steps each. The next one is found while chains use the last."""

    def __init__(self, ensemble: Ensemble, data: Stream) -> None:
        kernel = ensemble.kernel
        self.ensemble, self.data, self.plan = ensemble, data, kernel.minibatch
        per_step = len(ensemble.lane_keys) * kernel.batch_size * row_bytes(data.source.row)
        portions = math.ceil(ensemble.num_steps / max(1, _BYTES // per_step))
        self.steps = math.ceil(ensemble.num_steps / portions)
        self.thread = ThreadPoolExecutor(1, "isotherm-feed")
        self.next: Future[Drawn] = self._find(0)

    def portion(self, begin: int, stopped: threading.Event) -> tuple[PyTree[Array], Fed] | None:
        """Return the rows of the steps from `begin` on, and where they are for each lane; `None` once `stopped`."""
        drawn = self._wait(stopped)
        if drawn is None:
            return None
        if begin + self.steps < self.ensemble.num_steps:
            self.next = self._find(begin + self.steps)
        lanes, n = len(self.ensemble.lane_keys), self.ensemble.kernel.batch_size
        shape = (lanes, self.steps, n)
        places = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
        weights = None if drawn.weights is None else put(drawn.weights.reshape(shape))
        kernel = self.ensemble.kernel
        fed = Fed(
            put(places),
            weights,
            put(np.full(lanes, begin, np.int32)),
            self.plan.noise_factor(kernel.num_data, kernel.batch_size),
        )
        return jax.tree.map(put, drawn.rows), fed

    def close(self) -> None:
        """End the thread."""
        self.thread.shutdown(wait=False, cancel_futures=True)

    def _find(self, begin: int) -> "Future[Drawn]":
        kernel = self.ensemble.kernel
        steps = jnp.arange(begin, begin + self.steps, dtype=jnp.int32)
        names = _names(kernel.minibatch.naming, self.ensemble.lane_keys, steps, kernel.num_data, kernel.batch_size)
        found = np.asarray(names)
        return self.thread.submit(self.plan.found, self.data, found.reshape(-1, *found.shape[3:]))

    def _wait(self, stopped: threading.Event) -> Drawn | None:
        while not stopped.is_set():
            try:
                return self.next.result(timeout=0.2)
            except NotReady:
                if self.next.done():
                    raise
        return None


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
