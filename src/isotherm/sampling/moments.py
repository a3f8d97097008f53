"""Streaming moments inside the compiled loop.

Sums of deviations from a fixed reference (the position where sampling starts), each with Kahan compensation:
a plain float32 mean stops moving after about 10^5 steps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from isotherm import tree
from isotherm.draws import Moments


class Sum(eqx.Module):
    """A compensated sum."""

    total: PyTree[Array]
    lost: PyTree[Array]

    @staticmethod
    def zero(like: PyTree) -> "Sum":
        """An empty sum."""
        return Sum(tree.zeros_like(like), tree.zeros_like(like))

    def add(self, x: PyTree) -> "Sum":
        """The sum with one more term."""
        y = tree.subtract(x, self.lost)
        total = jax.tree.map(jnp.add, self.total, y)
        return Sum(total, tree.subtract(tree.subtract(total, self.total), y))


class Accumulator(eqx.Module):
    """What one chain adds up over every step after burn-in, parameter by parameter.

    With d the deviation of theta from `reference`, y that of the sampler's position from `origin` and g the gradient
    of U with respect to it, leaves of `sums` hold d, d^2, g, y g and, where a preconditioner makes it differ from
    d, y along their first axis: one buffer in the loop's carry instead of four or five.
    """

    count: Int[Array, ""]
    reference: PyTree[Array]
    origin: PyTree[Array] | None
    sums: Sum

    @staticmethod
    def start(params: PyTree, position: PyTree | None) -> "Accumulator":
        """Empty sums around `params` and, where the sampler moves something else, around its `position`."""
        rows = 4 if position is None else 5
        sums = Sum.zero(jax.tree.map(lambda x: jnp.zeros((rows, *x.shape), x.dtype), params))
        return Accumulator(jnp.zeros((), jnp.int32), params, position, sums)

    def add(self, params: PyTree, visited: PyTree, force: PyTree, use: Bool[Array, ""]) -> "Accumulator":
        """One more step, where `use` holds: the new parameters, and the force at the position visited."""

        def terms(reference: Array, origin: Array, new: Array, old: Array, f: Array) -> Array:
            d, y, g = new - reference, old - origin, -f
            own = [] if self.origin is None else [y]
            return jnp.where(use, jnp.stack([d, d * d, g, y * g, *own]), 0)

        origin = self.reference if self.origin is None else self.origin
        x = jax.tree.map(terms, self.reference, origin, params, visited, force)
        return Accumulator(self.count + use, self.reference, self.origin, self.sums.add(x))


def finish(accumulator: Accumulator) -> Moments:
    """Moments in float64 from the sums of all chains."""
    count = np.asarray(accumulator.count)
    # No step, no mean; one step, no variance: NaN, in silence.
    divisor = np.where(count > 0, count, np.nan)
    bessel = np.where(count > 1, count / np.maximum(count - 1.0, 1.0), np.nan)

    def moments(reference: Array, total: Array, lost: Array) -> list[np.ndarray]:
        per_chain = (-1,) + (1,) * (total.ndim - 2)
        sums = np.asarray(total, np.float64) - np.asarray(lost, np.float64)
        d, d2, g, yg, *own = np.moveaxis(sums, 1, 0) / divisor.reshape(per_chain)
        variance = np.maximum(d2 - d * d, 0) * bessel.reshape(per_chain)
        y = own[0] if own else d
        return [np.asarray(reference, np.float64) + d, variance, yg - y * g]

    reference, structure = jax.tree.flatten(accumulator.reference)
    sums = zip(jax.tree.leaves(accumulator.sums.total), jax.tree.leaves(accumulator.sums.lost), strict=True)
    rows = [moments(r, *pair) for r, pair in zip(reference, sums, strict=True)]
    mean, variance, temperature = (structure.unflatten(x) for x in zip(*rows, strict=True))
    return Moments(count, mean, variance, temperature)
