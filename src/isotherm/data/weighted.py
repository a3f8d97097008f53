"""Rows drawn with unequal probabilities, and the weights that correct for it."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from isotherm.compilation import compile_quickly
from isotherm.data.plans import MinibatchPlan, PRNGKey, Step, uniform
from isotherm.data.stream import Drawn
from isotherm.errors import must
from isotherm.numeric import numeric
from isotherm.records import Batch


class Weighted(MinibatchPlan):
    r"""Draws row i with probability $p_i = r_i/\sum_j r_j$, independently in each step, with weight $1/(Np_i)$.

    The force is unbiased for any r, and less noisy if r is larger for rows whose gradients vary more. A rare feature,
    for example, appears in few rows, and they hold all the information about its parameter.

    **Arguments:**

    - `tickets`: r, a positive integer for each row. The plan stores a table as long as their sum less N, and drawing
      a row costs one more look-up.
    """

    table: Int[Array, " more"]
    weights: Float[Array, " rows"]

    white = True
    weighted = True

    def __init__(self, tickets: np.ndarray | Int[Array, " rows"]) -> None:
        numbers, rule = numeric(tickets), "one positive integer for each row"
        if numbers is None or numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
            raise must("tickets", rule, tickets)
        with jax.enable_x64(True):
            least, most, total = (int(x) for x in _range_and_total(numbers))
        if least < 1:
            raise must("tickets", rule, tickets)
        if (largest := max(most, total)) >= 2**31:
            raise must("tickets", "below 2^31 in total", largest, "Divide them by a common factor.")
        self.table, self.weights = _laid_out(numbers, total)

    def check(self, num_data: int) -> None:
        if len(self.weights) != num_data:
            raise must("tickets", f"one number for each of {num_data} rows", len(self.weights))

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        return self.holders(uniform(key, batch_size, self.total))

    @property
    def total(self) -> int:
        """The number of tickets."""
        return len(self.weights) + len(self.table)

    def holders(self, numbers: Int[Array, " n"]) -> Int[Array, " n"]:
        """Return the rows that hold the tickets with these numbers, from 0 to `total` - 1."""
        num_rows = len(self.weights)
        if not len(self.table):
            return numbers
        # The first ticket of row i has the number i. The table tells whose the other tickets are.
        other = self.table.at[jnp.maximum(numbers - num_rows, 0)].get(mode="promise_in_bounds")
        return jnp.where(numbers < num_rows, numbers, other)

    def batch(
        self, data: PyTree, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Batch:
        index = self.index(step, num_data=num_data, batch_size=batch_size, key=key, chain_key=chain_key)
        pick = lambda x: x.at[index].get(mode="promise_in_bounds")
        return Batch(jax.tree.map(pick, data), index, num_data, 1.0, weights=pick(self.weights))

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1.0

    def weights_of(self, index: np.ndarray) -> np.ndarray:
        """Return the weights of the rows at `index`."""
        return np.asarray(_weights(self, jnp.asarray(index, jnp.int32)), np.float64)

    def drawn(self, data: PyTree, count: int, rng: np.random.Generator) -> Drawn:
        """Return `count` rows, drawn with replacement, and their weights."""
        return _drawn(self, data, jnp.asarray(rng.integers(self.total, size=count), jnp.int32))


@compile_quickly
def _weights(plan: Weighted, index: Int[Array, " n"]) -> Float[Array, " n"]:
    return plan.weights[index]


@compile_quickly
def _drawn(plan: Weighted, data: PyTree, numbers: Int[Array, " n"]) -> Drawn:
    index = plan.holders(numbers)
    pick = lambda x: x.at[index].get(mode="promise_in_bounds")
    return Drawn(jax.tree.map(pick, data), pick(plan.weights))


@compile_quickly
def _range_and_total(tickets: np.ndarray | Int[Array, " rows"]) -> tuple[Array, Array, Array]:
    return jnp.min(tickets), jnp.max(tickets), jnp.sum(tickets, dtype=jnp.int64)


@compile_quickly
def _laid_out(
    tickets: np.ndarray | Int[Array, " rows"], total: int
) -> tuple[Int[Array, " more"], Float[Array, " rows"]]:
    """Return the rows that hold the tickets beyond the first of each, and the weights."""
    tickets = jnp.asarray(tickets, jnp.int32)
    N = len(tickets)
    rows = jnp.arange(N, dtype=jnp.int32)
    table = jnp.repeat(rows, tickets - 1, total_repeat_length=total - N)
    return table, jnp.asarray(total / N, jnp.float32) / tickets.astype(jnp.float32)
