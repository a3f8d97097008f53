"""Chains that run side by side: those of one setup, or of several in a sweep that differ only in numbers."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from isotherm import devices, tree
from isotherm.chains.setup import Setup
from isotherm.compilation import compile_quickly
from isotherm.data.stream import Stream
from isotherm.kernel import Kernel
from isotherm.keys import keys_of
from isotherm.preconditioner import Preconditioner
from isotherm.samplers.base import Sampler


@dataclasses.dataclass(frozen=True)
class Length:
    """The length of a run: chains, and draws per chain."""

    num_chains: int
    num_draws: int


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """What to run: one lane for each chain of each setup, ordered by setup.

    All lanes share `kernel`. If there are several setups, the array leaves of its sampler have a lane axis.
    `positions` has a lane axis and is in the sampler's coordinates.
    """

    setups: tuple[Setup, ...]
    kernel: Kernel
    positions: PyTree[Array]
    key: Key[Array, ""]
    lane_keys: Key[Array, " lanes"]
    length: Length

    @property
    def setup(self) -> Setup:
        """The first setup. The others differ from it only in the sampler."""
        return self.setups[0]

    @property
    def num_steps(self) -> int:
        """The number of steps of each chain."""
        return self.setup.burn_in + self.length.num_draws * self.setup.thinning

    @property
    def data(self) -> PyTree[Array] | Stream:
        """The rows, in the order in which they were given."""
        return self.setup.problem.data

    def of_lanes(self, lanes: np.ndarray) -> "Ensemble":
        """Return an ensemble that runs some of the lanes, which may be repeated."""
        kernel = self.kernel
        if len(self.setups) > 1:
            sampler = jax.tree.map(lambda x: x[lanes] if eqx.is_array(x) else x, kernel.sampler)
            kernel = eqx.tree_at(lambda k: k.sampler, kernel, sampler)
        positions = jax.tree.map(lambda x: x[lanes], self.positions)
        return dataclasses.replace(self, kernel=kernel, positions=positions, lane_keys=self.lane_keys[lanes])

    def setup_of(self, lane: int) -> Setup:
        """Return the setup of a lane."""
        return self.setups[lane // self.length.num_chains]


def ensemble_of(
    setups: Sequence[Setup], positions: PyTree[Array], length: Length, key: Key[Array, ""]
) -> Ensemble:
    """Return an ensemble of setups of one shape. Chains start at `positions`, one set of free parameters each."""
    kernel = setups[0].kernel
    place = functools.partial(_placed, kernel.preconditioner)
    numbers = tree.put(np.arange(length.num_chains), np.int32)
    size = devices.for_lanes(length.num_chains)[1]
    positions, lane_keys = devices.in_groups(lambda *args: place(key, *args), size, positions, numbers)
    if len(setups) > 1:
        stacked = _stack([setup.sampler for setup in setups], length.num_chains)
        kernel = eqx.tree_at(lambda k: k.sampler, kernel, stacked)
        positions = jax.tree.map(lambda x: jnp.concatenate([x] * len(setups)), positions)
        lane_keys = jnp.concatenate([lane_keys] * len(setups))
    return Ensemble(tuple(setups), kernel, positions, key, lane_keys, length)


@compile_quickly
def _placed(
    preconditioner: Preconditioner | None,
    key: Key[Array, ""],
    positions: PyTree[Array],
    numbers: Int[Array, " chains"],
) -> tuple[PyTree[Array], Key[Array, " chains"]]:
    """Return the positions in the coordinates of the sampler, and the chains' keys."""
    if preconditioner is not None:
        positions = jax.vmap(preconditioner.from_params)(positions)
    return positions, keys_of(key, numbers)


def groups_of_one_shape(setups: Sequence[Setup]) -> list[list[int]]:
    """Return groups of indices of setups whose samplers differ only in numbers."""
    groups: dict[Any, list[int]] = {}
    for i, setup in enumerate(setups):
        groups.setdefault(_shape_of(setup.sampler), []).append(i)
    return list(groups.values())


def _shape_of(sampler: Sampler) -> Any:
    arrays, static = eqx.partition(sampler, eqx.is_array)
    shapes = tuple((x.shape, x.dtype) for x in jax.tree.leaves(arrays))
    return shapes, jax.tree.structure(arrays), tuple(jax.tree.leaves(static))


def _stack(samplers: Sequence[Sampler], num_chains: int) -> Sampler:
    """Return one sampler whose array leaves have a lane axis, ordered by setup and then by chain."""

    def stack(*leaves: Any) -> Any:
        if not eqx.is_array(leaves[0]):
            return leaves[0]
        return jnp.repeat(jnp.stack(leaves), num_chains, axis=0)

    return jax.tree.map(stack, *samplers)
