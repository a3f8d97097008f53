"""Sub-steps shared by the samplers, named by letter, each one equation."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.records import State
from isotherm.tree import Scale


def A(state: State, h: Float[Array, ""], mass: Scale) -> PyTree:
    """Position after free flight: theta + h M^-1 p."""
    return tree.add_scaled(state.position, (h, tree.divide(state.momentum, mass)))


def thermal_momentum(position: PyTree, mass: Scale, T: Float[Array, ""], *, key: Key[Array, ""]) -> PyTree:
    """p ~ N(0, M T)."""
    noise = tree.normal_like(position, key=key)
    return tree.multiply(jnp.sqrt(T), tree.multiply(tree.sqrt(mass), noise))


def kinetic_temperature(momentum: PyTree, mass: Scale) -> Float[Array, ""]:
    """p' M^-1 p / N_d."""
    return tree.dot(momentum, tree.divide(momentum, mass)) / tree.size(momentum)


def D(
    xi: Float[Array, ""],
    h: Float[Array, ""],
    thermal_mass: Float[Array, ""] | None,
    kinetic: Float[Array, ""],
    T: Float[Array, ""],
    size: int,
) -> Float[Array, ""]:
    """The thermostat: xi + (h / mu)(p'M^-1p - N_d T), with mu = N_d where none is given."""
    excess = kinetic - T
    return xi + (h * excess if thermal_mass is None else h * (size / thermal_mass) * excess).astype(xi.dtype)
