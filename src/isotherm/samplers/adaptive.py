"""The adaptive Langevin step that SGNHT and CCAdL share, with one thermostat for the whole pytree."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.covariance import Operator
from isotherm.errors import check_choice, describe, is_traced
from isotherm.hyper import at, check_number, check_positive
from isotherm.records import GradientEstimate, Info, State, Temperatures
from isotherm.samplers.base import status_of
from isotherm.samplers.momentum import S_LIMITS, UNCONTROLLED_LIMIT, MomentumSampler
from isotherm.samplers.traits import EXPLICIT, PARTIAL, UNCONTROLLED, Thermostat, Traits, constant

_SCALING, _TAYLOR = 4, 3  # factors of the exponential, and order of the Taylor polynomial of each


class AdaptiveLangevin(MomentumSampler):
    """Momentum dynamics whose friction xi is driven by the kinetic temperature. Without a covariance it is SGNHT.

    Scheme `"euler"` is Algorithm 1 of the CCAdL paper. In `"euler-midpoint"` the thermostat is driven by
    (p_old + p_new)/2. `"symmetric"` is A D O D A before the gradient and the midpoint kick K after it.
    `"exponential"` replaces K by a kick between two halves of the exact covariance friction.
    """

    thermal_mass: eqx.AbstractVar[Float[Array, ""] | float | None]
    initial_xi: eqx.AbstractVar[Float[Array, ""] | float | None]

    schemes = ("euler", "euler-midpoint", "symmetric", "exponential")

    def __check_init__(self) -> None:
        check_positive(self, "thermal_mass", optional=True, finite=False, schedule=False)
        check_number(self, "initial_xi")
        check_choice(f"scheme` of `{type(self).__name__}", self.scheme, self.schemes)
        averaging = getattr(self.covariance, "averaging", 0.0)
        known = not callable(averaging) and not is_traced(averaging)
        if self.scheme == "symmetric" and known and averaging > 0.1:
            raise ValueError(
                "`averaging` of the covariance must be at most 0.1 in the symmetric scheme, so that its inverse "
                f"barely depends on the current batch; got {describe(averaging)}. Use 0.0, the plain average."
            )

    @property
    def traits(self) -> Traits:
        symmetric = UNCONTROLLED_LIMIT
        if self.covariance is not None and self.covariance.tolerates_large_steps:
            symmetric = S_LIMITS["symmetric"]
        noisy, exact = self.bias_orders
        remedy = EXPLICIT if self.scheme == "euler" else Traits.remedy
        if self.covariance is None:
            remedy = UNCONTROLLED
        elif self.scheme != "euler" and not self.covariance.controls_all:
            remedy = PARTIAL
        return Traits(
            s_power=2,
            scheme=self.scheme,
            s_limit=symmetric if self.scheme == "symmetric" else S_LIMITS[self.scheme],
            bias_order=noisy,
            exact_bias_order=exact,
            friction=constant(self.friction),
            thermostat=self._thermostat,
            alternative=('scheme="symmetric"', symmetric),
            remedy=remedy,
        )

    @property
    def _thermostat(self) -> Thermostat | None:
        if callable(self.friction):
            return None
        A = float(self.friction)
        start = A if self.initial_xi is None else float(self.initial_xi)
        return Thermostat(A, start, constant(self.thermal_mass), self.covariance is not None)

    def temperatures(self, before: State, after: State, visited: PyTree) -> Temperatures:
        del before
        return Temperatures(visited, self.leaf_temperatures(after.momentum))

    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        step = jnp.zeros((), jnp.int32)
        momentum = self.thermal_momentum(position, key=key)
        xi = at(self.friction, step) if self.initial_xi is None else self.initial_xi
        average = self._no_average(position, applies="inverse" if self.scheme == "symmetric" else None)
        return State(position, momentum, jnp.asarray(xi, float), average, step)

    def drift(self, state: State, *, key: Key[Array, ""]) -> State:
        if self.scheme == "euler" or self.scheme == "euler-midpoint":
            return self.drifted(state)
        state = self._thermostatted(self.drifted(state, 0.5), 0.5)
        state = self._damped(state, key=key)
        return self.drifted(self._thermostatted(state, 0.5), 0.5)

    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        h, T = at(self.step_size, state.step), self.temperature_at(state.step)
        state = self._refreshed(self.learn(state, estimate), h * h / T / 4)
        C = self._noise(state, estimate)
        if self.scheme == "euler" or self.scheme == "euler-midpoint":
            moved = self._euler(state, estimate.force, C, key=key)
        else:
            kick = self._exponential if self.scheme == "exponential" else self._midpoint
            moved = eqx.tree_at(lambda x: x.momentum, state, kick(state, estimate.force, C))
        kinetic = self.kinetic_temperature(moved.momentum)
        info = Info(
            kinetic_temperature=kinetic,
            xi=moved.xi,
            clipped=None,
            status=status_of(kinetic, moved.xi),
        )
        return eqx.tree_at(lambda x: x.step, moved, state.step + 1), info

    def _euler(self, state: State, force: PyTree, C: Operator | None, *, key: Key[Array, ""]) -> State:
        h, A = at(self.step_size, state.step), at(self.friction, state.step)
        T, p, xi = self.temperature_at(state.step), state.momentum, state.xi
        if C is not None:
            damping = self.mass_root_times(C.mv(self.over_mass_root(p)))
            force = tree.add_scaled(force, (-h / (2 * T), damping))
        R = self.mass_root_times(tree.normal_like(p, key=key))
        new = tree.add_scaled(p, (h, force), (-h * xi, p), (jnp.sqrt(2 * A * h * T), R))
        driving = new if self.scheme == "euler" else tree.multiply(0.5, tree.add_scaled(p, (1.0, new)))
        state = self._thermostatted(eqx.tree_at(lambda x: x.momentum, state, driving))
        return eqx.tree_at(lambda x: x.momentum, state, new)

    def _thermostatted(self, state: State, share: float = 1.0) -> State:
        """D: xi + share (h/mu)(p'M^-1p - N_d T), where mu is N_d by default."""
        p, h = state.momentum, share * at(self.step_size, state.step)
        ratio = 1.0 if self.thermal_mass is None else tree.size(p) / self.thermal_mass
        change = h * ratio * (self.kinetic_temperature(p) - self.temperature_at(state.step))
        return eqx.tree_at(lambda x: x.xi, state, state.xi + change.astype(state.xi.dtype))

    def _damped(self, state: State, *, key: Key[Array, ""]) -> State:
        """O: the exact solution for friction xi and artificial noise A. xi may be zero or negative."""
        h, A = at(self.step_size, state.step), at(self.friction, state.step)
        xi, p = state.xi, state.momentum
        near_zero = jnp.abs(xi * h) < 1e-6
        safe = jnp.where(near_zero, 1, xi)
        variance = jnp.where(near_zero, 2 * h, -jnp.expm1(-2 * safe * h) / safe)
        R = self.mass_root_times(tree.normal_like(p, key=key))
        scale = jnp.sqrt(A * self.temperature_at(state.step) * variance)
        momentum = tree.add_scaled(tree.multiply(jnp.exp(-xi * h), p), (scale, R))
        return eqx.tree_at(lambda x: x.momentum, state, momentum)

    def _exponential(self, state: State, force: PyTree, C: Operator | None) -> PyTree:
        """exp(-S/4) p, the kick, and exp(-S/4) again, each the fourth power of a Taylor polynomial in S/16.

        For covariances of the current batch, whose inverse would correlate with the kick.
        """
        h, T, p = at(self.step_size, state.step), self.temperature_at(state.step), state.momentum
        S = h * h / T
        p = tree.add_scaled(self._exp_friction(p, S, C), (h, force))
        return self._exp_friction(p, S, C)

    def _exp_friction(self, p: PyTree, S: Float[Array, ""], C: Operator | None) -> PyTree:
        """exp(-S C M^-1 / 4) p, where S is h^2 / T; p itself without a covariance."""
        if C is None:
            return p
        q = self.over_mass_root(p)
        for _ in range(_SCALING):
            term = q
            for order in range(1, _TAYLOR + 1):
                term = tree.multiply(-S / (4 * _SCALING * order), C.mv(term))
                q = tree.add_scaled(q, (1.0, term))
        return self.mass_root_times(q)

    def _midpoint(self, state: State, force: PyTree, C: Operator | None) -> PyTree:
        """K: p + (I + S/4)^-1 (h F - (S/2) p), the implicit midpoint rule for kick and covariance friction.

        With gradient noise of covariance C it leaves p ~ N(0, M/beta) invariant for every S. If the operator inverts
        exactly the S that it applies, this equals (I + S/4)^-1 (2 p + h F) - p, which needs no product with S. If the
        inverse is approximate, its error enters that form at first order, and the form above at second order.
        """
        h, T, p = at(self.step_size, state.step), self.temperature_at(state.step), state.momentum
        if C is None:
            return tree.add_scaled(p, (h, force))
        S = h * h / T
        q, x = self.over_mass_root(p), tree.multiply(h, self.over_mass_root(force))
        if C.inverts:
            sign, x = -1.0, tree.add_scaled(x, (2.0, q))
        else:
            sign, x = 1.0, tree.add_scaled(x, (-S / 2, C.mv(q)))
        return tree.add_scaled(self.mass_root_times(C.solve_shifted(S / 4, x)), (sign, p))
