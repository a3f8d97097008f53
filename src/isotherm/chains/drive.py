"""The host side of a run: it calls the compiled loop in chunks, stores draws and handles interruption."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import keys, processes
from isotherm.chains import loop
from isotherm.chains.ensemble import Ensemble
from isotherm.chains.feed import Feed
from isotherm.chains.interruption import interruptible, share
from isotherm.chains.placement import Placement
from isotherm.chains.resident import resident
from isotherm.data.fed import Fed
from isotherm.data.plans import WithReplacement
from isotherm.data.stream import Stream
from isotherm.gradients.control_variate import Anchor, ControlVariate
from isotherm.kernel import Kernel
from isotherm.progress import StepProgress

_CHUNK_BYTES = 2**22
_CHUNK_SECONDS = 0.3


@dataclasses.dataclass
class Outcome:
    """The outcome of a run.

    - `kept`: the draws.
    - `lanes`: all chains after their last step.
    - `last_finite`: the last position of each lane that is known to be finite.
    - `anchors`: the last anchors of each lane while it ran, if they move.
    - `oldest`: positions and anchors just before the anchors last moved, when their noise was largest.
    - `steps`: the number of steps taken; `interrupted`: whether Ctrl-C ended the run; `seconds`: how long it took.
    """

    kept: loop.Kept
    lanes: loop.Lane
    last_finite: PyTree
    anchors: Anchor | None
    oldest: tuple[PyTree, Anchor | None]
    steps: int
    interrupted: bool
    seconds: float


def drive(
    ensemble: Ensemble,
    *,
    progress: bool,
    title: str,
    cancelled: bool = False,
    chunk_steps: int | None = None,
    stop: processes.Stop | None = None,
) -> Outcome:
    """Run chains until they end, all of them fail or the user interrupts, and return the outcome.

    `chunk_steps` bounds the steps between two returns to the host; the draws do not depend on it. A `cancelled`
    ensemble takes no step. `stop` is shared with other processes: an interruption of one ends the run in all.
    """
    placement = Placement.of(ensemble)
    ensemble = placement.padded(ensemble)
    setup, kernel = ensemble.setup, ensemble.kernel
    shown = progress and processes.is_first()
    began, store = time.perf_counter(), _Store(ensemble.length.num_draws)
    bar = StepProgress(ensemble.num_steps, kernel.batch_size / kernel.num_data, show=shown, title=title)
    with bar, interruptible(terminated=stop is not None) as stopped:
        arrangement = 0
        measuring, data = _arranged(ensemble, arrangement)
        program = placement.program(
            loop.Program(
                kernel=measuring,
                data=data,
                keys=ensemble.lane_keys,
                anchors=_anchors(ensemble, ensemble.positions),
                stacked=len(ensemble.setups) > 1,
            )
        )
        lanes = placement.start(program, ensemble.positions)
        lanes = placement.restart_averages(program, lanes, jnp.asarray(0))
        capacity = _capacity(lanes)
        last_finite, step, ended = lanes.state.position, 0, np.asarray(lanes.ended)
        oldest = None
        if cancelled:
            stopped.set()
        feed = None if cancelled else _feed_of(ensemble, placement)
        fed = program
        pace = _Pace(ensemble, capacity, chunk_steps, None if feed is None else feed.steps)
        while step < ensemble.num_steps and not stopped.is_set():
            if (due := _arrangement(ensemble, step)) != arrangement:
                arrangement = due
                program = placement.program(dataclasses.replace(program, data=_arranged(ensemble, due)[1]))
            if program.anchors is not None and step > 0 and step % setup.refresh_every == 0:
                oldest = (lanes.state.position, program.anchors)
                moved = _anchors(ensemble, lanes.state.position)
                if (ended >= 0).any():  # the anchor at which a chain failed is kept, to measure its noise
                    moved = _where_lane(ended < 0, moved, program.anchors)
                program = placement.program(dataclasses.replace(program, anchors=moved))
            if feed is not None and step % feed.steps == 0:
                if bar.visible:
                    bar.progress.say("reading the rows of the next steps")
                portion = feed.portion(step, stopped)
                if portion is None:
                    break
                fed = _fed(program, *portion)
            elif feed is None:
                fed = program
            num_kept, thinning = pace.next(step)
            collect = step >= setup.burn_in
            if step == setup.burn_in > 0:
                lanes = placement.restart_averages(program, lanes, jnp.asarray(1))
            lanes, kept = placement.advance(
                dataclasses.replace(fed, anchors=program.anchors),
                lanes,
                jnp.asarray(num_kept),
                jnp.asarray(thinning),
                jnp.asarray(collect),
                capacity,
            )
            ended = np.asarray(lanes.ended)
            pace.record(num_kept * thinning)
            step += num_kept * thinning
            if collect and (step - setup.burn_in) % setup.thinning == 0:
                store.add(kept, num_kept)
            if bar.visible:
                bar.update(step, _mean_temperature(lanes))
            if stop is not None:
                share(stop, stopped)
            if (ended >= 0).all():
                break
            last_finite = _where_lane(ended < 0, lanes.state.position, last_finite)
        if stop is not None:
            share(stop, stopped)
        interrupted = stopped.is_set() and step < ensemble.num_steps
    if (ended >= 0).all():
        store.truncate(max(0, (int(ended.max()) - setup.burn_in) // setup.thinning))
    lanes, last_finite, anchors = placement.together((lanes, last_finite, program.anchors))
    return Outcome(
        kept=jax.tree.map(lambda x: x[: placement.lanes], store.result(lanes)),
        lanes=lanes,
        last_finite=last_finite,
        anchors=anchors,
        oldest=placement.together(oldest) if oldest else (lanes.state.position, anchors),
        steps=step,
        interrupted=interrupted,
        seconds=time.perf_counter() - began,
    )


class _Pace:
    """The lengths of chunks: short at first, then about a third of a second each."""

    def __init__(self, ensemble: Ensemble, capacity: int, limit: int | None, portion: int | None) -> None:
        self.ensemble, self.capacity, self.portion = ensemble, capacity, portion
        self.limit = limit
        self.steps = 32 if limit is None else limit
        self.clock: float | None = None

    def next(self, step: int) -> tuple[int, int]:
        """Return how many times the next chunk keeps the parameters, and the steps before each.

        In burn-in, and if a chunk ends between two draws, what it keeps is not a draw and is dropped.
        """
        setup, num_draws = self.ensemble.setup, self.ensemble.length.num_draws
        limit = min(self.steps, _steps_to_the_next_event(self.ensemble, step, self.portion))
        if step < setup.burn_in:
            return 1, min(limit, setup.burn_in - step)
        done, into = divmod(step - setup.burn_in, setup.thinning)
        if into > 0 or limit < setup.thinning:
            return 1, min(limit, setup.thinning - into)
        return min(limit // setup.thinning, num_draws - done, self.capacity), setup.thinning

    def record(self, steps: int) -> None:
        """Adapt the length to the time of the chunk that has just ended."""
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
    # Independent of `num_draws`, so that a longer run needs no compilation.
    draw = sum(x.nbytes for x in jax.tree.leaves((lanes.state.position, lanes.stats)))
    return max(1, _CHUNK_BYTES // draw)


def _anchors(ensemble: Ensemble, positions: PyTree[Array]) -> Anchor | None:
    """Return new anchors for all lanes, at their positions; `None` if anchors do not move."""
    gradient = ensemble.kernel.gradient
    if not isinstance(gradient, ControlVariate) or gradient.refresh is None:
        return None
    if gradient.preconditioner is None:
        positions = jax.vmap(ensemble.kernel.params)(positions)
    return gradient.anchored(ensemble.data, positions)


def _arranged(ensemble: Ensemble, arrangement: int) -> tuple[Kernel, PyTree]:
    """Return the rows in the order of this arrangement, and the kernel that draws from them.

    For a stream these are rows by which averages are started; those of the steps come from a feed.
    """
    key = jax.random.fold_in(jax.random.fold_in(ensemble.key, keys.ARRANGEMENTS), arrangement)
    return resident(ensemble.kernel, ensemble.data, key=key)


def _feed_of(ensemble: Ensemble, placement: Placement) -> Feed | None:
    """Return the feed of the chains; `None` if their rows are in memory."""
    data = ensemble.data
    return Feed(ensemble, data, placement) if isinstance(data, Stream) and ensemble.num_steps else None


def _fed(program: loop.Program, rows: PyTree[Array], feed: Fed) -> loop.Program:
    """Return the program on the rows of a feed."""
    kernel = dataclasses.replace(program.kernel, minibatch=WithReplacement())  # the feed takes its place
    return dataclasses.replace(program, kernel=kernel, data=rows, feed=feed)


def _arrangement(ensemble: Ensemble, step: int) -> int:
    """Return the number of the arrangement that is due at this step."""
    every = ensemble.kernel.minibatch.rearrange_every
    return 0 if every is None else step // every


def _steps_to_the_next_event(ensemble: Ensemble, step: int, portion: int | None) -> int:
    """Return the number of steps until rows are rearranged, anchors move or a feed's portion of rows is used up."""
    events = (ensemble.kernel.minibatch.rearrange_every, ensemble.setup.refresh_every, portion)
    return min((every - step % every for every in events if every), default=ensemble.num_steps)


def _mean_temperature(lanes: loop.Lane) -> float | None:
    if "kinetic_temperature" not in lanes.stats:
        return None
    running = np.asarray(lanes.ended) < 0
    values = np.asarray(lanes.stats["kinetic_temperature"])[running]
    return float(values.mean()) if len(values) else None


def _where_lane(mask: np.ndarray, new: PyTree, old: PyTree) -> PyTree:
    if mask.all():
        return new
    return jax.tree.map(lambda x, y: jnp.where(mask.reshape((-1,) + (1,) * (x.ndim - 1)), x, y), new, old)
