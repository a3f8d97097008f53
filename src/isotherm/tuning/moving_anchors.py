"""The cost of control variates whose anchors move with the chains, for posteriors without a single mode."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.chains.noise import measure
from isotherm.chains.resident import resident
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Minibatch
from isotherm.kernel import Kernel

_ANCHOR_AGES = (1, 2, 4, 8)  # in saved positions: how stale an anchor may get
_SMALLEST_BATCH = 32


@dataclasses.dataclass(frozen=True)
class Moving:
    """A gradient with moving anchors, its batch size, and its cost per step in row gradients, refreshes included."""

    gradient: ControlVariate
    batch_size: int
    cost: float


def moving(
    trial: Kernel,
    data: PyTree,
    paths: PyTree[Array],
    steps: float,
    *,
    s: float,
    key: Key[Array, ""],
) -> Moving | None:
    """Return the cheapest gradient with moving anchors that meets `s`; `None` if `paths` has a single position.

    The cost follows from the noise of `trial` at the ends of `paths`, whose leaves are (chain, position, ...). Two
    successive positions are `steps` steps of `trial` apart.
    """
    trial, rows_in_memory = resident(trial, data, key=key)
    assert isinstance(trial.gradient, Minibatch)
    chains, positions = jax.tree.leaves(paths)[0].shape[:2]
    ends = jax.tree.map(lambda x: x[:, -1], paths)
    like = jax.tree.map(lambda x: x[0], ends)
    zero = jnp.zeros((), tree.ravel(like).dtype)
    known = (zero, jnp.zeros_like(tree.ravel(like)), None)  # constants, which add no noise
    candidates = []
    for age, age_key in zip(_ANCHOR_AGES, jax.random.split(key, len(_ANCHOR_AGES)), strict=True):
        if age >= positions:
            break
        levels = []
        for i, chain_key in enumerate(jax.random.split(age_key, chains)):
            anchor, position = (jax.tree.map(lambda x, j=j, i=i: x[i, j], paths) for j in (-1 - age, -1))
            gradient = ControlVariate(trial.gradient.posterior, anchor=anchor, sums=known)
            kernel = eqx.tree_at(lambda x: x.gradient, trial, gradient, is_leaf=lambda x: x is None)
            v = position if trial.preconditioner is None else trial.preconditioner.from_params(position)
            noise = measure(kernel, rows_in_memory, v, step=0, key=chain_key)
            levels.append(math.inf if noise is None else noise.s)
        rows = max(levels) * trial.batch_size / s
        n = max(_SMALLEST_BATCH, 2 ** math.ceil(math.log2(max(1.0, min(rows, 2.0**40)))))
        refresh = max(1, round(age * steps))
        cost = 2 * n + trial.num_data / refresh
        candidates.append(
            Moving(ControlVariate(trial.gradient.posterior, anchor=like, refresh=refresh), n, cost)
        )
    return min(candidates, key=lambda m: m.cost, default=None)
