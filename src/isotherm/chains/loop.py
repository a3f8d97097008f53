"""The compiled loop: chains side by side, thinning and moments inside, memory only for what is kept.

Trip counts are traced, so one compilation serves burn-in, sampling, every chunk length and every thinning.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.chains.moments import Accumulator
from isotherm.compilation import compile_quickly
from isotherm.gradients.control_variate import Anchor, ControlVariate
from isotherm.hyper import at
from isotherm.kernel import Kernel
from isotherm.records import Info, State, Status
from isotherm.samplers import SGHMC
from isotherm.samplers.base import Sampler
from isotherm.samplers.momentum import MomentumSampler


class Lane(eqx.Module):
    """One chain in flight. `ended` is the step at which it turned non-finite, or -1."""

    state: State
    accumulator: Accumulator
    stats: dict[str, Array]
    clipped: Int[Array, ""] | None
    ended: Int[Array, ""]


class Kept(eqx.Module):
    """What is kept of one step: the position and its scalars."""

    position: PyTree[Array]
    stats: dict[str, Array]


@compile_quickly
def start(
    sampler: Sampler,
    kernel: Kernel,
    data: PyTree,
    positions: PyTree,
    keys: Key[Array, " lanes"],
    anchors: Anchor | None,
    axis: int | None,
) -> Lane:
    """Lanes before their first step, to be settled. `axis` is 0 where each has hyper-parameters of its own.

    `anchors` has one of each lane, where the gradient's do not stay.
    """

    def one(sampler: Sampler, position: PyTree, key: Key[Array, ""], anchor: Anchor | None) -> Lane:
        own = at_lane(kernel, sampler, anchor)
        state = own.begin(position, key=key)
        scalars, clipped = jax.eval_shape(lambda: _watched(own.step(state, data, key=key)[1]))
        blank = {name: jnp.full((), jnp.nan, x.dtype) for name, x in scalars.items()}
        clipped = None if clipped is None else jnp.zeros((), jnp.int32)
        return Lane(state, _no_moments(own, position), blank, clipped, jnp.full((), -1, jnp.int32))

    return eqx.filter_vmap(one, in_axes=(_axis(axis), 0, 0, 0))(sampler, positions, keys, anchors)


@compile_quickly
def settle(
    sampler: Sampler,
    kernel: Kernel,
    data: PyTree,
    keys: Key[Array, " lanes"],
    lanes: Lane,
    anchors: Anchor | None,
    time: Int[Array, ""],
    axis: int | None,
) -> Lane:
    """Lanes at the start (`time` 0) or at the end of burn-in (1): averages and moments start."""

    def one(sampler: Sampler, key: Key[Array, ""], lane: Lane, anchor: Anchor | None) -> Lane:
        settled = at_lane(kernel, sampler, anchor).settle(lane.state, data, key=key, time=time)
        state = tree.where(lane.ended < 0, settled, lane.state)
        fresh = _no_moments(kernel, state.position)
        return eqx.tree_at(lambda x: (x.state, x.accumulator), lane, (state, fresh))

    return eqx.filter_vmap(one, in_axes=(_axis(axis), 0, 0, 0))(sampler, keys, lanes, anchors)


@eqx.filter_jit
def advance(
    sampler: Sampler,
    kernel: Kernel,
    data: PyTree,
    keys: Key[Array, " lanes"],
    lanes: Lane,
    anchors: Anchor | None,
    num_kept: Int[Array, ""],
    thinning: Int[Array, ""],
    collect: Bool[Array, ""],
    capacity: int,
    axis: int | None,
) -> tuple[Lane, Kept]:
    """`num_kept` times `thinning` steps of every lane; the first `num_kept` of `capacity` rows are filled."""

    def one(sampler: Sampler, key: Key[Array, ""], lane: Lane, anchor: Anchor | None) -> Lane:
        return _step(at_lane(kernel, sampler, anchor), data, key, lane, collect)

    step = eqx.filter_vmap(one, in_axes=(_axis(axis), 0, 0, 0))

    def keep(i: Int[Array, ""], carry: tuple[Lane, Kept]) -> tuple[Lane, Kept]:
        lanes, kept = carry
        lanes = jax.lax.fori_loop(0, thinning, lambda _, x: step(sampler, keys, x, anchors), lanes)
        row = kept_of(lanes)
        return lanes, jax.tree.map(lambda buffer, x: buffer.at[i].set(x), kept, row)

    kept_of = jax.vmap(lambda lane: _blank_if_ended(kernel, lane))
    shapes = jax.eval_shape(kept_of, lanes)
    kept = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), shapes)
    return jax.lax.fori_loop(0, num_kept, keep, (lanes, kept))


def _step(kernel: Kernel, data: PyTree, key: Key[Array, ""], lane: Lane, collect: Bool[Array, ""]) -> Lane:
    state, info, visit = kernel.step(lane.state, data, key=key)
    running = lane.ended < 0
    alive = running & (info.status == Status.RUNNING)
    params, visited = kernel.recorded(state.position), visit.position
    if isinstance(kernel.sampler, SGHMC) and kernel.sampler.scheme == "symmetric":
        # The gradient is taken half-way, where a quadratic potential is hotter than at the two ends.
        visited = tree.multiply(0.5, tree.add_scaled(lane.state.position, (1.0, state.position)))
    accumulator = lane.accumulator.add(
        params, visited, visit.estimate.force, _kinetic(kernel.sampler, lane.state, state), alive & collect
    )
    clipped = lane.clipped
    if clipped is not None and info.clipped is not None:
        clipped = clipped + (alive & (info.clipped > 0))
    # The covariance of a chain that has ended is of no use, and may be too large to choose from in every step.
    covariance = lambda x: x.covariance
    frozen = eqx.tree_at(covariance, lane.state, covariance(state), is_leaf=lambda x: x is None)
    return Lane(
        state=tree.where(alive, state, frozen),
        accumulator=accumulator,
        stats=tree.where(alive, _scalars(info), lane.stats),
        clipped=clipped,
        ended=jnp.where(running & ~alive, lane.state.step, lane.ended),
    )


def _no_moments(kernel: Kernel, position: PyTree) -> Accumulator:
    same = kernel.preconditioner is None and kernel.constraint is None
    moves = isinstance(kernel.sampler, MomentumSampler)
    return Accumulator.start(kernel.recorded(position), None if same else position, momentum=moves)


def _kinetic(sampler: Sampler, before: State, state: State) -> Float[Array, " leaves"] | None:
    """The kinetic temperature of each leaf, as the sampler has it for all."""
    if not isinstance(sampler, MomentumSampler):
        return None
    p, factor = state.momentum, 1.0
    if isinstance(sampler, SGHMC) and sampler.scheme == "symmetric":
        p = tree.multiply(0.5, tree.add_scaled(before.momentum, (1.0, p)))
        factor = 1 + at(sampler.step_size, before.step) * at(sampler.friction, before.step) / 2
    parts = zip(jax.tree.leaves(p), jax.tree.leaves(tree.divide(p, sampler.mass)), strict=True)
    return factor * jnp.stack([tree.dot(a, b) / max(a.size, 1) for a, b in parts])


def _blank_if_ended(kernel: Kernel, lane: Lane) -> Kept:
    # A chain that has ended draws NaN: a frozen position would look like a draw.
    running = lane.ended < 0
    mask = lambda x: jnp.where(running, x, jnp.nan)
    return Kept(jax.tree.map(mask, kernel.recorded(lane.state.position)), jax.tree.map(mask, lane.stats))


def _scalars(info: Info) -> dict[str, Array]:
    scalars = {"kinetic_temperature": info.kinetic_temperature, "xi": info.xi}
    return {name: x for name, x in scalars.items() if x is not None}


def _watched(info: Info) -> tuple[dict[str, Array], Array | None]:
    return _scalars(info), info.clipped


def at_lane(kernel: Kernel, sampler: Sampler, anchor: Anchor | None) -> Kernel:
    """The kernel of one lane."""
    if anchor is None:
        return eqx.tree_at(lambda k: k.sampler, kernel, sampler)
    assert isinstance(kernel.gradient, ControlVariate)
    return eqx.tree_at(lambda k: (k.sampler, k.gradient), kernel, (sampler, kernel.gradient.at(anchor)))


def _axis(axis: int | None):
    return None if axis is None else eqx.if_array(axis)
