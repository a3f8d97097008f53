"""What samplers with a momentum share: mass, friction, schemes and the sub-steps, named by letter."""

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.errors import check_choice
from isotherm.hyper import Hyper, at, check_mass, check_positive
from isotherm.records import GradientEstimate, LinearOperator, State
from isotherm.samplers.base import Sampler

Scheme = Literal["euler", "euler-midpoint", "symmetric", "exponential"]


# Largest s that each scheme tolerates. Without control, xi diverges at large s even in the symmetric scheme.
S_LIMITS: dict[Scheme, float] = {"euler": 0.25, "euler-midpoint": 1.0, "symmetric": 4.0, "exponential": 0.02}
UNCONTROLLED_LIMIT = 0.5


class MomentumSampler(Sampler):
    """Second-order dynamics with diagonal mass M and friction or artificial noise of strength A."""

    friction: eqx.AbstractVar[Hyper]
    mass: eqx.AbstractVar[PyTree]
    scheme: eqx.AbstractVar[Scheme]

    schemes: ClassVar[tuple[Scheme, ...]] = ("euler", "symmetric")

    def __check_init__(self) -> None:
        check_positive(self, "friction")
        check_mass(self)
        check_choice(f"scheme` of `{type(self).__name__}", self.scheme, self.schemes)

    def noise_scale(self, step: int) -> float:
        h, T = self.numbers_at(step)
        return h * h / T

    def whitened(self, estimate: GradientEstimate) -> GradientEstimate:
        root = tree.sqrt(self.mass)
        contrasts, operator = estimate.contrasts, estimate.operator
        if contrasts is not None:
            contrasts = jax.vmap(lambda z: tree.divide(z, root))(contrasts)
        if operator is not None:
            operator = Whitened(operator, root)
        return GradientEstimate(estimate.force, contrasts, estimate.log_density, operator)

    def drifted(self, state: State, share: float = 1.0) -> State:
        """A: theta + share h M^-1 p."""
        h = share * at(self.step_size, state.step)
        position = tree.add_scaled(state.position, (h, tree.divide(state.momentum, self.mass)))
        return eqx.tree_at(lambda x: x.position, state, position)

    def thermal_momentum(self, position: PyTree, *, key: Key[Array, ""]) -> PyTree:
        """p ~ N(0, M/beta)."""
        self._check_mass_fits(position)
        T = self.temperature_at(jnp.zeros((), jnp.int32))
        return tree.multiply(jnp.sqrt(T), self.mass_root_times(tree.normal_like(position, key=key)))

    def mass_root_times(self, x: PyTree) -> PyTree:
        """M^(1/2) x."""
        return tree.multiply(tree.sqrt(self.mass), x)

    def over_mass_root(self, x: PyTree) -> PyTree:
        """M^(-1/2) x."""
        return tree.divide(x, tree.sqrt(self.mass))

    def kinetic_temperature(self, momentum: PyTree) -> Float[Array, ""]:
        """p' M^-1 p / N_d."""
        return tree.dot(momentum, tree.divide(momentum, self.mass)) / tree.size(momentum)

    def leaf_temperatures(self, momentum: PyTree) -> Float[Array, " leaves"]:
        """The kinetic temperature of each leaf alone."""
        velocity = tree.divide(momentum, self.mass)
        parts = zip(jax.tree.leaves(momentum), jax.tree.leaves(velocity), strict=True)
        return jnp.stack([tree.dot(a, b) / max(a.size, 1) for a, b in parts])

    @property
    def bias_orders(self) -> tuple[int, int]:
        """Orders of the bias with noisy and with exact gradients: 2 if symmetric and all noise is controlled."""
        if self.scheme != "symmetric":
            return 1, 1
        return 2 if self.covariance is not None and self.covariance.controls_all else 1, 2

    def _check_mass_fits(self, position: PyTree) -> None:
        if tree.is_scalar(self.mass):
            return
        got, want = (jax.tree.map(jnp.shape, x) for x in (self.mass, position))
        if got != want:
            raise ValueError(
                f"`mass` of `{type(self).__name__}` must be one number or have the shapes of the parameters, "
                f"{want}; got {got}."
            )


class Whitened(eqx.Module):
    """M^-1/2 C M^-1/2 for the C of a batch."""

    operator: LinearOperator
    root: PyTree

    def mv(self, x: PyTree) -> PyTree:
        """Return the product with x."""
        return tree.divide(self.operator.mv(tree.divide(x, self.root)), self.root)
