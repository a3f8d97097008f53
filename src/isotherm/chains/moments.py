"""Streaming moments inside the compiled loop.

Sums of deviations from a fixed reference (the position where sampling starts), each with Kahan compensation:
a plain float32 mean stops moving after about 10^5 steps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from isotherm import tree
from isotherm.draws import Moments

_FEWEST = 100  # steps from which a slope is worth anything


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
    of U with respect to it, leaves of `sums` hold d and d^2 along their first axis, and those of `virial` y, g, y g,
    y^2 and g^2. Where the sampler moves theta itself there is no `origin`, and `sums` hold d, d^2, g and d g: one
    buffer in the loop's carry instead of many. `kinetic` has the kinetic temperature of each leaf, where there is a
    momentum.
    """

    count: Int[Array, ""]
    reference: PyTree[Array]
    origin: PyTree[Array] | None
    sums: Sum
    virial: Sum | None
    kinetic: Sum | None

    @staticmethod
    def start(params: PyTree, position: PyTree | None, *, momentum: bool) -> "Accumulator":
        """Empty sums around `params` and, where the sampler moves something else, around its `position`."""
        stack = lambda rows, like: Sum.zero(
            jax.tree.map(lambda x: jnp.zeros((rows, *x.shape), x.dtype), like)
        )
        count = jnp.zeros((), jnp.int32)
        leaves = len(jax.tree.leaves(params if position is None else position))
        kinetic = Sum.zero(jnp.zeros(leaves)) if momentum else None
        if position is None:
            return Accumulator(count, params, None, stack(4, params), None, kinetic)
        return Accumulator(count, params, position, stack(2, params), stack(5, position), kinetic)

    def add(
        self,
        params: PyTree,
        visited: PyTree,
        force: PyTree,
        kinetic: Float[Array, " leaves"] | None,
        use: Bool[Array, ""],
    ) -> "Accumulator":
        """One more step, where `use` holds: the new parameters, and the force at the position visited."""

        def own(reference: Array, new: Array) -> list[Array]:
            d = new - reference
            return [d, d * d]

        def pair(origin: Array, old: Array, f: Array) -> list[Array]:
            y, g = old - origin, -f
            return [y, g, y * g, y * y, g * g]

        heat = self.kinetic
        if heat is not None and kinetic is not None:
            heat = heat.add(jnp.where(use, kinetic, 0))
        if self.origin is None or self.virial is None:
            both = lambda r, new, old, f: jnp.where(use, jnp.stack([*own(r, new), *pair(r, old, f)[1:3]]), 0)
            sums = self.sums.add(jax.tree.map(both, self.reference, params, visited, force))
            return Accumulator(self.count + use, self.reference, None, sums, None, heat)
        one = lambda r, new: jnp.where(use, jnp.stack(own(r, new)), 0)
        two = lambda o, old, f: jnp.where(use, jnp.stack(pair(o, old, f)), 0)
        sums = self.sums.add(jax.tree.map(one, self.reference, params))
        virial = self.virial.add(jax.tree.map(two, self.origin, visited, force))
        return Accumulator(self.count + use, self.reference, self.origin, sums, virial, heat)


def explained(accumulator: Accumulator, chains: np.ndarray) -> PyTree[np.ndarray] | None:
    """What the gradient explains of each chain's mean position, whose expectation is zero.

    The mean of g is zero, and close to a normal posterior g is about y / b with b = var(y) / cov(y, g). So y - b g
    has the mean of y, and hardly any variance. Zero where that does not halve it; `None` where it cannot be told.
    """
    if accumulator.virial is None or len(chains) == 0:
        return None
    count = np.maximum(np.asarray(accumulator.count), 1)
    if count[chains].sum() < _FEWEST:
        return None
    parts = []
    for total, lost in zip(
        *(jax.tree.leaves(x) for x in (accumulator.virial.total, accumulator.virial.lost)), strict=True
    ):
        wide = np.asarray(total, np.float64) - np.asarray(lost, np.float64)
        y, g, yg, yy, gg = np.moveaxis(wide / count.reshape((-1,) + (1,) * (wide.ndim - 1)), 1, 0)
        pooled = lambda a, b, ab: np.mean((ab - a * b)[chains], axis=0)
        cov, var, square = pooled(y, g, yg), pooled(y, y, yy), pooled(g, g, gg)
        b = np.where(cov > 0, var / np.where(cov > 0, cov, 1), 0)
        left = var - 2 * b * cov + b * b * square
        parts.append(np.where(left < 0.5 * var, b, 0) * g)
    return jax.tree.structure(accumulator.origin).unflatten(parts)


def finish(accumulator: Accumulator) -> Moments:
    """Moments in float64 from the sums of all chains."""
    count = np.asarray(accumulator.count)
    # No step, no mean; one step, no variance: NaN, in silence.
    divisor = np.where(count > 0, count, np.nan)
    bessel = np.where(count > 1, count / np.maximum(count - 1.0, 1.0), np.nan)

    def spread(x: np.ndarray, like: np.ndarray) -> np.ndarray:
        return x.reshape((-1,) + (1,) * (like.ndim - 1))

    def means(sums: Sum) -> list[list[np.ndarray]]:
        """For each leaf, of each quantity that was summed."""
        pairs = zip(jax.tree.leaves(sums.total), jax.tree.leaves(sums.lost), strict=True)
        wide = [np.asarray(total, np.float64) - np.asarray(lost, np.float64) for total, lost in pairs]
        return [[x / spread(divisor, x) for x in np.moveaxis(sums, 1, 0)] for sums in wide]

    reference, structure = jax.tree.flatten(accumulator.reference)
    own = means(accumulator.sums)
    mean = [np.asarray(r, np.float64) + x[0] for r, x in zip(reference, own, strict=True)]
    variance = [np.maximum(x[1] - x[0] ** 2, 0) * spread(bessel, x[0]) for x in own]
    if accumulator.virial is None:
        temperature = structure.unflatten([dg - d * g for d, _, g, dg in own])
    else:
        virial = means(accumulator.virial)
        temperature = jax.tree.structure(accumulator.origin).unflatten(
            [yg - y * g for y, g, yg, *_ in virial]
        )
    kinetic = None
    if (heat := accumulator.kinetic) is not None:
        kinetic = (np.asarray(heat.total, np.float64) - np.asarray(heat.lost, np.float64)) / divisor[:, None]
    return Moments(count, structure.unflatten(mean), structure.unflatten(variance), temperature, kinetic)
