"""Where chains start: at given parameters, or around points that a warm-up has found."""

import abc
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import devices, keys, tree
from isotherm.compilation import compile_quickly
from isotherm.errors import must
from isotherm.preconditioner import Preconditioner
from isotherm.readable import Readable


class Starts(Readable, abc.ABC):
    """A recipe for the starts of any number of chains."""

    @abc.abstractmethod
    def positions(self, num_chains: int, *, key: Key[Array, ""]) -> PyTree[Array]:
        """Return free parameters with a leading axis of chains. `key` is that of the run."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class GivenStarts(Starts):
    """`init` for every chain, or one for each if `per_chain`, plus normal noise of sd `scale`."""

    init: PyTree[Array]
    per_chain: bool = False
    scale: float = 0.0

    def positions(self, num_chains: int, *, key: Key[Array, ""]) -> PyTree[Array]:
        """Return free parameters with a leading axis of chains, as for `Starts`."""
        positions = self.init
        if not self.per_chain:
            positions = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_chains, *x.shape)), self.init)
        for name, x in tree.named_leaves(positions):
            if x.ndim == 0 or x.shape[0] != num_chains:
                label = f"init.{name}" if name else "init"
                raise must(label, f"an array with a leading axis of {num_chains} chains", x)
        if self.scale > 0:
            jitter = tree.normal_like(positions, key=jax.random.fold_in(key, keys.JITTER))
            positions = tree.add_scaled(positions, (self.scale, jitter))
        return positions


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NormalStarts(Starts):
    """Normal draws around `points`, `spread` standard deviations wide in the preconditioner's coordinates.

    `points` has a leading axis. Chain c starts around point c, beginning again with the first if there are more
    chains than points. `None` is the center of the preconditioner.
    """

    preconditioner: Preconditioner
    spread: float
    points: PyTree[Array] | None = None

    def positions(self, num_chains: int, *, key: Key[Array, ""]) -> PyTree[Array]:
        """Return free parameters with a leading axis of chains, as for `Starts`."""
        key = jax.random.fold_in(key, keys.WARM_STARTS)
        spread = tree.put(self.spread, tree.dtype_of(self.preconditioner.center))
        around = functools.partial(_around, self.preconditioner, self.points, spread)
        numbers = tree.put(np.arange(num_chains), np.int32)
        size = devices.for_lanes(num_chains)[1]
        return devices.in_groups(around, size, jax.random.split(key, num_chains), numbers)


@compile_quickly
def _around(
    preconditioner: Preconditioner,
    points: PyTree[Array] | None,
    spread: Float[Array, ""],
    chain_keys: Key[Array, " chains"],
    numbers: Int[Array, " chains"],
) -> PyTree[Array]:
    center = preconditioner.center
    points = jax.tree.map(lambda x: x[None], center) if points is None else points
    nearest = numbers % jax.tree.leaves(points)[0].shape[0]

    def one(key: Key[Array, ""], i: Int[Array, ""]) -> PyTree[Array]:
        v = tree.multiply(spread, tree.normal_like(center, key=key))
        return jax.tree.map(lambda p, move: p[i] + move, points, preconditioner.multiply(v))

    return jax.vmap(one)(chain_keys, nearest)
