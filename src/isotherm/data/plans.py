"""Minibatch plans: which rows a chain sees in a step, as a function of the chain's key and the step number.

`key` is fresh in every step; `chain_key` is the same in all steps of a chain, for plans that span several. A
plan has no cursor, so a run cut into chunks, resumed or moved draws the same batches. The cost of a batch
does not grow with N. Each plan knows the exact covariance of its own noise: see `noise_factor`.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree

from isotherm import keys
from isotherm.data.permutation import permute
from isotherm.errors import check_count, must
from isotherm.records import Batch

Step = Int[Array, ""]
PRNGKey = Key[Array, ""]

_ONE_WORD = 2**16  # up to as many rows a word of random bits chooses one evenly enough
_SMALL = 64  # below this many rows a batch is the head of a sorted-key permutation, which is exactly uniform


class MinibatchPlan(eqx.Module):
    """How minibatches are drawn."""

    white: eqx.AbstractClassVar[bool]
    """Whether the noise of a step is independent of all other steps."""

    @abc.abstractmethod
    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        """The rows of the batch of this step, in an order that says nothing about them: halves are compared."""

    @abc.abstractmethod
    def noise_factor(self, num_data: int, batch_size: int) -> float:
        """f in Cov(force) = (N^2/n) f E[V], V the Bessel-corrected covariance in the batch."""

    def check(self, num_data: int) -> None:
        """Refuse data that the plan cannot draw from."""

    @property
    def rearrange_every(self) -> int | None:
        """Steps after which the driver calls `arrange` again; `None` for never."""
        return None

    def arrange(self, data: PyTree, *, key: PRNGKey) -> PyTree:
        """The order in which the rows are stored."""
        del key
        return data

    def batch(
        self, data: PyTree, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Batch:
        """The rows of `index`, gathered."""
        index = self.index(step, num_data=num_data, batch_size=batch_size, key=key, chain_key=chain_key)
        rows = jax.tree.map(lambda x: x.at[index].get(mode="promise_in_bounds"), data)
        return Batch(rows, index, num_data, self.noise_factor(num_data, batch_size))


class WithReplacement(MinibatchPlan):
    """n rows drawn independently in each step. White and exact; the default."""

    white = True

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        return uniform(key, batch_size, num_data)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1.0


class WithoutReplacement(MinibatchPlan):
    """n different rows in each step, independent of the other steps: noise smaller by 1 - n/N."""

    white = True

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        return _head_of_permutation(key, num_data, 0, batch_size)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1 - batch_size / num_data


class Reshuffled(MinibatchPlan):
    """Every row once per epoch, in a new order each time; the N mod n rows left over are dropped.

    Within an epoch the noise sums to nearly zero, so steps are not independent, and a sampler that corrects for
    white noise over-damps: too narrow by tens of per cent at a kinetic temperature that looks right. `iso.sample`
    warns.
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


class RandomBlocks(MinibatchPlan):
    """Short contiguous runs at independent random offsets into shuffled rows: fast, and white.

    Between two shuffles the order is one draw, so the realised noise covariance departs from its mean by
    about sqrt(2 r / N) in a direction: keep N / r above a thousand or reshuffle.

    `Batch.index` counts rows in the shuffled order.

    **Arguments:**

    - `rows_per_run`: r, rows in a run; the last run of a batch is shorter where r does not divide n.
    - `reshuffle_every`: steps between two shuffles of the rows; `None` shuffles once, before the first step.
    """

    rows_per_run: int = eqx.field(default=8, static=True)
    reshuffle_every: int | None = eqx.field(default=None, static=True)

    white = True

    def __check_init__(self) -> None:
        check_count("rows_per_run", self.rows_per_run, minimum=1)
        if self.reshuffle_every is not None:
            check_count("reshuffle_every", self.reshuffle_every, minimum=1)

    def check(self, num_data: int) -> None:
        if self.rows_per_run > num_data:
            raise must("rows_per_run", f"at most the number of rows, {num_data}", self.rows_per_run)

    @property
    def rearrange_every(self) -> int | None:
        return self.reshuffle_every

    def arrange(self, data: PyTree, *, key: PRNGKey) -> PyTree:
        order = jax.random.permutation(key, jax.tree.leaves(data)[0].shape[0])
        # The head again at the tail: a run that starts near the end goes on around the circle.
        order = jnp.concatenate([order, order[: self.rows_per_run - 1]])
        return jax.tree.map(lambda x: jnp.take(x, order, axis=0), data)

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        offsets = self._offsets(num_data, batch_size, key)
        return self._rows(offsets)[:batch_size] % num_data

    def batch(
        self, data: PyTree, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Batch:
        offsets, r = self._offsets(num_data, batch_size, key), self.rows_per_run
        length = jax.tree.leaves(data)[0].shape[0]
        if length != num_data + r - 1:
            raise ValueError(
                f"`data` must be arranged for runs of {r} rows, {num_data + r - 1} in all; got {length}. In a loop "
                "of your own pass `plan.arrange(data, key=...)`."
            )

        def gather(x: Array) -> Array:
            runs = jax.vmap(lambda o: jax.lax.dynamic_slice_in_dim(x, o, r))(offsets)
            return runs.reshape(-1, *x.shape[1:])[:batch_size]

        index = self._rows(offsets)[:batch_size] % num_data
        factors = self.noise_factor(num_data, batch_size), self.half_factor(num_data, batch_size)
        return Batch(jax.tree.map(gather, data), index, num_data, *factors)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        # S: covariance over all rows, divisor N - 1. Runs of r_j rows, q = sum_j r_j^2, are independent given
        # the order, so Cov(sum) = n S (1 - q/(n N)); and (n - 1) E[V] = n S (N - 1)/N - Cov(sum)/n.
        N, n, r = num_data, batch_size, self.rows_per_run
        q = (n // r) * r**2 + (n % r) ** 2
        if n == 1:
            return 1 - 1 / N
        variance = 1 - q / (n * N)
        expected_v = (n * (N - 1) / N - variance) / (n - 1)
        return variance / expected_v

    def half_factor(self, num_data: int, batch_size: int) -> float:
        """f in Cov(force) = (N^2/n) f E[z z'], z = (s_A/a - s_B/b) / sqrt(1/a + 1/b) of the halves."""
        # A sum over one run with weights w has the covariance S (sum w^2 - (sum w)^2/N).
        N, n, r = num_data, batch_size, self.rows_per_run
        if n == 1:
            return self.noise_factor(N, n)
        a = n // 2
        weights = [1 / a] * a + [-1 / (n - a)] * (n - a)
        runs = [weights[i : i + r] for i in range(0, n, r)]
        q = sum(len(run) ** 2 for run in runs)
        contrast = 1 - sum(sum(run) ** 2 for run in runs) / N / sum(w * w for w in weights)
        return (1 - q / (n * N)) / contrast

    def _rows(self, offsets: Int[Array, " m"]) -> Int[Array, " mr"]:
        return (offsets[:, None] + jnp.arange(self.rows_per_run)[None]).reshape(-1)

    def _offsets(self, num_data: int, batch_size: int, key: PRNGKey) -> Int[Array, " m"]:
        return uniform(key, -(-batch_size // self.rows_per_run), num_data)


class AllRows(MinibatchPlan):
    """Every row in every step, in order: the plan behind `FullData`."""

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


def uniform(key: PRNGKey, length: int, below: int) -> Int[Array, " n"]:
    """Whole numbers from 0 to before `below`."""
    if below > _ONE_WORD:
        return jax.random.randint(key, (length,), 0, below)
    # The upper word of bits * below, from two products that fit: half the random bits of `randint`. Rows differ in
    # probability by less than 2^-16, which moves the posterior mean of rows in no particular order by less than 2^-16
    # of its sd, and by 2^-9 in the worst order.
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
