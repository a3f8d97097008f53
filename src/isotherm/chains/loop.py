"""The compiled loop: chains run side by side, with thinning and moments inside and memory only for kept draws.

Trip counts are traced, so one compilation serves burn-in, sampling, every chunk length and every thinning.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from isotherm import tree
from isotherm.chains.moments import Accumulator
from isotherm.compilation import compile_fully, compile_quickly
from isotherm.data.fed import Fed
from isotherm.gradients.control_variate import Anchor, ControlVariate
from isotherm.kernel import Kernel
from isotherm.records import Info, State, Status
from isotherm.samplers.base import Sampler


class Program(eqx.Module):
    """What all lanes share, and what each lane has besides its state.

    - `kernel`: the step. If `stacked`, the array leaves of its sampler have a lane axis.
    - `data`: rows as arranged by the minibatch plan.
    - `keys`: one key per lane.
    - `anchors`: one per lane if the gradient's anchors move, else `None`.
    - `feed`: where the rows of each lane's next steps are in `data`, if not all rows are in memory.
    """

    kernel: Kernel
    data: PyTree[Array]
    keys: Key[Array, " lanes"]
    anchors: Anchor | None
    stacked: bool = eqx.field(static=True)
    feed: Fed | None = None

    def map(self, f, *lanes):  # noqa: ANN001, ANN201
        """Return `f(kernel, key, *lane)` for every lane."""

        def one(
            sampler: Sampler, key: Key[Array, ""], anchor: Anchor | None, feed: Fed | None, *lane: PyTree
        ) -> PyTree:
            kernel = at_lane(self.kernel, sampler, anchor)
            kernel = kernel if feed is None else dataclasses.replace(kernel, minibatch=feed)
            return f(kernel, key, *lane)

        axes = (eqx.if_array(0) if self.stacked else None, 0, 0, 0, *(0 for _ in lanes))
        return eqx.filter_vmap(one, in_axes=axes)(
            self.kernel.sampler, self.keys, self.anchors, self.feed, *lanes
        )


class Lane(eqx.Module):
    """The running state of one chain. `ended` is the step at which it turned non-finite, or -1."""

    state: State
    accumulator: Accumulator
    stats: dict[str, Array]
    clipped: Int[Array, ""] | None
    ended: Int[Array, ""]


class Kept(eqx.Module):
    """What is kept of one step: the parameters, as draws have them, and the scalars of the step."""

    params: PyTree[Array]
    stats: dict[str, Array]


def _start(program: Program, positions: PyTree) -> Lane:
    """Return lanes before their first step. Call `restart_averages` next."""

    def one(kernel: Kernel, key: Key[Array, ""], position: PyTree) -> Lane:
        state = kernel.begin(position, key=key)
        scalars, clipped = jax.eval_shape(lambda: _watched(kernel.step(state, program.data, key=key)[1]))
        blank = {name: jnp.full((), jnp.nan, x.dtype) for name, x in scalars.items()}
        clipped = None if clipped is None else jnp.zeros((), jnp.int32)
        return Lane(state, _no_moments(kernel, state), blank, clipped, jnp.full((), -1, jnp.int32))

    return program.map(one, positions)


def _restart_averages(program: Program, lanes: Lane, time: Int[Array, ""]) -> Lane:
    """Return lanes with averages and moments restarted, before the first step (`time` 0) or after burn-in (1)."""

    def one(kernel: Kernel, key: Key[Array, ""], lane: Lane) -> Lane:
        restarted = kernel.restart_averages(lane.state, program.data, key=key, time=time)
        state = tree.where(lane.ended < 0, restarted, lane.state)
        fresh = _no_moments(kernel, state)
        return eqx.tree_at(lambda x: (x.state, x.accumulator), lane, (state, fresh))

    return program.map(one, lanes)


def _advance_lanes(
    program: Program,
    lanes: Lane,
    num_kept: Int[Array, ""],
    thinning: Int[Array, ""],
    collect: Bool[Array, ""],
    capacity: int,
) -> tuple[Lane, Kept]:
    """Take `num_kept * thinning` steps in every lane, and fill the first `num_kept` of `capacity` kept draws."""

    def one(kernel: Kernel, key: Key[Array, ""], lane: Lane) -> Lane:
        return _step(kernel, program.data, key, lane, collect)

    def keep(i: Int[Array, ""], carry: tuple[Lane, Kept]) -> tuple[Lane, Kept]:
        lanes, kept = carry
        lanes = jax.lax.fori_loop(0, thinning, lambda _, x: program.map(one, x), lanes)
        draw = kept_of(lanes)
        return lanes, jax.tree.map(lambda buffer, x: buffer.at[i].set(x), kept, draw)

    kept_of = jax.vmap(lambda lane: _kept(program.kernel, lane))
    shapes = jax.eval_shape(kept_of, lanes)
    kept = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), shapes)
    return jax.lax.fori_loop(0, num_kept, keep, (lanes, kept))


start, restart_averages = compile_quickly(_start), compile_quickly(_restart_averages)
advance = compile_fully(_advance_lanes)


def _step(kernel: Kernel, data: PyTree, key: Key[Array, ""], lane: Lane, collect: Bool[Array, ""]) -> Lane:
    state, info, visit = kernel.step(lane.state, data, key=key)
    running = lane.ended < 0
    alive = running & (info.status == Status.RUNNING)
    measured = kernel.sampler.temperatures(lane.state, state, visit.position)
    accumulator = lane.accumulator.add(
        kernel.recorded(state.position),
        measured.position,
        visit.estimate.force,
        measured.kinetic,
        alive & collect,
    )
    clipped = lane.clipped
    if clipped is not None and info.clipped is not None:
        clipped = clipped + (alive & (info.clipped > 0))
    # The covariance of an ended chain is not used, and selecting between two large ones in every step would be slow.
    covariance = lambda x: x.covariance
    frozen = eqx.tree_at(covariance, lane.state, covariance(state), is_leaf=lambda x: x is None)
    return Lane(
        state=tree.where(alive, state, frozen),
        accumulator=accumulator,
        stats=tree.where(alive, _scalars(info), lane.stats),
        clipped=clipped,
        ended=jnp.where(running & ~alive, lane.state.step, lane.ended),
    )


def _no_moments(kernel: Kernel, state: State) -> Accumulator:
    same = kernel.preconditioner is None and kernel.constraint is None
    return Accumulator.start(
        kernel.recorded(state.position), None if same else state.position, momentum=state.momentum is not None
    )


def _kept(kernel: Kernel, lane: Lane) -> Kept:
    # The draws of an ended chain are NaN: its last position, repeated, would look like draws.
    running = lane.ended < 0
    mask = lambda x: jnp.where(running, x, jnp.nan)
    return Kept(jax.tree.map(mask, kernel.recorded(lane.state.position)), jax.tree.map(mask, lane.stats))


def _scalars(info: Info) -> dict[str, Array]:
    scalars = {"kinetic_temperature": info.kinetic_temperature, "xi": info.xi}
    return {name: x for name, x in scalars.items() if x is not None}


def _watched(info: Info) -> tuple[dict[str, Array], Array | None]:
    return _scalars(info), info.clipped


def at_lane(kernel: Kernel, sampler: Sampler, anchor: Anchor | None) -> Kernel:
    """Return the kernel of one lane."""
    if anchor is None:
        return eqx.tree_at(lambda k: k.sampler, kernel, sampler)
    assert isinstance(kernel.gradient, ControlVariate)
    return eqx.tree_at(lambda k: (k.sampler, k.gradient), kernel, (sampler, kernel.gradient.at(anchor)))
