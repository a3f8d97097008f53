"""Coordinates for effects of groups: a Cholesky factor whose work grows with the number of levels, not its square.

Parameters are in three parts. Given the *outer* ones (scales of priors and the like) and the *head* (coefficients,
and the levels of all groups but the largest), the levels of the largest group are independent:

    outer = R_o v_o,    head = d + E_h outer  with  d = R_h v_h,    level_g = R_g v_g + D_g d + E_g outer,

all relative to the center. D_g is sparse: a level depends on those levels of other groups with which it shares rows.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm.preconditioner import Preconditioner
from isotherm.readable import Readable
from isotherm.small_matrices import products, total
from isotherm.sums.precision import exact


@dataclasses.dataclass(frozen=True)
class Parts:
    """Where the leaves of the parameters belong, by their position in the flattened pytree.

    - `outer`: dense leaves on which effects of groups depend by way of their prior, or not smoothly.
    - `dense`: other leaves without levels.
    - `crossed`: leaves with levels that belong to the head.
    - `largest`: the leaf with the most levels. If `is_block`, it is one level without an axis of levels.
    """

    outer: tuple[int, ...]
    dense: tuple[int, ...]
    crossed: tuple[int, ...]
    largest: int
    is_block: bool = False

    @property
    def head(self) -> tuple[int, ...]:
        """The leaves of the head, in order."""
        return self.dense + self.crossed

    def split(self, theta: PyTree) -> tuple[Array, Array, Array]:
        """Return the outer vector, the vector of the head, and the largest group as (level, effect)."""
        leaves = jax.tree.leaves(theta)
        group = leaves[self.largest]
        vector = lambda index: jnp.concatenate([jnp.ravel(leaves[i]) for i in index] or [group.ravel()[:0]])
        return (
            vector(self.outer),
            vector(self.head),
            group.reshape(1 if self.is_block else group.shape[0], -1),
        )

    def joined(self, outer: Array, head: Array, group: Array, like: PyTree) -> PyTree:
        """Return the pytree whose parts these are."""
        leaves, structure = jax.tree.flatten(like)
        for vector, index in ((outer, self.outer), (head, self.head), (group.ravel(), (self.largest,))):
            start = 0
            for i in index:
                x = leaves[i]
                leaves[i] = vector[start : start + x.size].reshape(x.shape).astype(x.dtype)
                start += x.size
        return structure.unflatten(leaves)


class Border(Readable, eqx.Module):
    """The blocks of D between levels of the largest group and elements of the head from `start` on.

    Block i multiplies the effects of level `level[i]` of a crossed group, and belongs to level `group[i]` of the
    largest, in increasing order.
    """

    group: Int[Array, " pairs"]
    level: Int[Array, " pairs"]
    values: Float[Array, "pairs q r"]
    start: int = eqx.field(static=True)
    num_levels: int = eqx.field(static=True)

    def add(self, head: Float[Array, " h"], out: Float[Array, "G q"]) -> Float[Array, "G q"]:
        """Return `out` plus D times the head."""
        own = _by_effect(self._levels(head), self.level)
        columns = []
        for i in range(self.values.shape[1]):
            terms = total(self.values[:, i, j] * x for j, x in enumerate(own))
            columns.append(out[:, i].at[self.group].add(terms, indices_are_sorted=True, mode=_IN_BOUNDS))
        return jnp.stack(columns, axis=1)

    def add_transposed(self, group: Float[Array, "G q"], head: Float[Array, " h"]) -> Float[Array, " h"]:
        """Return the head plus D' times the effects of the largest group."""
        own = _by_effect(group, self.group)
        columns, zero = [], jnp.zeros(self.num_levels, head.dtype)
        for j in range(self.values.shape[2]):
            terms = total(self.values[:, i, j] * x for i, x in enumerate(own))
            columns.append(zero.at[self.level].add(terms, mode=_IN_BOUNDS))
        sums = jnp.stack(columns, axis=1).ravel()
        return head.at[self.start : self.start + sums.size].add(sums)

    def _levels(self, head: Float[Array, " h"]) -> Float[Array, "L r"]:
        width = self.values.shape[2]
        return head[self.start : self.start + self.num_levels * width].reshape(self.num_levels, width)


# Gathers and sums of single numbers, written out over effects: a CPU takes ten times as long over short vectors.
_IN_BOUNDS = "promise_in_bounds"


def _by_effect(x: Float[Array, "L r"], level: Int[Array, " pairs"]) -> list[Float[Array, " pairs"]]:
    return [x[:, j].at[level].get(mode=_IN_BOUNDS) for j in range(x.shape[1])]


class ArrowPreconditioner(Preconditioner):
    """theta = center + L v with the factor that the head of this module describes.

    Roots come with their inverses. `slopes` are D for the dense part of the head, `borders` for its crossed groups.
    """

    center: PyTree[Array]
    parts: Parts = eqx.field(static=True)
    outer_root: Float[Array, "o o"]
    outer_inverse: Float[Array, "o o"]
    head_root: Float[Array, "h h"]
    head_inverse: Float[Array, "h h"]
    head_by_outer: Float[Array, "h o"]
    group_root: Float[Array, "G q q"]
    group_inverse: Float[Array, "G q q"]
    group_by_outer: Float[Array, "G q o"]
    slopes: Float[Array, "G q p"]
    borders: tuple[Border, ...]

    @exact
    def multiply(self, v: PyTree) -> PyTree:
        """L v."""
        outer, head, group = self.parts.split(v)
        outer, apart = self.outer_root @ outer, self.head_root @ head
        group = products(self.group_root, group)
        head = apart + self.head_by_outer @ outer
        return self.parts.joined(outer, head, self._given(outer, apart, group, 1), v)

    @exact
    def multiply_transposed(self, x: PyTree) -> PyTree:
        """L' x."""
        outer, head, group = self.parts.split(x)
        outer = outer + self.head_by_outer.T @ head + jnp.einsum("gqo,gq->o", self.group_by_outer, group)
        dense = self.slopes.shape[2]
        head = head.at[:dense].add(jnp.einsum("gqp,gq->p", self.slopes, group))
        for border in self.borders:
            head = border.add_transposed(group, head)
        by_group = products(jnp.swapaxes(self.group_root, 1, 2), group)
        return self.parts.joined(self.outer_root.T @ outer, self.head_root.T @ head, by_group, x)

    @exact
    def solve(self, x: PyTree) -> PyTree:
        """L^-1 x."""
        outer, head, group = self.parts.split(x)
        apart = head - self.head_by_outer @ outer
        group = products(self.group_inverse, self._given(outer, apart, group, -1))
        return self.parts.joined(self.outer_inverse @ outer, self.head_inverse @ apart, group, x)

    def _given(self, outer: Array, apart: Array, group: Array, sign: int) -> Array:
        """Return the effects of levels plus, or minus, what they are expected to be given the other parts."""
        expected = self.slopes @ apart[: self.slopes.shape[2]] + self.group_by_outer @ outer
        for border in self.borders:
            expected = border.add(apart, expected)
        return group + sign * expected
