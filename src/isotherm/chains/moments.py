"""Streaming moments inside the compiled loop.

These are sums of deviations from a fixed reference, the position where sampling starts, with Kahan compensation: a
plain float32 mean stops changing after about 10^5 steps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from isotherm.draws import Moments
from isotherm.sums.compensated import Sum

_MIN_STEPS = 100  # fewest steps for a reliable slope


class Accumulator(eqx.Module):
    """Sums over every step of a chain after burn-in, parameter by parameter.

    With d the deviation of theta from `reference`, y that of the sampler's position from `origin` and g the gradient
    of U with respect to it, leaves of `sums` hold d and d^2 along their first axis, and those of `virial` y, g, y g,
    y^2 and g^2. If the sampler moves theta itself, `origin` and `virial` are `None`, and `sums` hold d, d^2, g and
    d g: one buffer in the loop's carry instead of many. `kinetic` sums the kinetic temperature of each leaf, if there
    is a momentum.
    """

    count: Int[Array, ""]
    reference: PyTree[Array]
    origin: PyTree[Array] | None
    sums: Sum
    virial: Sum | None
    kinetic: Sum | None

    @staticmethod
    def start(params: PyTree, position: PyTree | None, *, momentum: bool) -> "Accumulator":
        """Return empty sums around `params` and, if the sampler moves other coordinates, around its `position`."""
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
        """Return the sums with one more step if `use` holds: the new parameters, and the force at `visited`."""

        def squares(reference: Array, new: Array) -> list[Array]:
            d = new - reference
            return [d, d * d]

        def pair(origin: Array, old: Array, f: Array) -> list[Array]:
            y, g = old - origin, -f
            return [y, g, y * g, y * y, g * g]

        heat = self.kinetic
        if heat is not None and kinetic is not None:
            heat = heat.add(jnp.where(use, kinetic, 0))
        if self.origin is None or self.virial is None:
            both = lambda r, new, old, f: jnp.where(
                use, jnp.stack([*squares(r, new), *pair(r, old, f)[1:3]]), 0
            )
            sums = self.sums.add(jax.tree.map(both, self.reference, params, visited, force))
            return Accumulator(self.count + use, self.reference, None, sums, None, heat)
        one = lambda r, new: jnp.where(use, jnp.stack(squares(r, new)), 0)
        two = lambda o, old, f: jnp.where(use, jnp.stack(pair(o, old, f)), 0)
        sums = self.sums.add(jax.tree.map(one, self.reference, params))
        virial = self.virial.add(jax.tree.map(two, self.origin, visited, force))
        return Accumulator(self.count + use, self.reference, self.origin, sums, virial, heat)


def explained(accumulator: Accumulator, chains: np.ndarray) -> PyTree[np.ndarray] | None:
    """Return the part of each chain's mean position that the mean gradient explains. Its expectation is zero.

    The expectation of g is zero, and for a nearly normal posterior g is about y / b with b = var(y) / cov(y, g). So
    y - b g has the mean of y and almost no variance. Returns zero for parameters whose variance that does not halve,
    and `None` if there are too few steps.
    """
    if accumulator.virial is None or len(chains) == 0:
        return None
    count = np.maximum(np.asarray(accumulator.count), 1)
    if count[chains].sum() < _MIN_STEPS:
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
        remaining = var - 2 * b * cov + b * b * square
        parts.append(np.where(remaining < 0.5 * var, b, 0) * g)
    return jax.tree.structure(accumulator.origin).unflatten(parts)


def finish(accumulator: Accumulator) -> Moments:
    """Return moments in float64 from the sums of all chains."""
    count = np.asarray(accumulator.count)
    # Without a step the mean is NaN, and with fewer than two the variance is, without a warning.
    divisor = np.where(count > 0, count, np.nan)
    bessel = np.where(count > 1, count / np.maximum(count - 1.0, 1.0), np.nan)

    def spread(x: np.ndarray, like: np.ndarray) -> np.ndarray:
        return x.reshape((-1,) + (1,) * (like.ndim - 1))

    def means(sums: Sum) -> list[list[np.ndarray]]:
        """Return the mean of each summed quantity, for each leaf."""
        pairs = zip(jax.tree.leaves(sums.total), jax.tree.leaves(sums.lost), strict=True)
        wide = [np.asarray(total, np.float64) - np.asarray(lost, np.float64) for total, lost in pairs]
        return [[x / spread(divisor, x) for x in np.moveaxis(sums, 1, 0)] for sums in wide]

    reference, structure = jax.tree.flatten(accumulator.reference)
    sums = means(accumulator.sums)
    mean = [np.asarray(r, np.float64) + x[0] for r, x in zip(reference, sums, strict=True)]
    variance = [np.maximum(x[1] - x[0] ** 2, 0) * spread(bessel, x[0]) for x in sums]
    if accumulator.virial is None:
        temperature = structure.unflatten([dg - d * g for d, _, g, dg in sums])
    else:
        virial = means(accumulator.virial)
        temperature = jax.tree.structure(accumulator.origin).unflatten(
            [yg - y * g for y, g, yg, *_ in virial]
        )
    kinetic = None
    if (heat := accumulator.kinetic) is not None:
        kinetic = (np.asarray(heat.total, np.float64) - np.asarray(heat.lost, np.float64)) / divisor[:, None]
    return Moments(count, structure.unflatten(mean), structure.unflatten(variance), temperature, kinetic)
