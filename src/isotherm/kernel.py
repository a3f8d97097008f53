"""One step of one chain: drift, batch, gradient, kick. The driver's loop and yours are made of it."""

import equinox as eqx
import jax
from jaxtyping import Array, Key, PyTree

from isotherm.data.minibatch import MinibatchPlan, WithReplacement
from isotherm.gradient import Gradient
from isotherm.records import GradientEstimate, Info, State
from isotherm.samplers.base import Sampler

_START = 2**32 - 2  # a fold of the chain's key that no step number reaches


class Visit(eqx.Module):
    """Where the gradient was taken in a step, and what it was."""

    position: PyTree[Array]
    estimate: GradientEstimate


class Kernel(eqx.Module):
    """The transition of a single chain.

    Everything random is a function of the chain's `key` and `state.step`: the same pair gives the same step
    wherever and whenever it is taken.
    """

    sampler: Sampler
    gradient: Gradient
    num_data: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    minibatch: MinibatchPlan = WithReplacement()

    def init(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        """The state before the first step."""
        return self.sampler.init(position, key=jax.random.fold_in(key, _START))

    def step(self, state: State, data: PyTree, *, key: Key[Array, ""]) -> tuple[State, Info, Visit]:
        """One step of the chain whose key is `key`, on `data` as arranged by the minibatch plan."""
        keys = jax.random.split(jax.random.fold_in(key, state.step), 4)
        state = self.sampler.drift(state, key=keys[0])
        batch = self.minibatch.batch(
            data,
            state.step,
            num_data=self.num_data,
            batch_size=self.batch_size,
            key=keys[1],
            chain_key=key,
        )
        estimate = self.gradient(state.position, batch, needs=self.sampler.needs, key=keys[2])
        visit = Visit(state.position, estimate)
        state, info = self.sampler.kick(state, estimate, key=keys[3])
        return state, info, visit
