"""The host side of a run: it calls the compiled loop in chunks, stores draws and handles interruption."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import processes
from isotherm.chains import loop
from isotherm.chains.ensemble import Ensemble
from isotherm.chains.feed import Feed
from isotherm.chains.interruption import TERMINATED, interruptible, share
from isotherm.chains.launch import Launch, anchored, arranged, launched
from isotherm.chains.placement import Placement
from isotherm.chains.recording import InMemory, OnDisk, Position, Recorder
from isotherm.data.fed import Fed
from isotherm.data.plans import WithReplacement
from isotherm.data.stream import Stream
from isotherm.gradients.control_variate import Anchor
from isotherm.progress import StepProgress
from isotherm.store.folder import RunFolder

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
    folder: RunFolder | None = None,
    launch: Launch | None = None,
) -> Outcome:
    """Run chains until they end, all of them fail or the user interrupts, and return the outcome.

    `chunk_steps` bounds the steps between two returns to the host; the draws do not depend on it. A `cancelled`
    ensemble takes no step. `stop` is shared with other processes: an interruption of one ends the run in all. With a
    `folder`, draws go there, the run goes on from the state in it, and SIGTERM ends it as Ctrl-C does, and then the
    process. `launch` is that of the ensemble, if it was launched before.
    """
    launch = launched(ensemble) if launch is None else launch
    placement, ensemble, program = launch.placement, launch.ensemble, launch.program
    setup, kernel = ensemble.setup, ensemble.kernel
    shown = progress and processes.is_first()
    began = time.perf_counter()
    passes = kernel.batch_size / kernel.num_data
    bar = StepProgress(ensemble.num_steps, passes, show=shown, title=title, before=setup.burn_in)
    with bar, interruptible(terminated=stop is not None or folder is not None) as stopped:
        arrangement = 0
        at = Position(launch.lanes, launch.lanes.state.position, program.anchors, None, 0)
        recorder: Recorder = InMemory(ensemble.length.num_draws, placement.lanes)
        if folder is not None:
            recorder = OnDisk(folder, launch.lanes, placement, ensemble.length.num_draws, ensemble.num_steps)
            at = recorder.resumed(at)
            program = placement.program(dataclasses.replace(program, anchors=at.anchors))
        earlier, step, lanes = at.seconds, at.step, at.lanes
        last_finite, oldest, ended = at.last_finite, at.oldest, np.asarray(lanes.ended)
        capacity, compiled = launch.capacity, launch.wait
        del launch, at  # the lanes before the first step may be large
        if step == 0:
            lanes = placement.restart_averages(program, lanes, jnp.asarray(0))

        def save(*, now: bool) -> None:
            seconds = earlier + time.perf_counter() - began
            recorder.save(Position(lanes, last_finite, program.anchors, oldest, step, seconds), now=now)

        if cancelled:
            stopped.set()
        feed = None if cancelled else _feed_of(ensemble, placement, step)
        fed = program
        pace = _Pace(ensemble, capacity, chunk_steps, feed)
        compiled()
        while step < ensemble.num_steps and not stopped.is_set() and (ended < 0).any():
            if (due := _arrangement(ensemble, step)) != arrangement:
                arrangement = due
                program = placement.program(dataclasses.replace(program, data=arranged(ensemble, due)[1]))
            if program.anchors is not None and step > 0 and step % setup.refresh_every == 0:
                oldest = (lanes.state.position, program.anchors)
                moved = anchored(ensemble, lanes.state.position)
                if (ended >= 0).any():  # the anchor at which a chain failed is kept, to measure its noise
                    moved = _where_lane(ended < 0, moved, program.anchors)
                program = placement.program(dataclasses.replace(program, anchors=moved))
            if feed is not None and (step - feed.begin) % feed.steps == 0:
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
                recorder.add(kept, num_kept)
            if bar.visible:
                bar.update(step, _mean_temperature(lanes))
            if stop is not None:
                share(stop, stopped)
            if (ended < 0).any():
                last_finite = _where_lane(ended < 0, lanes.state.position, last_finite)
                save(now=False)
        if stop is not None:
            share(stop, stopped)
        interrupted = stopped.is_set() and step < ensemble.num_steps
        if (ended >= 0).all():
            recorder.truncate(max(0, (int(ended.max()) - setup.burn_in) // setup.thinning))
        save(now=True)
    if stopped.terminated and stop is None:
        raise SystemExit(TERMINATED)
    if stopped.at_once:
        raise KeyboardInterrupt
    lanes, last_finite, anchors = placement.together((lanes, last_finite, program.anchors))
    return Outcome(
        kept=recorder.result(lanes),
        lanes=lanes,
        last_finite=last_finite,
        anchors=anchors,
        oldest=placement.together(oldest) if oldest else (lanes.state.position, anchors),
        steps=step,
        interrupted=interrupted,
        seconds=earlier + time.perf_counter() - began,
    )


class _Pace:
    """The lengths of chunks: short at first, then about a third of a second each."""

    def __init__(self, ensemble: Ensemble, capacity: int, limit: int | None, feed: Feed | None) -> None:
        self.ensemble, self.capacity, self.feed = ensemble, capacity, feed
        self.limit = limit
        self.steps = 32 if limit is None else limit
        self.clock: float | None = None

    def next(self, step: int) -> tuple[int, int]:
        """Return how many times the next chunk keeps the parameters, and the steps before each.

        In burn-in, and if a chunk ends between two draws, what it keeps is not a draw and is dropped.
        """
        setup, num_draws = self.ensemble.setup, self.ensemble.length.num_draws
        limit = min(self.steps, _steps_to_the_next_event(self.ensemble, step, self.feed))
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


def _feed_of(ensemble: Ensemble, placement: Placement, step: int) -> Feed | None:
    """Return the feed of the chains from `step` on; `None` if their rows are in memory, or the run has ended."""
    data = ensemble.data
    if not isinstance(data, Stream) or step >= ensemble.num_steps:
        return None
    return Feed(ensemble, data, placement, step)


def _fed(program: loop.Program, rows: PyTree[Array], feed: Fed) -> loop.Program:
    """Return the program on the rows of a feed."""
    kernel = dataclasses.replace(program.kernel, minibatch=WithReplacement())  # the feed takes its place
    return dataclasses.replace(program, kernel=kernel, data=rows, feed=feed)


def _arrangement(ensemble: Ensemble, step: int) -> int:
    """Return the number of the arrangement that is due at this step."""
    every = ensemble.kernel.minibatch.rearrange_every
    return 0 if every is None else step // every


def _steps_to_the_next_event(ensemble: Ensemble, step: int, feed: Feed | None) -> int:
    """Return the number of steps until rows are rearranged, anchors move or a feed's portion of rows is used up."""
    events = [(step, ensemble.kernel.minibatch.rearrange_every), (step, ensemble.setup.refresh_every)]
    events += [] if feed is None else [(step - feed.begin, feed.steps)]
    return min((every - since % every for since, every in events if every), default=ensemble.num_steps)


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
