"""Draws of independent chains as plain arrays, and the function that runs isotherm's samplers to get them."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from isotherm import keys, tree
from isotherm.data.plans import MinibatchPlan
from isotherm.gradients.minibatch import Gradient
from isotherm.kernel import Kernel
from isotherm.records import State
from isotherm.samplers.base import Sampler
from isotherm.studies.validation.targets import Target


@dataclasses.dataclass(frozen=True)
class Length:
    """The length of a run: `burn_in` steps, then `draws` draws that take `thinning` steps each."""

    chains: int
    burn_in: int
    draws: int
    thinning: int

    @property
    def steps(self) -> int:
        """All steps of one chain."""
        return self.burn_in + self.draws * self.thinning


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """Draws of independent chains: `position` (chain, draw, d); `momentum` likewise, as M^-1/2 p; `xi` (chain, draw).

    `momentum` and `xi` are `None` for a sampler that does not have them.
    """

    position: np.ndarray
    momentum: np.ndarray | None
    xi: np.ndarray | None

    @property
    def finite(self) -> bool:
        """Whether all recorded values are finite."""
        parts = (self.position, self.momentum, self.xi)
        return all(bool(np.all(np.isfinite(x))) for x in parts if x is not None)


def run(
    target: Target,
    sampler: Sampler,
    *,
    minibatch: MinibatchPlan,
    gradient: Gradient,
    length: Length,
    seed: int,
) -> Record:
    """Return the record of chains that start from exact draws of the target, so that any error is the sampler's."""
    batch_size = target.num_data if gradient.all_rows else target.batch_size
    kernel = Kernel(sampler, gradient, target.num_data, batch_size, minibatch)
    key = jax.random.key(seed)
    chains = keys.chain_keys(key, length.chains)
    starts = target.unravel(target.draw(np.random.default_rng(seed), length.chains))
    rows = jax.tree.map(jnp.asarray, target.data)

    every = minibatch.rearrange_every
    chunk = length.draws if every is None else max(1, every // length.thinning)
    arrangement = jax.random.fold_in(key, keys.VALIDATION)
    pieces, done = [], 0
    data = minibatch.arrange(rows, key=jax.random.fold_in(arrangement, 2**31))
    states = _start(kernel, data, starts, chains)
    states, _ = _advance(kernel, data, states, chains, jnp.asarray(length.burn_in), 1)
    states = _restarted(kernel, data, states, chains)
    while done < length.draws:
        data = minibatch.arrange(rows, key=jax.random.fold_in(arrangement, done))
        states, drawn = _advance(kernel, data, states, chains, jnp.asarray(length.thinning), chunk)
        pieces.append(jax.tree.map(np.asarray, drawn))
        done += chunk
    # A part that the sampler does not have is None in every piece, so it is not a leaf of the tree.
    joined = jax.tree.map(lambda *x: np.moveaxis(np.concatenate(x), 0, 1).astype(np.float64), *pieces)
    return Record(*joined)


@eqx.filter_jit
def _start(kernel: Kernel, data: PyTree, starts: PyTree, keys: Key[Array, " chains"]) -> State:
    return jax.vmap(lambda x, key: kernel.init(x, data, key=key))(starts, keys)


@eqx.filter_jit
def _restarted(kernel: Kernel, data: PyTree, states: State, keys: Key[Array, " chains"]) -> State:
    return jax.vmap(lambda x, key: kernel.restart_averages(x, data, key=key))(states, keys)


@eqx.filter_jit
def _advance(
    kernel: Kernel,
    data: PyTree,
    states: State,
    keys: Key[Array, " chains"],
    thinning: Int[Array, ""],
    draws: int,
) -> tuple[State, tuple[Array, Array | None, Array | None]]:
    def step(_: Array, states: State) -> State:
        return jax.vmap(lambda state, key: kernel.step(state, data, key=key)[0])(states, keys)

    def draw(states: State, _: None) -> tuple[State, tuple[Array, Array | None, Array | None]]:
        states = jax.lax.fori_loop(0, thinning, step, states)
        return states, jax.vmap(observe)(states)

    def observe(state: State) -> tuple[Array, Array | None, Array | None]:
        momentum = state.momentum
        if momentum is not None:
            mass = kernel.sampler.mass  # pyrefly: ignore[missing-attribute]
            momentum = tree.ravel(tree.divide(momentum, tree.sqrt(mass)))
        return tree.ravel(state.position), momentum, state.xi

    return jax.lax.scan(draw, states, None, length=draws)


def length_for(relaxation: float, *, relaxations: float, chains: int, dimension: int) -> Length:
    """Return the length of a run of `relaxations` relaxation times over all chains; one takes `relaxation` steps."""
    per_relaxation = 8 if dimension <= 50 else 2
    thinning = max(1, round(relaxation / per_relaxation))
    draws = math.ceil(relaxations / chains * relaxation / thinning)
    return Length(chains, math.ceil(8 * relaxation) + 200, draws, thinning)
