"""The base classes of samplers: hyper-parameters as leaves, and a step in two parts around the gradient.

A class is abstract or final. `LangevinSampler`, `MomentumSampler` and `AdaptiveLangevin` hold what their samplers
share, and no class overrides a method that has a body.
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm.covariance import Average, Covariance
from isotherm.covariance.base import Form
from isotherm.errors import must
from isotherm.hyper import Hyper, at, check_positive
from isotherm.readable import Readable
from isotherm.records import GradientEstimate, Info, Needs, State, Status, Temperatures
from isotherm.samplers.traits import Traits


class Sampler(Readable, eqx.Module):
    """A discretised stochastic dynamics.

    A step is `drift`, which moves to a new position, the gradient at that position, which the caller evaluates, and
    `kick`. A sampler knows neither the data nor the likelihood. Hyper-parameters are array leaves (or schedules of
    the step number), so `jax.vmap` over a stack of samplers works.
    """

    step_size: eqx.AbstractVar[Hyper]
    temperature: eqx.AbstractVar[Hyper | None]
    covariance: eqx.AbstractVar[Covariance | None]

    def __check_init__(self) -> None:
        check_positive(self, "step_size")
        check_positive(self, "temperature", optional=True)

    @property
    def needs(self) -> Needs:
        """What the gradient must provide besides the force."""
        return Needs.NOTHING if self.covariance is None else self.covariance.needs

    @property
    def assumes_white_noise(self) -> bool:
        """Whether the dynamics corrects for gradient noise that is independent from step to step."""
        return self.covariance is not None

    def temperature_at(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """Return 1/beta in this step; 1 if it is not set."""
        return jnp.ones(()) if self.temperature is None else at(self.temperature, step)

    def numbers_at(self, step: int) -> tuple[float, float]:
        """Return h and T in this step as numbers."""
        at_step = jnp.asarray(step)
        return float(at(self.step_size, at_step)), float(self.temperature_at(at_step))

    @property
    @abc.abstractmethod
    def traits(self) -> Traits:
        """Limits, orders and remedies of the sampler, in plain values."""

    @abc.abstractmethod
    def noise_scale(self, step: int) -> float:
        """Return S / C, where C is the covariance of the noise that `learn` sees: h^2 beta with a momentum."""

    @abc.abstractmethod
    def temperatures(self, before: State, after: State, visited: PyTree) -> Temperatures:
        """Return what temperatures are computed from in a step whose gradient was evaluated at `visited`."""

    @abc.abstractmethod
    def whitened(self, estimate: GradientEstimate) -> GradientEstimate:
        """Return the estimate with the noise of M^-1/2 times the force, as a covariance sees it."""

    @abc.abstractmethod
    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        """Return the state before the first step."""

    def learn(self, state: State, estimate: GradientEstimate) -> State:
        """Return the state with the noise of one more batch in its average."""
        if self.covariance is None:
            return state
        average = self.covariance.update(state.covariance, self.whitened(estimate))
        return eqx.tree_at(lambda x: x.covariance, state, average, is_leaf=lambda x: x is None)

    def restart_averages(self, state: State) -> State:
        """Return the state with empty averages, before the first step and again after burn-in.

        Averages over burn-in include batches far from the typical set.
        """
        factors = None if state.covariance is None else state.covariance.factors
        empty = self._no_average(state.position, applies=None if factors is None else factors.form)
        return eqx.tree_at(lambda x: x.covariance, state, empty, is_leaf=lambda x: x is None)

    def _no_average(self, position: PyTree, *, applies: Form | None = None) -> Average | None:
        """Return an empty average. `applies` says whether a step applies an inverse or a root of C."""
        if self.covariance is None:
            return None
        empty = self.covariance.init(position)
        return empty if applies is None else self.covariance.factored(empty, applies)

    def _refreshed(self, state: State, c: Float[Array, ""]) -> State:
        """Return the state with new factors of C if they are due, for the c of this step."""
        if self.covariance is None:
            return state
        average = self.covariance.refreshed(state.covariance, c)
        return eqx.tree_at(lambda x: x.covariance, state, average)

    def _noise(self, state: State, estimate: GradientEstimate) -> Any:
        """Return C as the step uses it, from a state that has seen this batch."""
        if self.covariance is None:
            return None
        return self.covariance.operator(state.covariance, self.whitened(estimate))

    @abc.abstractmethod
    def drift(self, state: State, *, key: Key[Array, ""]) -> State:
        """Return the state after the part of the step before the gradient."""

    @abc.abstractmethod
    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        """Return the state after the part of the step that uses the gradient at `state.position`, and its `Info`."""


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
    """Return the status of a chain, non-finite if one of `scalars` is. Each should depend on every component."""
    finite = jnp.all(jnp.stack([jnp.isfinite(x) for x in scalars]))
    return jnp.where(finite, Status.RUNNING, Status.NON_FINITE).astype(jnp.int32)


def check_covariance(sampler: Sampler, otherwise: str) -> None:
    """Raise if a sampler that is made for a covariance has none."""
    if not isinstance(sampler.covariance, Covariance):
        name = type(sampler).__name__
        rule, repair = "a covariance, such as `iso.Dense()`", f"Without one it is `iso.{otherwise}`."
        raise must(f"covariance` of `{name}", rule, sampler.covariance, repair, error=TypeError)


def check_root(sampler: Sampler) -> None:
    """Raise if the covariance has no square root, with which gradient noise is subtracted from the added noise."""
    covariance = sampler.covariance
    if covariance is None:
        return
    if not isinstance(covariance, Covariance):
        rule = "`None` or a covariance, such as `iso.Dense()`"
        raise must(f"covariance` of `{type(sampler).__name__}", rule, covariance, error=TypeError)
    if not covariance.has_root:
        name, kind = type(sampler).__name__, type(covariance).__name__
        raise ValueError(
            f"`covariance` of `{name}` must provide a square root; `{kind}` does not. Use "
            "`iso.DiagonalLowRank(rank)`, `iso.Dense()`, or `iso.CCAdL`, which needs no root."
        )
