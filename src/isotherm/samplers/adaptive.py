"""The adaptive Langevin step that SGNHT and CCAdL share: one thermostat for the whole pytree."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.covariance import Average
from isotherm.hyper import at, check_number, check_positive
from isotherm.records import GradientEstimate, Info, State
from isotherm.samplers.base import status_of, virial
from isotherm.samplers.momentum import MomentumSampler


class AdaptiveLangevin(MomentumSampler):
    """Momentum dynamics whose friction xi is driven by the kinetic temperature."""

    thermal_mass: eqx.AbstractVar[Float[Array, ""] | float | None]
    initial_xi: eqx.AbstractVar[Float[Array, ""] | float | None]

    def __check_init__(self) -> None:
        check_positive(self, "thermal_mass", finite=False, schedule=False)
        check_number(self, "initial_xi")

    def start(self, position: PyTree, average: Average | None, *, key: Key[Array, ""]) -> State:
        """p ~ N(0, M/beta); xi at `initial_xi`, or at A where none is given."""
        step = jnp.zeros((), jnp.int32)
        momentum = self.thermal_momentum(position, key=key)
        xi = at(self.friction, step) if self.initial_xi is None else self.initial_xi
        return State(position, momentum, jnp.asarray(xi, float), average, step)

    def thermostatted_kick(
        self, state: State, estimate: GradientEstimate, average: Average | None, *, key: Key[Array, ""]
    ) -> tuple[State, Info]:
        """Algorithm 1 of the CCAdL paper from the gradient on; without an average it is SGNHT."""
        h, A = at(self.step_size, state.step), at(self.friction, state.step)
        T, p, xi = self.temperature_at(state.step), state.momentum, state.xi
        force, s = estimate.force, None
        if average is not None:
            C = average.operator
            force = tree.add_scaled(force, (-h / (2 * T), C.mv(tree.divide(p, self.mass))))
            s = self.stability(C, state.step)
        R = self.mass_root_times(tree.normal_like(p, key=key))
        p = tree.add_scaled(p, (h, force), (-h * xi, p), (jnp.sqrt(2 * A * h * T), R))
        kinetic = self.kinetic_temperature(p)
        # (h / mu)(p'M^-1p - N_d T), where mu is N_d by default
        ratio = 1.0 if self.thermal_mass is None else tree.size(p) / self.thermal_mass
        xi = xi + (h * ratio * (kinetic - T)).astype(xi.dtype)
        info = Info(
            kinetic_temperature=kinetic,
            virial=virial(state.position, estimate.force),
            xi=xi,
            s=s,
            clipped=None,
            status=status_of(kinetic, xi),
        )
        return State(state.position, p, xi, average, state.step + 1), info
