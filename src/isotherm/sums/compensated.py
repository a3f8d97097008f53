"""Sums that keep what rounding would lose."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from isotherm import tree


class Sum(eqx.Module):
    """A compensated (Kahan) sum over a pytree: a plain float32 sum stops growing after some 10^7 terms."""

    total: PyTree[Array]
    lost: PyTree[Array]

    @staticmethod
    def zero(like: PyTree) -> "Sum":
        """Return an empty sum."""
        return Sum(tree.zeros_like(like), tree.zeros_like(like))

    def add(self, x: PyTree) -> "Sum":
        """Return the sum with one more term."""
        y = tree.subtract(x, self.lost)
        total = jax.tree.map(jnp.add, self.total, y)
        return Sum(total, tree.subtract(tree.subtract(total, self.total), y))

    def result(self) -> PyTree[np.ndarray]:
        """Return the sum in float64, on the host."""
        total, lost = jax.device_get((self.total, self.lost))  # all copies at once
        # A difference of arrays without an axis is a number in NumPy.
        wide = lambda x: np.asarray(x, np.float64)
        return jax.tree.map(lambda x, y: np.asarray(wide(x) - wide(y)), total, lost)
