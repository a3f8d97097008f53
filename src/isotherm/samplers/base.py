"""What every sampler is: hyper-parameters as leaves, and a step split where the gradient stands.

A class here is abstract or final: `LangevinSampler`, `MomentumSampler` and `AdaptiveLangevin` (in files of their
own) hold what their samplers share, and nothing overrides a method that has a body.
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm.covariance import Average, Covariance
from isotherm.hyper import Hyper, at, check_positive
from isotherm.records import GradientEstimate, Info, Needs, State, Status, Temperatures
from isotherm.samplers.traits import Traits


class Sampler(eqx.Module):
    """A discretised stochastic dynamics.

    The step is `drift`, up to the new position; then the caller evaluates the gradient there; then `kick`.
    Neither data nor likelihood enters a sampler. Hyper-parameters are array leaves (or schedules of the step
    number), so `jax.vmap` over a stack of samplers works.
    """

    step_size: eqx.AbstractVar[Hyper]
    temperature: eqx.AbstractVar[Hyper | None]
    covariance: eqx.AbstractVar[Covariance | None]

    def __check_init__(self) -> None:
        check_positive(self, "step_size")
        check_positive(self, "temperature")

    @property
    def needs(self) -> Needs:
        """What the gradient must bring besides the force."""
        return Needs.NOTHING if self.covariance is None else self.covariance.needs

    @property
    def assumes_white_noise(self) -> bool:
        """Whether the dynamics corrects for gradient noise that is independent from step to step."""
        return self.covariance is not None

    def temperature_at(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """1/beta in this step; 1 where nobody set it."""
        return jnp.ones(()) if self.temperature is None else at(self.temperature, step)

    def numbers_at(self, step: int) -> tuple[float, float]:
        """h and T in this step, as numbers."""
        at_step = jnp.asarray(step)
        return float(at(self.step_size, at_step)), float(self.temperature_at(at_step))

    @property
    @abc.abstractmethod
    def traits(self) -> Traits:
        """What the sampler says about itself: limits, orders and remedies, as plain numbers."""

    @abc.abstractmethod
    def noise_scale(self, step: int) -> float:
        """S / C, where C is the covariance of the noise that `learn` sees: h^2 beta with a momentum."""

    @abc.abstractmethod
    def temperatures(self, before: State, after: State, visited: PyTree) -> Temperatures:
        """What temperatures are taken from in a step whose gradient was evaluated at `visited`."""

    @abc.abstractmethod
    def whitened(self, estimate: GradientEstimate) -> GradientEstimate:
        """The noise of M^-1/2 times the force: what a covariance is shown."""

    @abc.abstractmethod
    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        """The state before the first step."""

    def learn(self, state: State, estimate: GradientEstimate) -> State:
        """The state whose average holds the noise of one more batch."""
        if self.covariance is None:
            return state
        average = self.covariance.update(state.covariance, self.whitened(estimate))
        return eqx.tree_at(lambda x: x.covariance, state, average, is_leaf=lambda x: x is None)

    def settle(self, state: State) -> State:
        """The state after burn-in: averages forget the way to the typical set."""
        return eqx.tree_at(
            lambda x: x.covariance, state, self._no_average(state.position), is_leaf=lambda x: x is None
        )

    def _no_average(self, position: PyTree) -> Average | None:
        return None if self.covariance is None else self.covariance.init(position)

    def _noise(self, state: State, estimate: GradientEstimate) -> Any:
        """C as the step uses it, from a state that has learnt."""
        if self.covariance is None:
            return None
        return self.covariance.operator(state.covariance, self.whitened(estimate))

    @abc.abstractmethod
    def drift(self, state: State, *, key: Key[Array, ""]) -> State:
        """The part of the step before the gradient."""

    @abc.abstractmethod
    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        """The part of the step that uses the gradient at `state.position`."""


class LangevinSampler(Sampler):
    """First-order dynamics: no momentum, and the whole step comes after the gradient."""

    def noise_scale(self, step: int) -> float:
        # A Langevin step h is an underdamped one of length sqrt(2 h).
        h, T = self.numbers_at(step)
        return 2 * h / T

    def temperatures(self, before: State, after: State, visited: PyTree) -> Temperatures:
        del before, after
        return Temperatures(visited, None)

    def whitened(self, estimate: GradientEstimate) -> GradientEstimate:
        return estimate

    def drift(self, state: State, *, key: Key[Array, ""]) -> State:
        del key
        return state


def status_of(*scalars: Float[Array, ""]) -> Int[Array, ""]:
    """Whether the chain is still finite, judged by scalars that feel every component."""
    finite = jnp.all(jnp.stack([jnp.isfinite(x) for x in scalars]))
    return jnp.where(finite, Status.RUNNING, Status.NON_FINITE).astype(jnp.int32)


def check_covariance(sampler: Sampler, otherwise: str) -> None:
    """Refuse the absence of a covariance where the dynamics is made for one."""
    if not isinstance(sampler.covariance, Covariance):
        name = type(sampler).__name__
        raise TypeError(
            f"`covariance` of `{name}` must be a covariance, such as `iso.Dense()`; got "
            f"{sampler.covariance!r}. Without one it is `iso.{otherwise}`."
        )


def check_root(sampler: Sampler) -> None:
    """Refuse a covariance without the square root that takes gradient noise out of the added noise."""
    covariance = sampler.covariance
    if covariance is not None and not covariance.has_root:
        name, kind = type(sampler).__name__, type(covariance).__name__
        raise ValueError(
            f"`covariance` of `{name}` must have a square root, which `{kind}` has not. Use "
            "`iso.DiagonalLowRank(rank)` or `iso.Dense()`, or `iso.CCAdL`, which needs no root."
        )
