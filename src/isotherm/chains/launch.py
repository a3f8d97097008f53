"""Chains before their first step, while the loop that they will run in is compiled on another thread."""

import dataclasses
from collections.abc import Callable

import jax
from jaxtyping import Array, PyTree

from isotherm import keys
from isotherm.chains import loop
from isotherm.chains.ensemble import Ensemble
from isotherm.chains.placement import Placement
from isotherm.chains.resident import resident
from isotherm.data.stream import Stream
from isotherm.gradients.control_variate import Anchor, ControlVariate
from isotherm.kernel import Kernel

_CHUNK_BYTES = 2**22


@dataclasses.dataclass(frozen=True)
class Launch:
    """An ensemble on its devices before the first step.

    - `ensemble`: with lanes repeated so that each device has equally many.
    - `lanes`: their averages are still to be started, by `restart_averages`.
    - `capacity`: the number of draws that the loop keeps before they go to the host.
    - `wait`: waits until the loop is compiled.
    """

    placement: Placement
    ensemble: Ensemble
    program: loop.Program
    lanes: loop.Lane
    capacity: int
    wait: Callable[[], None]


def launched(ensemble: Ensemble) -> Launch:
    """Return the launch of an ensemble. From here on its loop, the largest program, is compiled on another thread."""
    placement = Placement.of(ensemble)
    ensemble = placement.padded(ensemble)
    kernel, data = arranged(ensemble, 0)
    program = placement.program(
        loop.Program(
            kernel=kernel,
            data=data,
            keys=ensemble.lane_keys,
            anchors=anchored(ensemble, ensemble.positions),
            stacked=len(ensemble.setups) > 1,
        )
    )
    lanes = placement.start(program, ensemble.positions)
    # Independent of the number of draws, so that a longer run needs no compilation.
    draw = sum(x.nbytes for x in jax.tree.leaves((lanes.state.position, lanes.stats)))
    capacity = max(1, _CHUNK_BYTES // draw)
    wait = lambda: None
    if not isinstance(ensemble.data, Stream):  # the loop on a stream depends on what its feed brings
        wait = placement.compile_advance(program, lanes, capacity)
    return Launch(placement, ensemble, program, lanes, capacity, wait)


def anchored(ensemble: Ensemble, positions: PyTree[Array]) -> Anchor | None:
    """Return new anchors for all lanes, at their positions; `None` if anchors do not move."""
    gradient = ensemble.kernel.gradient
    if not isinstance(gradient, ControlVariate) or gradient.refresh is None:
        return None
    if gradient.preconditioner is None:
        positions = jax.vmap(ensemble.kernel.params)(positions)
    return gradient.anchored(ensemble.data, positions)


def arranged(ensemble: Ensemble, arrangement: int) -> tuple[Kernel, PyTree]:
    """Return the rows in the order of this arrangement, and the kernel that draws from them.

    For a stream these are rows by which averages are started; those of the steps come from a feed.
    """
    key = jax.random.fold_in(jax.random.fold_in(ensemble.key, keys.ARRANGEMENTS), arrangement)
    return resident(ensemble.kernel, ensemble.data, key=key)
