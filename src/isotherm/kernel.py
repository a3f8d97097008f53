"""One step of one chain: drift, batch, gradient, kick. Both the driver's loop and a loop of yours use it."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree

from isotherm import keys, tree
from isotherm.centring import Charted
from isotherm.data.plans import MinibatchPlan, WithReplacement
from isotherm.deviations import Deviations
from isotherm.gradients.arrow_variate import ArrowVariate
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Gradient
from isotherm.preconditioner import Preconditioner
from isotherm.readable import Readable
from isotherm.records import Batch, GradientEstimate, Info, Needs, State
from isotherm.samplers.base import Sampler
from isotherm.transforms import Constraint

_FACTORED_SEED = 4  # times as many batches before an average is factored


class Visit(Readable, eqx.Module):
    """The position at which a step evaluated the gradient, and the estimate, in the sampler's coordinates."""

    position: PyTree[Array]
    estimate: GradientEstimate


class Kernel(Readable, eqx.Module):
    """The transition of a single chain.

    Everything random is a function of the chain's `key` and `state.step`, so the same pair always gives the same
    step.
    """

    sampler: Sampler
    gradient: Gradient
    num_data: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    minibatch: MinibatchPlan = WithReplacement()
    preconditioner: Preconditioner | None = None
    constraint: Constraint | Charted | Deviations | None = None

    def init(self, position: PyTree, data: PyTree, *, key: Key[Array, ""]) -> State:
        """Return the state before the first step, its covariance seeded with a few batches of `data`."""
        return self.restart_averages(self.begin(position, key=key), data, key=key, time=0)

    def begin(self, position: PyTree, *, key: Key[Array, ""]) -> State:
        """Return the state before its covariance is seeded."""
        return self.sampler.init(position, key=jax.random.fold_in(key, keys.CHAIN_START))

    def restart_averages(
        self, state: State, data: PyTree, *, key: Key[Array, ""], time: int | Int[Array, ""] = 1
    ) -> State:
        """Return the state with its averages restarted from a few batches of `data`.

        That is done before the first step (`time` 0) and again after burn-in (1), with other batches.
        """
        key = jax.random.fold_in(jax.random.fold_in(key, keys.CHAIN_START), time)
        return self._seeded(self.sampler.restart_averages(state), data, key=key)

    def step(self, state: State, data: PyTree, *, key: Key[Array, ""]) -> tuple[State, Info, Visit]:
        """Take one step of the chain whose key is `key`, on `data` as arranged by the minibatch plan."""
        drift, batch, signs, kick = self.step_keys(key, state.step)
        state = self.sampler.drift(state, key=drift)
        rows = self.batch(data, state.step, key=batch, chain_key=key)
        if self.minibatch.takes_by_index:
            rows = dataclasses.replace(rows, source=data)
        estimate = self.estimate(state.position, rows, needs=self.sampler.needs, key=signs)
        # The operator is dropped: it holds functions, which a compiled loop cannot carry.
        visit = Visit(
            state.position, GradientEstimate(estimate.force, estimate.contrasts, estimate.log_density)
        )
        state, info = self.sampler.kick(state, estimate, key=kick)
        return state, info, visit

    @staticmethod
    def step_keys(key: Key[Array, ""], step: Int[Array, ""]) -> Key[Array, " 4"]:
        """Return the keys of a step of the chain whose key is `key`: for drift, batch, signs and kick."""
        return jax.random.split(jax.random.fold_in(key, step), 4)

    def params(self, position: PyTree) -> PyTree:
        """Return the free parameters at a position of the sampler: the same without a preconditioner."""
        return position if self.preconditioner is None else self.preconditioner.to_params(position)

    def recorded(self, position: PyTree) -> PyTree:
        """Return the parameters as recorded in draws: constrained by the transforms, if any."""
        params = self.params(position)
        return params if self.constraint is None else self.constraint.constrained(params)

    def estimate(
        self, position: PyTree, batch: Batch, *, needs: Needs, key: Key[Array, ""]
    ) -> GradientEstimate:
        """Return the force and its noise at a position of the sampler, in its coordinates."""
        gradient = self.gradient
        if self.preconditioner is None:
            return gradient(position, batch, needs=needs, key=key)
        if isinstance(gradient, ControlVariate | ArrowVariate) and gradient.preconditioner is not None:
            # The kernel's copy of the coordinates, so that the compiler sees that L v is needed once.
            gradient = eqx.tree_at(lambda g: g.preconditioner, gradient, self.preconditioner)
            return gradient(position, batch, needs=needs, key=key)
        return self.preconditioner.pull(gradient(self.params(position), batch, needs=needs, key=key))

    def batch(
        self, data: PyTree, step: Int[Array, ""], *, key: Key[Array, ""], chain_key: Key[Array, ""]
    ) -> Batch:
        """Return the rows of this step."""
        return self.minibatch.batch(
            data, step, num_data=self.num_data, batch_size=self.batch_size, key=key, chain_key=chain_key
        )

    def _seeded(self, state: State, data: PyTree, *, key: Key[Array, ""]) -> State:
        """Return the state after the batches that the covariance must see before it is used."""
        covariance = self.sampler.covariance
        if covariance is None:
            return state
        batches, contrasts = covariance.seed(tree.size(state.position))
        if state.covariance.factors is not None:  # these are used for many steps as they are
            batches *= _FACTORED_SEED
        if batches == 0 or self.gradient.all_rows:
            return state
        # The contrasts of one batch of n rows have a rank of n - 1 at most.
        wanted, contrasts = batches * contrasts, min(contrasts, max(1, (self.batch_size - 1) // 2))
        batches = -(-wanted // contrasts)

        def seed(i: Int[Array, ""]) -> GradientEstimate:
            rows, signs, chain = jax.random.split(jax.random.fold_in(key, i), 3)
            batch = self.batch(data, i, key=rows, chain_key=chain)
            return self.estimate(state.position, batch, needs=Needs(contrasts=contrasts), key=signs)

        provided = jax.tree.leaves(jax.eval_shape(lambda: seed(jnp.zeros((), jnp.int32)).contrasts))
        state = jax.lax.fori_loop(0, batches, lambda i, x: self.sampler.learn(x, seed(i)), state)
        # Count the batches that would have given these contrasts one step at a time.
        seen = max(1, batches * provided[0].shape[0] // covariance.contrasts)
        return eqx.tree_at(lambda x: x.covariance.count, state, jnp.asarray(seen, jnp.int32))
