"""What every sampler is: hyper-parameters as leaves, and a step split where the gradient stands."""

import abc
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.covariance import Operator
from isotherm.hyper import Hyper, at
from isotherm.records import GradientEstimate, Info, Needs, State, Status

Scheme = Literal["euler"]


class Sampler(eqx.Module):
    """A discretised stochastic dynamics.

    The step is `drift`, up to the new position; then the caller evaluates the gradient there; then `kick`.
    Neither data nor likelihood enters a sampler. Hyper-parameters are array leaves (or schedules of the step
    number), so `jax.vmap` over a stack of samplers works. A class is either abstract, as this one, or final.
    """

    step_size: eqx.AbstractVar[Hyper]
    temperature: eqx.AbstractVar[Hyper | None]

    @property
    @abc.abstractmethod
    def needs(self) -> Needs:
        """What the gradient must bring besides the force."""

    @property
    def assumes_white_noise(self) -> bool:
        """Whether the dynamics corrects for gradient noise that is independent from step to step."""
        return self.needs is not Needs.NOTHING

    @abc.abstractmethod
    def stability(self, C: Operator, step: Int[Array, ""]) -> Float[Array, ""]:
        """s, the largest eigenvalue of S = h^2 beta C M^-1, for gradient noise of covariance C."""

    @abc.abstractmethod
    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        """The state before the first step."""

    @abc.abstractmethod
    def drift(self, state: State, *, key: Key[Array, ""]) -> State:
        """The part of the step before the gradient."""

    @abc.abstractmethod
    def kick(self, state: State, estimate: GradientEstimate, *, key: Key[Array, ""]) -> tuple[State, Info]:
        """The part of the step that uses the gradient at `state.position`."""


def temperature_at(sampler: Sampler, step: Int[Array, ""]) -> Float[Array, ""]:
    """1/beta in this step; 1 where nobody set it."""
    return jnp.ones(()) if sampler.temperature is None else at(sampler.temperature, step)


def momentum_stability(sampler: Sampler, C: Operator, step: Int[Array, ""]) -> Float[Array, ""]:
    """s = h^2 beta lambda_max(C M^-1)."""
    h = at(sampler.step_size, step)
    return h * h / temperature_at(sampler, step) * C.lambda_max(sampler.mass)


def langevin_stability(sampler: Sampler, C: Operator, step: Int[Array, ""]) -> Float[Array, ""]:
    """s = 2 h beta lambda_max(C): a Langevin step h is an underdamped one of length sqrt(2 h)."""
    return 2 * at(sampler.step_size, step) / temperature_at(sampler, step) * C.lambda_max(1.0)


def virial(position: PyTree, force: PyTree) -> Float[Array, ""]:
    """theta.grad U / N_d, whose mean over a stationary centred chain is the configurational temperature."""
    return -tree.dot(position, force) / tree.size(position)


def status_of(*scalars: Float[Array, ""]) -> Int[Array, ""]:
    """Whether the chain is still finite, judged by scalars that feel every component."""
    finite = jnp.all(jnp.stack([jnp.isfinite(x) for x in scalars]))
    return jnp.where(finite, Status.RUNNING, Status.NON_FINITE).astype(jnp.int32)


def check_mass_fits(sampler: Sampler, position: PyTree) -> None:
    """Refuse a mass that is neither one number nor a pytree in the shapes of `position`."""
    if tree.is_scalar(sampler.mass):
        return
    got, want = (jax.tree.map(jnp.shape, x) for x in (sampler.mass, position))
    if got != want:
        raise ValueError(
            f"`mass` of `{type(sampler).__name__}` must be one number or have the shapes of the parameters, "
            f"{want}; got {got}."
        )


def check_scheme(sampler: Sampler) -> None:
    """Refuse an unknown scheme."""
    if sampler.scheme != "euler":
        raise ValueError(f'`scheme` of `{type(sampler).__name__}` must be "euler"; got {sampler.scheme!r}.')
