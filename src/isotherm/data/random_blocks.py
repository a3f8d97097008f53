"""A plan that reads short runs of rows that lie side by side, which is faster than rows one by one."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from isotherm.data.plans import MinibatchPlan, PRNGKey, Step, uniform
from isotherm.errors import check_count, must
from isotherm.hyper import count_field
from isotherm.records import Batch


class RandomBlocks(MinibatchPlan):
    """Draws short contiguous runs at independent random offsets into shuffled rows: fast, and white.

    The order of the rows is fixed between two shuffles, so the noise covariance differs from its mean by about
    sqrt(2 r / N) in any one direction. Keep N / r above a thousand, or reshuffle.

    `Batch.index` counts rows in the shuffled order.

    **Arguments:**

    - `rows_per_run`: r, the rows in a run; the last run of a batch is shorter if r does not divide n.
    - `reshuffle_every`: steps between two shuffles of the rows; `None` shuffles once, before the first step.
    """

    rows_per_run: int = count_field(default=8)
    reshuffle_every: int | None = count_field(default=None)

    white = True

    def __check_init__(self) -> None:
        check_count("rows_per_run", self.rows_per_run, minimum=1, below=2**31)
        if self.reshuffle_every is not None:
            check_count("reshuffle_every", self.reshuffle_every, minimum=1, below=2**31)

    def check(self, num_data: int) -> None:
        if self.rows_per_run > num_data:
            raise must("rows_per_run", f"at most the number of rows, {num_data}", self.rows_per_run)

    @property
    def rearrange_every(self) -> int | None:
        return self.reshuffle_every

    def arrange(self, data: PyTree, *, key: PRNGKey) -> PyTree:
        order = jax.random.permutation(key, jax.tree.leaves(data)[0].shape[0])
        # Repeat the first rows at the end, so that a run that starts near the end wraps around.
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
                f"`data` must be arranged for runs of {r} rows, {num_data + r - 1} in all; got {length}. In your own "
                "loop, pass `plan.arrange(data, key=...)`."
            )

        def gather(x: Array) -> Array:
            runs = jax.vmap(lambda o: jax.lax.dynamic_slice_in_dim(x, o, r))(offsets)
            return runs.reshape(-1, *x.shape[1:])[:batch_size]

        index = self._rows(offsets)[:batch_size] % num_data
        factors = self.noise_factor(num_data, batch_size), self.half_factor(num_data, batch_size)
        return Batch(jax.tree.map(gather, data), index, num_data, *factors)

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        # S is the covariance over all rows, divisor N - 1. Runs of r_j rows are independent given the order; with
        # q = sum_j r_j^2, Cov(sum) = n S (1 - q/(n N)), and (n - 1) E[V] = n S (N - 1)/N - Cov(sum)/n.
        N, n, r = num_data, batch_size, self.rows_per_run
        q = (n // r) * r**2 + (n % r) ** 2
        if n == 1:
            return 1 - 1 / N
        variance = 1 - q / (n * N)
        expected_v = (n * (N - 1) / N - variance) / (n - 1)
        return variance / expected_v

    def half_factor(self, num_data: int, batch_size: int) -> float:
        """Return f in Cov(force) = (N^2/n) f E[z z'], z = (s_A/a - s_B/b) / sqrt(1/a + 1/b) from the halves."""
        # A weighted sum over one run has covariance S (sum w^2 - (sum w)^2/N).
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
