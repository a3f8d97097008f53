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
    """What one chain adds up over every step after burn-in: theta, theta^2, g and theta g of each parameter."""

    count: Int[Array, ""]
    reference: PyTree[Array]
    deviation: Sum
    square: Sum
    gradient: Sum
    virial: Sum

    @staticmethod
    def start(position: PyTree) -> "Accumulator":
        """Empty sums around `position`."""
        zero = Sum.zero(position)
        return Accumulator(jnp.zeros((), jnp.int32), position, zero, zero, zero, zero)

    def add(self, position: PyTree, visited: PyTree, force: PyTree, use: Bool[Array, ""]) -> "Accumulator":
        """One more step, where `use` holds: the new position, and the force at the position visited."""

        def kept(x: PyTree) -> PyTree:
            return jax.tree.map(lambda a: jnp.where(use, a, 0), x)

        d = kept(tree.subtract(position, self.reference))
        at_gradient = tree.subtract(visited, self.reference)
        g = kept(tree.multiply(-1.0, force))
        return Accumulator(
            self.count + use,
            self.reference,
            self.deviation.add(d),
            self.square.add(tree.multiply(d, d)),
            self.gradient.add(g),
            self.virial.add(tree.multiply(g, kept(at_gradient))),
        )


def finish(accumulator: Accumulator) -> Moments:
    """Moments in float64 from the sums of all chains."""
    count = np.asarray(accumulator.count)
    divisor = np.where(count > 0, count, np.nan)

    def per_step(x: Sum) -> list[np.ndarray]:
        pairs = zip(jax.tree.leaves(x.total), jax.tree.leaves(x.lost), strict=True)
        sums = [np.asarray(t, np.float64) - np.asarray(c, np.float64) for t, c in pairs]
        return [total / divisor.reshape((-1,) + (1,) * (total.ndim - 1)) for total in sums]

    reference, structure = jax.tree.flatten(accumulator.reference)
    d, d2 = per_step(accumulator.deviation), per_step(accumulator.square)
    g, dg = per_step(accumulator.gradient), per_step(accumulator.virial)
    mean, variance, temperature = [], [], []
    # A variance needs two steps: NaN below, in silence.
    bessel = np.where(count > 1, count / np.maximum(count - 1.0, 1.0), np.nan)
    for r, m, q, gm, v in zip(reference, d, d2, g, dg, strict=True):
        mean.append(np.asarray(r, np.float64) + m)
        variance.append(np.maximum(q - m * m, 0) * bessel.reshape((-1,) + (1,) * (m.ndim - 1)))
        temperature.append(v - m * gm)
    unflatten = structure.unflatten
    return Moments(count, unflatten(mean), unflatten(variance), unflatten(temperature))
