"""The host side of a run: chunks of the compiled loop, draws to memory, interruption."""

import dataclasses
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm.chains import loop
from isotherm.chains.progress import Progress
from isotherm.gradients.control_variate import Anchor, ControlVariate
from isotherm.kernel import Kernel
from isotherm.samplers.base import Sampler

_ARRANGEMENTS = 2**32 - 3  # a fold of the run's key apart from those of its chains
_CHUNK_BYTES = 2**22
_CHUNK_SECONDS = 0.3


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be run: one lane a chain, all with the same kernel up to array leaves of the sampler.

    `axis` is 0 where each lane has hyper-parameters of its own (a sweep) and `None` where they share them.
    """

    sampler: Sampler
    axis: int | None
    kernel: Kernel
    data: PyTree
    positions: PyTree
    key: Key[Array, ""]
    lane_keys: Key[Array, " lanes"]
    burn_in: int
    num_draws: int
    thinning: int

    @property
    def num_steps(self) -> int:
        """Steps of each chain."""
        return self.burn_in + self.num_draws * self.thinning


@dataclasses.dataclass
class Outcome:
    """What came of a job: kept draws, lanes and moving anchors at the end, and where each was last seen in order.

    `oldest` are positions and anchors when anchors last moved, just before: where the noise is largest.
    """

    kept: loop.Kept
    lanes: loop.Lane
    sane: PyTree
    anchors: Anchor | None
    oldest: tuple[PyTree, Anchor | None]
    steps: int
    interrupted: bool
    seconds: float


def run(
    job: Job, *, progress: bool, title: str, cancelled: bool = False, chunk_steps: int | None = None
) -> Outcome:
    """Run a job to its end, to the last chain's failure or to an interruption; what was drawn is returned.

    `chunk_steps` bounds the steps between two returns to the host; the draws do not depend on it. A `cancelled`
    job takes no step.
    """
    passes = job.kernel.batch_size / job.kernel.num_data
    began, store = time.perf_counter(), _Store(job.num_draws)
    with Progress(job.num_steps, passes, show=progress, title=title) as bar, _interruptible() as stopped:
        arranged_at, data = 0, _arranged(job, 0)
        anchors = _anchors(job, job.positions)
        lanes = loop.start(job.sampler, job.kernel, data, job.positions, job.lane_keys, anchors, job.axis)
        lanes = _settled(job, data, lanes, anchors, 0)
        capacity = _capacity(lanes)
        pace = _Pace(job, capacity, chunk_steps)
        sane, step, ended = lanes.state.position, 0, np.asarray(lanes.ended)
        oldest = None
        if cancelled:
            stopped.set()
        while step < job.num_steps and not stopped.is_set():
            if (arrangement := _arrangement(job, step)) != arranged_at:
                arranged_at, data = arrangement, _arranged(job, arrangement)
            if anchors is not None and step > 0 and step % refresh_every(job) == 0:
                oldest = (lanes.state.position, anchors)
                anchors = _anchors(job, lanes.state.position)
            num_kept, thinning = pace.next(step)
            collect = step >= job.burn_in
            if step == job.burn_in > 0:
                lanes = _settled(job, data, lanes, anchors, 1)
            lanes, kept = loop.advance(
                job.sampler,
                job.kernel,
                data,
                job.lane_keys,
                lanes,
                anchors,
                jnp.asarray(num_kept),
                jnp.asarray(thinning),
                jnp.asarray(collect),
                capacity,
                job.axis,
            )
            ended = np.asarray(lanes.ended)
            pace.record(num_kept * thinning)
            step += num_kept * thinning
            if collect and (step - job.burn_in) % job.thinning == 0:
                store.add(kept, num_kept)
            if bar.visible:
                bar.update(step, _mean_temperature(lanes))
            if (ended >= 0).all():
                break
            sane = _where_lane(ended < 0, lanes.state.position, sane)
        interrupted = stopped.is_set() and step < job.num_steps
    if (ended >= 0).all():
        store.truncate(max(0, (int(ended.max()) - job.burn_in) // job.thinning))
    return Outcome(
        store.result(lanes),
        lanes,
        sane,
        anchors,
        oldest or (lanes.state.position, anchors),
        step,
        interrupted,
        time.perf_counter() - began,
    )


class _Pace:
    """Chunk lengths: short at first, then whatever takes about a third of a second."""

    def __init__(self, job: Job, capacity: int, limit: int | None) -> None:
        self.job, self.capacity = job, capacity
        self.limit = limit
        self.steps = 32 if limit is None else limit
        self.clock: float | None = None

    def next(self, step: int) -> tuple[int, int]:
        """Rows to return and steps for each; a row counts as a draw if it ends where one is due."""
        job = self.job
        limit = min(self.steps, _steps_to_the_next(job, step))
        if step < job.burn_in:
            return 1, min(limit, job.burn_in - step)
        done, into = divmod(step - job.burn_in, job.thinning)
        if into > 0 or limit < job.thinning:
            return 1, min(limit, job.thinning - into)
        return min(limit // job.thinning, job.num_draws - done, self.capacity), job.thinning

    def record(self, steps: int) -> None:
        """Learn the pace from a chunk that has just ended."""
        now = time.perf_counter()
        if self.limit is None and self.clock is not None:
            wanted = int(steps * _CHUNK_SECONDS / max(now - self.clock, 1e-6))
            self.steps = max(1, min(wanted, 8 * self.steps))
        self.clock = now


class _Store:
    """Kept draws on the host, (lane, draw, ...), allocated once."""

    def __init__(self, num_draws: int) -> None:
        self.num_draws, self.filled = num_draws, 0
        self.arrays: PyTree = None

    def add(self, kept: loop.Kept, count: int) -> None:
        if self.arrays is None:
            self.arrays = jax.tree.map(
                lambda x: np.empty((x.shape[1], self.num_draws, *x.shape[2:]), x.dtype), kept
            )
        for array, x in zip(jax.tree.leaves(self.arrays), jax.tree.leaves(kept), strict=True):
            array[:, self.filled : self.filled + count] = np.asarray(x)[:count].swapaxes(0, 1)
        self.filled += count

    def truncate(self, count: int) -> None:
        self.filled = min(self.filled, count)

    def result(self, lanes: loop.Lane) -> loop.Kept:
        if self.arrays is None:
            empty = loop.Kept(lanes.accumulator.reference, lanes.stats)
            return jax.tree.map(lambda x: np.empty((x.shape[0], 0, *x.shape[1:]), x.dtype), empty)
        return jax.tree.map(lambda x: x[:, : self.filled], self.arrays)


def _capacity(lanes: loop.Lane) -> int:
    # Not a function of `num_draws`, so that a longer run compiles nothing.
    row = sum(x.nbytes for x in jax.tree.leaves((lanes.state.position, lanes.stats)))
    return max(1, _CHUNK_BYTES // row)


def _settled(job: Job, data: PyTree, lanes: loop.Lane, anchors: Anchor | None, time: int) -> loop.Lane:
    return loop.settle(
        job.sampler, job.kernel, data, job.lane_keys, lanes, anchors, jnp.asarray(time), job.axis
    )


def refresh_every(job: Job) -> int:
    """Steps after which chains take new anchors; 0 if they never do."""
    gradient = job.kernel.gradient
    return (gradient.refresh or 0) if isinstance(gradient, ControlVariate) else 0


def _anchors(job: Job, positions: PyTree[Array]) -> Anchor | None:
    gradient = job.kernel.gradient
    if not isinstance(gradient, ControlVariate) or gradient.refresh is None:
        return None
    return gradient.anchored(job.data, jax.vmap(job.kernel.params)(positions))


def _arranged(job: Job, arrangement: int) -> PyTree:
    key = jax.random.fold_in(jax.random.fold_in(job.key, _ARRANGEMENTS), arrangement)
    return job.kernel.minibatch.arrange(job.data, key=key)


def _arrangement(job: Job, step: int) -> int:
    every = job.kernel.minibatch.rearrange_every
    return 0 if every is None else step // every


def _steps_to_the_next(job: Job, step: int) -> int:
    """Until rows are arranged anew, or anchors move."""
    events = (job.kernel.minibatch.rearrange_every, refresh_every(job))
    return min((every - step % every for every in events if every), default=job.num_steps)


def _mean_temperature(lanes: loop.Lane) -> float | None:
    if "kinetic_temperature" not in lanes.stats:
        return None
    running = np.asarray(lanes.ended) < 0
    values = np.asarray(lanes.stats["kinetic_temperature"])[running]
    return float(values.mean()) if len(values) else None


def _where_lane(mask: np.ndarray, new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda x, y: jnp.where(mask.reshape((-1,) + (1,) * (x.ndim - 1)), x, y), new, old)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, so that the chunk in flight is finished and kept; a second Ctrl-C raises."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def stop(*_: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, previous)
