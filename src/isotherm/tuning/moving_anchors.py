"""Whether anchors that move with the chains are worth their passes over the data, for posteriors without one mode."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.chains.noise import measure
from isotherm.gradients.control_variate import ControlVariate
from isotherm.gradients.minibatch import Minibatch
from isotherm.kernel import Kernel

_ANCHOR_AGES = (1, 2, 4, 8)  # in saved positions: how stale an anchor may get
_SMALLEST_BATCH = 32


@dataclasses.dataclass(frozen=True)
class Moving:
    """A gradient with moving anchors, its batch and its cost: rows of gradient in a step, refreshing included."""

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
    """The cheapest gradient with moving anchors at which s is at most that given; `None` if no chain has moved.

    Costs follow from the noise that `trial` would have at the ends of `paths`, whose leaves are (chain, position,
    ...), with `steps` of the trial's length between two positions.
    """
    assert isinstance(trial.gradient, Minibatch)
    chains, positions = jax.tree.leaves(paths)[0].shape[:2]
    ends = jax.tree.map(lambda x: x[:, -1], paths)
    like = jax.tree.map(lambda x: x[0], ends)
    nothing = jnp.zeros((), tree.ravel(like).dtype)
    known = (nothing, jnp.zeros_like(tree.ravel(like)), None)  # which makes no noise
    found = []
    for age, k in zip(_ANCHOR_AGES, jax.random.split(key, len(_ANCHOR_AGES)), strict=True):
        if age >= positions:
            break
        values = []
        for i, own in enumerate(jax.random.split(k, chains)):
            anchor, position = (jax.tree.map(lambda x, j=j, i=i: x[i, j], paths) for j in (-1 - age, -1))
            gradient = ControlVariate(trial.gradient.posterior, anchor=anchor, sums=known)
            kernel = eqx.tree_at(lambda x: x.gradient, trial, gradient, is_leaf=lambda x: x is None)
            at = position if trial.preconditioner is None else trial.preconditioner.from_params(position)
            noise = measure(kernel, data, at, step=0, key=own)
            values.append(math.inf if noise is None else noise.s)
        rows = max(values) * trial.batch_size / s
        n = max(_SMALLEST_BATCH, 2 ** math.ceil(math.log2(max(1.0, min(rows, 2.0**40)))))
        refresh = max(1, round(age * steps))
        cost = 2 * n + trial.num_data / refresh
        found.append(Moving(ControlVariate(trial.gradient.posterior, anchor=like, refresh=refresh), n, cost))
    return min(found, key=lambda m: m.cost, default=None)
