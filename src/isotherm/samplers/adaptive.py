"""The adaptive Langevin step that SGNHT and CCAdL share: one thermostat for the whole pytree."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.covariance import Average, Operator
from isotherm.hyper import at
from isotherm.records import GradientEstimate, Info, State
from isotherm.samplers import splitting
from isotherm.samplers.base import Sampler, check_mass_fits, status_of, temperature_at, virial


def start(sampler: Sampler, position: PyTree, average: Average | None, *, key: Key[Array, ""]) -> State:
    """p ~ N(0, M/beta); xi at `initial_xi`, or at A where none is given."""
    check_mass_fits(sampler, position)
    step = jnp.zeros((), jnp.int32)
    momentum = splitting.thermal_momentum(position, sampler.mass, temperature_at(sampler, step), key=key)
    xi = at(sampler.friction, step) if sampler.initial_xi is None else sampler.initial_xi
    return State(position, momentum, jnp.asarray(xi, float), average, step)


def fly(sampler: Sampler, state: State) -> State:
    """theta <- theta + h M^-1 p."""
    position = splitting.A(state, at(sampler.step_size, state.step), sampler.mass)
    return eqx.tree_at(lambda x: x.position, state, position)


def kick(
    sampler: Sampler,
    state: State,
    estimate: GradientEstimate,
    average: Average | None,
    *,
    key: Key[Array, ""],
) -> tuple[State, Info]:
    """Algorithm 1 of the CCAdL paper from the gradient on; without an average it is SGNHT."""
    h, A = at(sampler.step_size, state.step), at(sampler.friction, state.step)
    T, M, p, xi = temperature_at(sampler, state.step), sampler.mass, state.momentum, state.xi
    force, s = estimate.force, None
    if average is not None:
        C: Operator = average.operator
        force = tree.add_scaled(force, (-h / (2 * T), C.mv(tree.divide(p, M))))
        s = sampler.stability(C, state.step)
    R = tree.multiply(tree.sqrt(M), tree.normal_like(p, key=key))
    p = tree.add_scaled(p, (h, force), (-h * xi, p), (jnp.sqrt(2 * A * h * T), R))
    kinetic: Float[Array, ""] = splitting.kinetic_temperature(p, M)
    xi = splitting.D(xi, h, sampler.thermal_mass, kinetic, T, tree.size(p))
    info = Info(
        kinetic_temperature=kinetic,
        virial=virial(state.position, estimate.force),
        xi=xi,
        s=s,
        clipped=None,
        status=status_of(kinetic, xi),
    )
    return State(state.position, p, xi, average, state.step + 1), info
