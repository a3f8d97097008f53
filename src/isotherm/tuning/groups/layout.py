"""Which parameters and which rows belong to which group, checked before anything is summed."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from isotherm import tree
from isotherm.arrow import Parts
from isotherm.data.stream import Stream
from isotherm.errors import must
from isotherm.groups import Group
from isotherm.own_levels import OwnLevels
from isotherm.posterior import Posterior

MOST_HEAD = 4000  # elements of the head, whose matrix is dense
_MOST_OUTER = 64


@dataclasses.dataclass(frozen=True)
class Factor:
    """One group: its leaf of the parameters, by name and position, and that of the rows; `None` for one block."""

    name: str
    group: Group
    leaf: int
    column: int | None
    num_levels: int
    width: int  # effects of a level


@dataclasses.dataclass(frozen=True)
class Layout:
    """The parts of the parameters, and the groups in the order crossed, then largest."""

    parts: Parts
    factors: tuple[Factor, ...]
    sizes: tuple[int, ...]  # of the leaves of the parameters
    positive: tuple[bool, ...]  # whether each outer parameter is positive

    @property
    def num_outer(self) -> int:
        """The number of outer parameters."""
        return sum(self.sizes[i] for i in self.parts.outer)

    @property
    def num_dense(self) -> int:
        """The number of parameters in leaves without levels, the outer ones included."""
        return self.num_outer + sum(self.sizes[i] for i in self.parts.dense)

    @property
    def num_head(self) -> int:
        """The number of parameters of the head."""
        return sum(self.sizes[i] for i in self.parts.head)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of factors, by their positions in `factors`, the larger group second."""
        count = len(self.factors)
        return tuple((i, j) for j in range(count) for i in range(j))

    @property
    def own(self) -> OwnLevels:
        """Which leaves have levels that rows name."""
        pairs = [(f.leaf, f.column) for f in self.factors if f.column is not None]
        return OwnLevels(tuple(leaf for leaf, _ in pairs), tuple(column for _, column in pairs))

    def start(self, factor: Factor) -> int:
        """Return where a crossed factor begins in the vector of the head."""
        before = self.parts.head[: self.parts.head.index(factor.leaf)]
        return sum(self.sizes[i] for i in before)


def layout_of(posterior: Posterior, init: PyTree, data: PyTree | Stream) -> Layout:
    """Return the layout of free parameters `init`. Raises if leaves that a group names do not fit."""
    names = [name for name, _ in tree.named_leaves(init)]
    leaves = jax.tree.leaves(init)
    sample = data.sample if isinstance(data, Stream) else data
    columns = tree.named_leaves(sample)
    factors = [_factor(name, group, names, leaves, columns) for name, group in posterior.groups]
    # All rows share a block: it belongs to the head, unless there is nothing else.
    factors.sort(key=lambda factor: (factor.column is not None, factor.num_levels * factor.width))
    crossed, largest = tuple(factor.leaf for factor in factors[:-1]), factors[-1].leaf
    scales = {name for f in factors for name in (f.group.scale, f.group.correlations)}
    for argument, name in (pair for f in factors for pair in f.group.parameters.items()):
        if name not in names:
            raise must(f"{argument}` of `Group", "the name of a parameter", name, _listed(names))
    outer, dense = [], []
    for i, name in enumerate(names):
        if i not in (*crossed, largest):
            (outer if name in scales or _is_curved(posterior, name) else dense).append(i)
    positive = tuple(
        getattr(_transform(posterior, names[i]), "positive", False)
        for i in outer
        for _ in range(leaves[i].size)
    )
    parts = Parts(tuple(outer), tuple(dense), crossed, largest, factors[-1].column is None)
    layout = Layout(parts, tuple(factors), tuple(x.size for x in leaves), positive)
    if layout.num_head > MOST_HEAD:
        raise must(
            "groups",
            f"such that coefficients and the levels of all groups but the largest are at most {MOST_HEAD}",
            layout.num_head,
            "Leave out a group, or merge rare levels.",
        )
    if layout.num_outer > _MOST_OUTER:
        raise must(
            "transforms", f"for at most {_MOST_OUTER} parameters if there are groups", layout.num_outer
        )
    return layout


def _factor(
    name: str, group: Group, names: list[str], leaves: list[Array], columns: list[tuple[str, Any]]
) -> Factor:
    if name not in names:
        raise must("groups", "leaves of the parameters by name", name, _listed(names))
    leaf = names.index(name)
    if leaves[leaf].ndim == 0:
        raise must(f"groups.{name}", "a parameter with a leading axis of levels", leaves[leaf])
    if group.rows is None:
        return Factor(name, group, leaf, None, 1, leaves[leaf].size)
    known = [column for column, _ in columns]
    if group.rows not in known:
        raise must(f"groups.{name}", "the name of a leaf of the data", group.rows, _listed(known))
    column = known.index(group.rows)
    values = columns[column][1]
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise must(f"data.{group.rows}", "one integer for each row, the number of its level", values)
    levels = leaves[leaf].shape[0]
    _check_levels(name, group.rows, values, levels)
    return Factor(name, group, leaf, column, levels, math.prod(leaves[leaf].shape[1:]))


def _is_curved(posterior: Posterior, name: str) -> bool:
    """Return whether a leaf has a transform other than a linear one."""
    transform = _transform(posterior, name)
    return transform is not None and not getattr(transform, "affine", False)


def _transform(posterior: Posterior, name: str) -> Any:
    """Return the transform of a leaf; `None` if it has none."""
    constraint = posterior.constraint
    for prefix, transform in constraint.named() if constraint is not None else ():
        if prefix in ("", name) or name.startswith(prefix + "."):
            return transform
    return None


def _listed(names: list[str]) -> str:
    return f"There are {', '.join(names[:10])}{' and others' if len(names) > 10 else ''}."


class PairIndex(eqx.Module):
    """The pairs of levels of two factors that occur together, in the order of the second, and then of the first.

    `of_rows` is the pair of each row; `None` for rows that are not in memory. Those of level j of the second factor
    begin at `starts[j]`, and are `most` at most.
    """

    first: Int[np.ndarray, " pairs"]
    second: Int[np.ndarray, " pairs"]
    starts: Int[np.ndarray, " levels"]
    most: int = eqx.field(static=True)
    of_rows: Int[Array, " N"] | None

    def found(self, first: Int[Array, " n"], second: Int[Array, " n"]) -> Int[Array, " n"]:
        """Return the numbers of pairs that occur, by bisection."""
        pairs, starts = jnp.asarray(self.first, jnp.int32), jnp.asarray(self.starts, jnp.int32)
        low, high = starts[second], starts[second + 1]
        for _ in range(self.most.bit_length()):
            middle = (low + high) // 2
            smaller = pairs[middle] < first
            low, high = jnp.where(smaller, middle + 1, low), jnp.where(smaller, high, middle)
        return low


def level_columns(layout: Layout, data: PyTree | Stream) -> list[Int[np.ndarray, " N"]]:
    """Return the numbers of the levels of all rows, by factor. Raises if one is too large."""
    columns = [factor.column for factor in layout.factors]
    blocks = data.blocks() if isinstance(data, Stream) else [data]
    read: list[list[np.ndarray]] = [[] for _ in columns]
    for block in blocks:
        leaves = jax.tree.leaves(block)
        for found, i in zip(read, columns, strict=True):
            # All rows share a single level if no column names one.
            column = np.zeros(leaves[0].shape[0]) if i is None else np.asarray(leaves[i])
            found.append(column.astype(np.int32, copy=False))
    together = [np.concatenate(found) for found in read]
    for factor, column in zip(layout.factors, together, strict=True):
        _check_levels(factor.name, factor.group.rows, column, factor.num_levels)
    return together


def pair_index(
    layout: Layout,
    data: PyTree | Stream,
    i: int,
    j: int,
    columns: list[Int[np.ndarray, " N"]] | None = None,
) -> PairIndex:
    """Return the pairs of factors `i` and `j`. `columns` is what `level_columns` returns, if it is known."""
    columns = level_columns(layout, data) if columns is None else columns
    levels = layout.factors[i].num_levels
    codes, of_rows = np.unique(columns[j].astype(np.int64) * levels + columns[i], return_inverse=True)
    first, second = codes % levels, codes // levels
    starts = np.searchsorted(second, np.arange(layout.factors[j].num_levels + 1))
    own = None if isinstance(data, Stream) else tree.put(of_rows, np.int32)
    return PairIndex(first, second, starts, int(np.max(np.diff(starts))), own)


def _check_levels(name: str, rows: str | None, values: Array | np.ndarray, levels: int) -> None:
    low, high = int(np.min(values)), int(np.max(values))
    if low < 0 or high >= levels:
        rule = f"numbers of levels of `{name}`, from 0 to {levels - 1}"
        raise must(f"data.{rows}", rule, low if low < 0 else high)
