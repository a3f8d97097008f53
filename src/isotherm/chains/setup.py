"""`Setup`: everything about a run except its length and its seed, chosen by hand or by a warm-up."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from isotherm import tree
from isotherm.chains.problem import Problem
from isotherm.chains.starts import Starts
from isotherm.data.plans import MinibatchPlan
from isotherm.draws.record import Arithmetic, Reason, table_of
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Gradient
from isotherm.kernel import Kernel
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.printed import Printed
from isotherm.samplers.base import Sampler


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Setup(Printed):
    """How a posterior is sampled; prints as a table of settings with their reasons.

    `iso.setup` makes one from settings that you choose, `iso.warmup` chooses the settings, and `draws.setup` is that
    of a run. Pass it to `iso.sample` in place of `init`, as often as you like. It is valid only for the posterior and
    the data that it was made for: `iso.sample` raises an error for others.

    - `problem`: the posterior, its rows and a starting point, checked.
    - `kernel`: sampler, gradient, minibatches, batch size and preconditioner: one step of a chain.
    - `starts`: where chains start.
    - `burn_in`, `thinning`: steps before the first draw, and steps between two draws.
    - `reasons`: each setting, its value, and why it has that value.
    - `passes`, `seconds`: what choosing the settings cost.
    - `arithmetic`: the precision of the chains; if given, each run checks its arithmetic at its end.
    """

    problem: Problem
    kernel: Kernel
    starts: Starts
    burn_in: int
    thinning: int
    reasons: tuple[Reason, ...] = ()
    passes: float = 0.0
    seconds: float = 0.0
    arithmetic: Arithmetic | None = None

    @property
    def sampler(self) -> Sampler:
        """The sampler."""
        return self.kernel.sampler

    @property
    def gradient(self) -> Gradient:
        """How the force is estimated."""
        return self.kernel.gradient

    @property
    def minibatch(self) -> MinibatchPlan:
        """How minibatches are drawn."""
        return self.kernel.minibatch

    @property
    def preconditioner(self) -> Preconditioner | None:
        """The coordinates in which chains move; `None` for those of the parameters."""
        return self.kernel.preconditioner

    @property
    def batch_size(self) -> int:
        """The number of rows in a minibatch, n."""
        return self.kernel.batch_size

    @property
    def num_parameters(self) -> int:
        """The number of free parameters, N_d."""
        size = tree.size(self.problem.init)
        return size // jax.tree.leaves(self.problem.init)[0].shape[0] if self.problem.per_chain else size

    @property
    def refresh_every(self) -> int:
        """Steps after which chains take new anchors; 0 if they never do."""
        gradient = self.kernel.gradient
        return (gradient.refresh or 0) if isinstance(gradient, ControlVariate) else 0

    def with_sampler(self, sampler: Sampler) -> "Setup":
        """Return the setup with another sampler."""
        return dataclasses.replace(self, kernel=eqx.tree_at(lambda k: k.sampler, self.kernel, sampler))

    def with_gradient(self, gradient: Gradient) -> "Setup":
        """Return the setup with another gradient."""
        return dataclasses.replace(self, kernel=eqx.tree_at(lambda k: k.gradient, self.kernel, gradient))

    def bound(self, positions: PyTree[Array]) -> "Setup":
        """Return the setup with a gradient that is ready for use, given the starts of the chains.

        Control variates without an anchor use the mean of the starts, which takes a pass over the data.
        """
        gradient = self.kernel.gradient
        if not isinstance(gradient, ControlVariate) or gradient.sums is not None:
            return self
        center = jax.tree.map(lambda x: jnp.mean(x, axis=0), positions)
        problem, coordinates = self.problem, self.kernel.preconditioner
        return self.with_gradient(gradient.bound(problem.density, problem.data, center, coordinates))

    def _parts(self) -> Iterator[Any]:
        yield from table_of(self.reasons, self.passes, self.seconds)


def at_temperature(sampler: Sampler, posterior: Posterior) -> Sampler:
    """Return the sampler at the temperature of the posterior, unless it has a temperature already."""
    if sampler.temperature is not None:
        return sampler
    return eqx.tree_at(lambda s: s.temperature, sampler, posterior.temperature, is_leaf=lambda x: x is None)
