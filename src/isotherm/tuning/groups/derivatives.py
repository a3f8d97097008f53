"""First and second derivatives of the log-likelihood of all rows: the blocks of an arrow, by one pass."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.stream import Stream, some_rows
from isotherm.errors import must
from isotherm.own_levels import summed, taken
from isotherm.posterior import Posterior
from isotherm.sums.fold import fold
from isotherm.sums.precision import exact
from isotherm.tuning.groups.layout import Layout, PairIndex

_CHECKED = 64  # rows by which it is checked that a row depends on its own levels alone
_AGREES = 1e-3


class Blocks(NamedTuple):
    """Sums over rows: the log-likelihood, its gradient, and the blocks of its Hessian.

    *Dense* are the leaves without levels, outer ones first. Lists are by factor, `between` by pair of factors.
    """

    value: Float[Array, ""]
    dense: Float[Array, " p"]
    levels: list[Array]
    dense_dense: Float[Array, "p p"]
    levels_levels: list[Array]
    levels_dense: list[Array]
    between: list[Array]


def blocks(
    posterior: Posterior, data: PyTree | Stream, theta: PyTree, layout: Layout, pairs: list[PairIndex]
) -> Blocks:
    """Return the derivatives at `theta`, as float64."""
    own = layout.num_dense + sum(factor.width for factor in layout.factors)
    counts = tuple(len(pair.first) for pair in pairs)
    if isinstance(data, Stream):
        f = _StreamedBlocks(_Blocks(posterior, layout, counts), tuple(pairs))
        return fold(f, data, theta, numbers_per_row=own * own)
    rows = {"rows": data, "pairs": [pair.of_rows for pair in pairs]}
    return fold(_Blocks(posterior, layout, counts), rows, theta, numbers_per_row=own * own)


class _Blocks(eqx.Module):
    """The sums of `blocks` over one block of rows."""

    posterior: Posterior
    layout: Layout = eqx.field(static=True)
    num_pairs: tuple[int, ...] = eqx.field(static=True)

    @exact
    def __call__(self, rows: PyTree, valid: Bool[Array, " n"], theta: PyTree) -> Blocks:
        layout, own = self.layout, OwnParameters(self.posterior, self.layout)
        x = own.of_rows(theta, rows["rows"])
        f = lambda y, row: own.log_likelihood(y, theta, row)
        first = jax.value_and_grad(f)

        def both(y: Array, row: PyTree) -> tuple[Array, Array, Array]:
            column = lambda e: jax.jvp(jax.grad(lambda z: f(z, row)), (y,), (e,))[1]
            return *first(y, row), jax.vmap(column)(jnp.eye(len(y), dtype=y.dtype))

        value, gradient, hessian = jax.vmap(both)(x, rows["rows"])
        value, gradient = jnp.where(valid, value, 0), jnp.where(valid[:, None], gradient, 0)
        hessian = jnp.where(valid[:, None, None], hessian, 0)
        p, ends = layout.num_dense, own.ends
        columns = jax.tree.leaves(rows["rows"])

        def by_level(part: Callable[[int, int], Array]) -> list[Array]:
            sums = []
            for (begin, end), factor in zip(ends, layout.factors, strict=True):
                terms = part(begin, end)
                if factor.column is None:
                    sums.append(jnp.sum(terms, axis=0, keepdims=True))
                else:
                    sums.append(summed(terms, columns[factor.column], factor.num_levels))
            return sums

        between = [
            summed(hessian[:, ends[i][0] : ends[i][1], ends[j][0] : ends[j][1]], rows["pairs"][k], count)
            for k, ((i, j), count) in enumerate(zip(layout.pairs, self.num_pairs, strict=True))
        ]
        return Blocks(
            jnp.sum(value),
            jnp.sum(gradient[:, :p], axis=0),
            by_level(lambda begin, end: gradient[:, begin:end]),
            jnp.sum(hessian[:, :p, :p], axis=0),
            by_level(lambda begin, end: hessian[:, begin:end, begin:end]),
            by_level(lambda begin, end: hessian[:, begin:end, :p]),
            between,
        )


class _StreamedBlocks(eqx.Module):
    """The same for rows of a stream, whose pairs are found when a block is read."""

    blocks: _Blocks
    pairs: tuple[PairIndex, ...]

    def __call__(self, rows: PyTree, valid: Bool[Array, " n"], theta: PyTree) -> Blocks:
        layout, leaves = self.blocks.layout, jax.tree.leaves(rows)
        shared = jnp.zeros(valid.shape, jnp.int32)
        columns = [factor.column for factor in layout.factors]
        index = [shared if i is None else leaves[i] for i in columns]
        found = [
            pair.found(index[i], index[j]) for pair, (i, j) in zip(self.pairs, layout.pairs, strict=True)
        ]
        return self.blocks({"rows": rows, "pairs": found}, valid, theta)


class OwnParameters(eqx.Module):
    """The parameters that a row depends on, as one vector: all dense leaves, and one level of each factor."""

    posterior: Posterior
    layout: Layout = eqx.field(static=True)

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Where the effects of each factor begin and end in the vector."""
        widths = np.cumsum([self.layout.num_dense, *(factor.width for factor in self.layout.factors)])
        return list(zip(widths[:-1].tolist(), widths[1:].tolist(), strict=True))

    def of_rows(self, theta: PyTree, rows: PyTree) -> Float[Array, "n m"]:
        """Return the vector of each row."""
        leaves, columns = jax.tree.leaves(theta), jax.tree.leaves(rows)
        count = columns[0].shape[0]
        dense = [jnp.ravel(leaves[i]) for i in (*self.layout.parts.outer, *self.layout.parts.dense)]
        shared = lambda x: jnp.broadcast_to(x, (count, x.size))
        levels = [
            shared(leaves[f.leaf]) if f.column is None else taken(leaves[f.leaf], columns[f.column])
            for f in self.layout.factors
        ]
        return jnp.concatenate([*(shared(x) for x in dense), *levels], axis=1)

    def log_likelihood(self, own: Float[Array, " m"], theta: PyTree, row: PyTree) -> Float[Array, ""]:
        """Return that of a row, given its vector. `theta` gives the shapes of all parameters."""
        leaves, structure = jax.tree.flatten(theta)
        start = 0
        for i in (*self.layout.parts.outer, *self.layout.parts.dense):
            leaves[i] = own[start : start + leaves[i].size].reshape(leaves[i].shape)
            start += leaves[i].size
        levels = []
        for factor, (begin, end) in zip(self.layout.factors, self.ends, strict=True):
            if factor.column is None:
                leaves[factor.leaf] = own[begin:end].reshape(leaves[factor.leaf].shape)
            else:
                levels.append(own[begin:end])
        return self.layout.own.log_likelihood(self.posterior, structure.unflatten(leaves), levels, row)


@compile_quickly
def _both_ways(posterior: Posterior, theta: PyTree, rows: PyTree, layout: Layout) -> tuple[Array, Array]:
    """Return the log-likelihoods of rows from their own levels, and from all parameters."""
    own = OwnParameters(posterior, layout)
    alone = jax.vmap(lambda y, row: own.log_likelihood(y, theta, row))(own.of_rows(theta, rows), rows)
    return alone, posterior.row_log_likelihoods(theta, rows)


def check_own_levels(posterior: Posterior, data: PyTree | Stream, theta: PyTree, layout: Layout) -> None:
    """Raise unless the log-likelihood of a row depends on its own level of each group, and on no other."""
    rows, index = some_rows(data, _CHECKED)
    random = [np.random.default_rng(x.size).standard_normal(x.size) for x in jax.tree.leaves(theta)]
    moved = tree.put_like(tree.flat(theta) + 0.1 * np.concatenate(random), theta)
    alone, together = (np.asarray(x, np.float64) for x in _both_ways(posterior, moved, rows, layout))
    if not np.allclose(alone, together, rtol=_AGREES, atol=_AGREES):
        worst = int(np.argmax(~np.isclose(alone, together, rtol=_AGREES, atol=_AGREES)))
        raise must(
            "groups",
            "such that the log-likelihood of a row depends on its own levels alone",
            f"row {index[worst]}: {together[worst]:.6g} with all levels, {alone[worst]:.6g} with its own",
            "Take effects by the number of the level, such as `params['effect'][row['region']]`.",
        )


class PriorBlocks(NamedTuple):
    """Gradient and blocks of the Hessian of the log-prior, as in `Blocks`. Levels are independent under it."""

    value: np.ndarray
    dense: np.ndarray
    levels: list[np.ndarray]
    dense_dense: np.ndarray
    levels_levels: list[np.ndarray]
    levels_dense: list[np.ndarray]


def prior_blocks(posterior: Posterior, theta: PyTree, layout: Layout) -> PriorBlocks:
    """Return the derivatives of the log-prior at `theta`. Raises if levels depend on each other."""
    direction = tree.put_like(np.random.default_rng(0).standard_normal(tree.size(theta)), theta)
    value, gradient, products, along = _prior(posterior, theta, direction, layout)
    pieces = _Pieces(layout)
    dense, levels = pieces.split(gradient)
    products = jax.tree.map(np.asarray, products)
    count = jax.tree.leaves(products)[0].shape[0]
    columns = [pieces.split(jax.tree.map(lambda x, i=i: x[i], products)) for i in range(count)]
    p = layout.num_dense
    dense_dense = np.stack([column[0] for column in columns[:p]])
    levels_dense = [np.stack([column[1][k] for column in columns[:p]], axis=2) for k in range(len(levels))]
    levels_levels, at = [], p
    for k, factor in enumerate(layout.factors):
        levels_levels.append(np.stack([columns[at + j][1][k] for j in range(factor.width)], axis=2))
        at += factor.width
    _check_independent(along, direction, dense_dense, levels_levels, levels_dense, pieces)
    return PriorBlocks(np.asarray(value, np.float64), dense, levels, dense_dense, levels_levels, levels_dense)


class _Pieces:
    """Splits a pytree like the parameters into the dense vector and the effects by factor."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def split(self, x: PyTree) -> tuple[np.ndarray, list[np.ndarray]]:
        leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(x)]
        parts = self.layout.parts
        dense = np.concatenate([leaves[i].ravel() for i in (*parts.outer, *parts.dense)] or [np.zeros(0)])
        return dense, [leaves[f.leaf].reshape(f.num_levels, -1) for f in self.layout.factors]


@compile_quickly
def _prior(
    posterior: Posterior, theta: PyTree, direction: PyTree, layout: Layout
) -> tuple[Array, PyTree, PyTree, PyTree]:
    f = posterior.prior_log_density
    product = lambda e: jax.jvp(jax.grad(f), (theta,), (e,))[1]
    leaves, structure = jax.tree.flatten(theta)
    parts, widths = layout.parts, {factor.leaf: factor.width for factor in layout.factors}
    order = (*parts.outer, *parts.dense, *(factor.leaf for factor in layout.factors))
    sizes = [widths.get(i, leaves[i].size) for i in order]
    ends = np.cumsum([0, *sizes])
    probes = []
    for i, x in enumerate(leaves):
        begin, size = int(ends[order.index(i)]), widths.get(i, x.size)
        # One element of a dense leaf, or the same effect of all levels at once.
        own = jnp.zeros((int(ends[-1]), x.size // size, size), x.dtype)
        own = own.at[begin + np.arange(size), :, np.arange(size)].set(1)
        probes.append(own.reshape(-1, *x.shape))
    products = jax.lax.map(product, structure.unflatten(probes))
    return *jax.value_and_grad(f)(theta), products, product(direction)


def _check_independent(
    found: PyTree,
    direction: PyTree,
    dense_dense: np.ndarray,
    levels_levels: list[np.ndarray],
    levels_dense: list[np.ndarray],
    pieces: _Pieces,
) -> None:
    """Raise unless the Hessian of the log-prior times a direction is that of its blocks."""
    _, levels = pieces.split(found)
    dense, own = pieces.split(direction)
    for k, factor in enumerate(pieces.layout.factors):
        expected = np.einsum("lij,lj->li", levels_levels[k], own[k]) + levels_dense[k] @ dense
        size = np.abs(expected).max() + 1e-12
        if not np.max(np.abs(expected - levels[k])) <= 1e-2 * size:
            raise must(
                f"groups.{factor.name}",
                "a parameter whose levels are independent under the prior, given all other parameters",
                "a log-prior with a curvature between levels, or between groups",
                "Leave this group out of `groups`.",
            )
