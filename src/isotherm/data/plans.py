"""Minibatch plans: which rows a chain sees in a step, as a function of the chain's key and the step number.

`key` is new in every step; `chain_key` is the same in all steps of a chain, for plans that span several. A plan has
no cursor, so a run that is cut into chunks, resumed or moved draws the same batches. The cost of a batch does not
grow with N. Each plan knows the exact covariance of its noise: see `noise_factor`.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree, Shaped

from isotherm import keys
from isotherm.data.permutation import permute
from isotherm.data.stream import Drawn, Stream
from isotherm.errors import must
from isotherm.readable import Readable
from isotherm.records import Batch

Step = Int[Array, ""]
PRNGKey = Key[Array, ""]

_ONE_WORD = 2**16  # most rows among which one word of random bits chooses evenly enough
_SMALL = 64  # most rows for which batches come from `jax.random.permutation`, which is exactly uniform


class MinibatchPlan(Readable, eqx.Module):
    """A rule that draws minibatches."""

    weighted = False  # whether some rows are drawn more often than others, and have a weight to compensate

    white: eqx.AbstractClassVar[bool]
    """Whether the noise of a step is independent of all other steps."""

    @abc.abstractmethod
    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        """Return the rows of this step's batch.

        Their order must carry no information, since the two halves of a batch are compared.
        """

    @abc.abstractmethod
    def noise_factor(self, num_data: int, batch_size: int) -> float:
        """Return f in Cov(force) = (N^2/n) f E[V], with V the Bessel-corrected covariance in the batch."""

    def check(self, num_data: int) -> None:
        """Refuse data that the plan cannot draw from."""

    @property
    def rearrange_every(self) -> int | None:
        """The number of steps after which the driver calls `arrange` again; `None` for never."""
        return None

    def arrange(self, data: PyTree, *, key: PRNGKey) -> PyTree:
        """Return the data in the order in which the plan needs the rows stored."""
        del key
        return data

    @property
    def takes_by_index(self) -> bool:
        """Whether the rows of a batch are those that `index` selects from the arranged data, and have no weights."""
        return type(self).batch is MinibatchPlan.batch

    def names(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Shaped[Array, " n ..."]:
        """Return what `found` finds the rows of this step's batch by, if they are not in memory."""
        return self.index(step, num_data=num_data, batch_size=batch_size, key=key, chain_key=chain_key)

    def found(self, data: Stream, names: np.ndarray) -> Drawn:
        """Return the rows of a stream that have these names, in their order."""
        return Drawn(data.take(names.astype(np.int64)))

    @property
    def naming(self) -> "MinibatchPlan":
        """A plan with the same `names` and without numbers of rows, for use in a compiled program."""
        return self

    def pool_of(self, data: Stream) -> Drawn:
        """Return rows that the plan has drawn from a stream, by which its noise can be measured."""
        return Drawn(data.sample)

    def check_stream(self, num_data: int) -> None:
        """Refuse to draw from rows that are not in memory, if the plan cannot."""
        if self.rearrange_every is not None or type(self).arrange is not MinibatchPlan.arrange:
            raise must(
                "minibatch",
                "a plan that does not rearrange rows, if they are read from a source",
                type(self).__name__,
                "Use `iso.WithReplacement()`.",
            )
        if num_data >= 2**31:
            rule = "fewer than 2^31 rows for plain minibatches"
            raise must("data", rule, num_data, "Sample from a part of the rows.")

    def batch(
        self, data: PyTree, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Batch:
        """Return the batch of this step: the rows that `index` selects."""
        index = self.index(step, num_data=num_data, batch_size=batch_size, key=key, chain_key=chain_key)
        return Batch(take_rows(data, index), index, num_data, self.noise_factor(num_data, batch_size))


class WithReplacement(MinibatchPlan):
    """Draws n rows independently in each step. White and exact; the default."""

    white = True

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        return uniform(key, batch_size, num_data)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1.0


class WithoutReplacement(MinibatchPlan):
    """Draws n distinct rows in each step, independently of other steps; the noise covariance has a factor 1 - n/N."""

    white = True

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        return _head_of_permutation(key, num_data, 0, batch_size)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1 - batch_size / num_data


class Reshuffled(MinibatchPlan):
    """Visits every row once per epoch, in a new order each time; the N mod n rows left over are dropped.

    Within an epoch the noise sums to nearly zero, so steps are not independent. A sampler that corrects for white
    noise then damps too much: its posterior is too narrow by tens of per cent, at a kinetic temperature that looks
    right. `iso.sample` warns.
    """

    white = False

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        per_epoch = num_data // batch_size
        key = jax.random.fold_in(jax.random.fold_in(chain_key, keys.EPOCHS), step // per_epoch)
        return _head_of_permutation(key, num_data, (step % per_epoch) * batch_size, batch_size)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1 - batch_size / num_data


class AllRows(MinibatchPlan):
    """Takes every row in every step, in order: the plan behind `FullData`."""

    white = True

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        return jnp.arange(num_data)

    def batch(
        self, data: PyTree, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Batch:
        return Batch(data, jnp.arange(num_data), num_data, 0.0)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 0.0


def take_rows(data: PyTree, index: Int[Array, " n"]) -> PyTree:
    """Return the rows that `index` selects."""
    return jax.tree.map(lambda x: x.at[index].get(mode="promise_in_bounds"), data)


def uniform(key: PRNGKey, length: int, below: int) -> Int[Array, " n"]:
    """Return random integers from 0 to `below` - 1."""
    if below > _ONE_WORD:
        return jax.random.randint(key, (length,), 0, below)
    # The upper word of bits * below, from two products that do not overflow: half the random bits of `randint`. The
    # probabilities of rows differ by less than 2^-16. This moves the posterior mean by less than 2^-16 of its sd if
    # the rows are in no particular order, and by 2^-9 in the worst order.
    bits = jax.random.bits(key, (length,), jnp.uint32)
    low = ((bits & 0xFFFF) * jnp.uint32(below)) >> 16
    return (((bits >> 16) * jnp.uint32(below) + low) >> 16).astype(jnp.int32)


def _head_of_permutation(
    key: PRNGKey, num_data: int, start: int | Int[Array, ""], length: int
) -> Int[Array, " n"]:
    if num_data <= _SMALL:
        order = jax.random.permutation(key, num_data)
        return jax.lax.dynamic_slice_in_dim(order, start, length)
    return permute(start + jnp.arange(length), num_data, key=key)
