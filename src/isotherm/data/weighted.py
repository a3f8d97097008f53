"""Rows drawn with unequal probabilities, and the weights that correct for it."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from isotherm.data.plans import MinibatchPlan, PRNGKey, Step, uniform
from isotherm.errors import must
from isotherm.records import Batch


class Weighted(MinibatchPlan):
    r"""Draws row i with probability $p_i = r_i/\sum_j r_j$, independently in each step, with weight $1/(Np_i)$.

    The force is unbiased for any r, and less noisy if r is larger for rows whose gradients vary more. A rare feature,
    for example, appears in few rows, and they hold all the information about its parameter.

    **Arguments:**

    - `tickets`: r, a positive integer for each row. The plan stores a table as long as their sum, and drawing a row
      costs one more look-up.
    """

    table: Int[Array, " tickets"]
    weights: Float[Array, " rows"]

    white = True

    def __init__(self, tickets: np.ndarray) -> None:
        tickets = np.asarray(tickets)
        if tickets.ndim != 1 or tickets.dtype.kind not in "iu" or not len(tickets) or tickets.min() < 1:
            raise must("tickets", "one positive integer for each row", tickets)
        total = int(tickets.sum(dtype=np.int64))
        if total >= 2**31:
            raise must("tickets", "below 2^31 in total", total, "Divide them by a common factor.")
        self.table = jnp.asarray(np.repeat(np.arange(len(tickets), dtype=np.int32), tickets))
        self.weights = jnp.asarray(total / (len(tickets) * tickets.astype(np.float64)), float)

    def check(self, num_data: int) -> None:
        if len(self.weights) != num_data:
            raise must("tickets", f"one number for each of {num_data} rows", len(self.weights))

    def index(
        self, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Int[Array, " n"]:
        drawn = uniform(key, batch_size, len(self.table))
        return self.table.at[drawn].get(mode="promise_in_bounds")

    def batch(
        self, data: PyTree, step: Step, *, num_data: int, batch_size: int, key: PRNGKey, chain_key: PRNGKey
    ) -> Batch:
        index = self.index(step, num_data=num_data, batch_size=batch_size, key=key, chain_key=chain_key)
        pick = lambda x: x.at[index].get(mode="promise_in_bounds")
        return Batch(jax.tree.map(pick, data), index, num_data, 1.0, weights=pick(self.weights))

    def noise_factor(self, num_data: int, batch_size: int) -> float:
        return 1.0
