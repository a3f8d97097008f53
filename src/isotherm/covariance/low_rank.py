"""A diagonal plus leading directions, from a streaming sketch: O(rank d) memory, for networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm import tree
from isotherm.covariance.base import Average, Averaging, Covariance, Estimate, Operator, averaging_field
from isotherm.covariance.diagonal import DiagonalOperator, blend, narrowest
from isotherm.errors import check_count
from isotherm.hyper import count_field
from isotherm.records import GradientEstimate

_SEED_BATCHES = 8
_ROUNDS = 4  # of a fixed-point iteration, each of which halves the error
EVERY = 16  # in a large model, one batch of this many is used for the leading directions
_SMALL = 2**20  # most numbers in the basis for which every batch is used


class LowRankOperator(Operator):
    """C = diag(rest) + sum_j values_j b_j b_j', with orthonormal b_j, leaf by leaf: nothing is ravelled.

    Functions of C are composed from those of its two parts, with `rest` replaced along b_j by its mean `inside`_j.
    That is exact if `rest` is constant, and otherwise correct to first order in its variation.
    """

    rest: PyTree[Array]
    basis: PyTree[Array]  # leaves have `rank` rows
    values: Float[Array, " rank"]
    inside: Float[Array, " rank"]

    def mv(self, x: PyTree) -> PyTree:
        along = self._along(self.values, x)
        return jax.tree.map(lambda r, v, a: (r * v + a).astype(v.dtype), self.rest, x, along)

    def solve_shifted(self, c: Float[Array, ""], x: PyTree) -> PyTree:
        root = jax.tree.map(lambda r: jax.lax.rsqrt(1 + c.astype(r.dtype) * r), self.rest)
        c = c.astype(self.values.dtype)
        scaled = c * self.values / (1 + c * self.inside)
        v = jax.tree.map(jnp.multiply, root, x)
        along = self._along(scaled / (1 + scaled), v)
        return jax.tree.map(lambda r, v, a, y: (r * (v - a)).astype(y.dtype), root, v, along, x)

    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree) -> tuple[PyTree, Int[Array, ""]]:
        left = jax.tree.map(lambda r: 1 - c.astype(r.dtype) * r, self.rest)
        c = c.astype(self.values.dtype)
        scaled = c * self.values / jnp.maximum(1 - c * self.inside, 1e-6)
        clipped = sum(
            (jnp.sum(y < 0, dtype=jnp.int32) for y in jax.tree.leaves(left)),
            start=jnp.sum((scaled > 1) & (c * self.inside < 1), dtype=jnp.int32),
        )
        along = self._along(jnp.sqrt(jnp.maximum(1 - scaled, 0)) - 1, x)
        root = lambda y, v, a: (jnp.sqrt(jnp.maximum(y, 0)) * (v + a)).astype(v.dtype)
        return jax.tree.map(root, left, x, along), clipped

    def _along(self, weights: Float[Array, " rank"], x: PyTree) -> PyTree:
        """Return sum_j weights_j b_j b_j'x."""
        return tree.combine(weights * tree.products(self.basis, x), self.basis)


class Pending(eqx.Module):
    """Contrasts waiting to be merged into the leading directions, each with its current weight in the average.

    `diagonal` is the diagonal of the whole average, `covered` the part of it due to the leading directions, `values`
    their eigenvalues, and `kept` the weight that they retain.
    """

    diagonal: PyTree[Array]
    covered: PyTree[Array]
    values: Float[Array, " rank"]
    rows: PyTree[Array]
    weights: Float[Array, " rank"]
    kept: Float[Array, ""]


class DiagonalLowRank(Covariance):
    """The diagonal and `rank` leading directions: O(rank d) memory and work per step.

    **Arguments:**

    - `estimate`: `"contrasts"`, unbiased and free: differences between sums over parts of the batch; or `"exact"`,
      the paper's formula from one gradient per row.
    - `averaging`: floor of the weight of a new batch, kappa_t = max(1/t, floor); 0 is the paper's plain average. A
      function of t = 1, 2, ... gives any other schedule. In float32 no weight but 0 is below 2^-17.
    - `contrasts`: number of contrasts per batch. One is free, from the two halves of the batch; of several, each
      costs one more backward pass.
    - `rank`: number of directions. They are the leading eigenvectors of the running average, tracked by merging
      `rank` contrasts at a time into a truncated eigendecomposition; what they leave out goes to the diagonal, so
      that the diagonal of C is preserved. Memory is 2 rank d numbers, and as much again during a step. Take one to
      two times the effective rank tr(C)^2 / tr(C^2) of the noise.
    """

    rank: int = count_field(default=16)
    estimate: Estimate = eqx.field(default="contrasts", static=True)
    averaging: Averaging = averaging_field()
    contrasts: int = count_field(default=1)

    has_root = True
    controls_all = False
    tolerates_large_steps = True

    def __check_init__(self) -> None:
        check_count("rank", self.rank, minimum=1, below=2**31)

    def seed(self, num_parameters: int) -> tuple[int, int]:
        if self.estimate == "exact":
            return 0, 0
        return _SEED_BATCHES, max(self.rank, self.contrasts)

    def init(self, position: PyTree) -> Average:
        wide = lambda x: jnp.promote_types(x.dtype, jnp.float32)
        # Separate arrays, so that a compiled program can reuse the memory of each.
        zeros = lambda *shape: jax.tree.map(lambda x: jnp.zeros((*shape, *x.shape), wide(x)), position)
        dtype = jnp.result_type(*(wide(x) for x in jax.tree.leaves(position)))
        values = lambda: jnp.zeros(self.rank, dtype)
        operator = LowRankOperator(zeros(), zeros(self.rank), values(), values())
        pending = Pending(zeros(), zeros(), values(), zeros(self.rank), values(), jnp.ones((), dtype))
        return Average(jnp.zeros((), jnp.int32), operator, pending)

    def update(self, average: Average, estimate: GradientEstimate) -> Average:
        t, old, pending = average.count + 1, average.operator, average.pending
        z = jax.tree.map(lambda r, x: x.astype(r.dtype), old.rest, estimate.contrasts)
        whole, count = DiagonalOperator(pending.diagonal), jax.tree.leaves(z)[0].shape[0]
        kappa = self.kappa(t, narrowest(whole)).astype(old.values.dtype)
        diagonal = blend(whole, z, kappa).values
        kept, share = (1 - kappa) * pending.kept, jnp.full((count,), kappa)
        leading = Leading(old.basis, pending.values, old.values, old.inside, pending.covered)
        if count >= self.rank:
            rows, weights = pending.rows, pending.weights
            leading, kept = _merged(leading, kept, z, share, diagonal), jnp.ones_like(kept)
        else:
            # Fill the buffer; when it is full, merge and empty it. In a large model every sixteenth batch is used.
            every = 1 if self.rank * tree.size(old.rest) <= _SMALL else EVERY
            slots = self.rank // count
            start = ((t - 1) // every % slots) * count
            fill = lambda buffer, x: jax.lax.dynamic_update_slice_in_dim(buffer, x, start, axis=0)
            rows, weights = jax.tree.map(fill, pending.rows, z), fill((1 - kappa) * pending.weights, share)
            due = t % (every * slots) == 0

            def merge(carry: tuple[Leading, PyTree, Array]) -> tuple[Leading, PyTree, Array]:
                leading, rows, due = carry
                # If the loop returned the rows unchanged, their products would be computed in every step.
                return _merged(leading, kept, rows, weights, diagonal), tree.zeros_like(rows), ~due

            # A loop of at most one iteration: under `vmap` a `cond` would merge in every step.
            leading, rows, _ = jax.lax.while_loop(lambda carry: carry[2], merge, (leading, rows, due))
            kept, weights = jnp.where(due, 1, kept), jnp.where(due, 0, weights)
        rest = _positive(tree.subtract(diagonal, leading.covered))
        operator = LowRankOperator(rest, leading.basis, leading.added, leading.inside)
        return Average(t, operator, Pending(diagonal, leading.covered, leading.values, rows, weights, kept))

    def operator(self, average: Average, estimate: GradientEstimate) -> Operator:
        del estimate
        return average.operator


class Leading(eqx.Module):
    """Orthonormal directions and their eigenvalues.

    The diagonal already holds the part `inside` of each eigenvalue, and the direction adds the part `added`.
    `covered` is the diagonal of what the directions add.
    """

    basis: PyTree[Array]
    values: Float[Array, " rank"]
    added: Float[Array, " rank"]
    inside: Float[Array, " rank"]
    covered: PyTree[Array]


def _merged(
    old: Leading,
    kept: Float[Array, ""],
    rows: PyTree[Array],
    weights: Float[Array, " k"],
    diagonal: PyTree[Array],
) -> Leading:
    """Return the leading directions of kept (old) + (1 - kept) (weighted mean of z z' over the rows)."""
    rank = old.values.shape[0]
    weights = (1 - kept) * weights / jnp.maximum(jnp.sum(weights), jnp.finfo(weights.dtype).tiny)
    scales = jnp.sqrt(jnp.concatenate([kept * old.values, weights]))
    # Products by block: one of all rows joined is several times slower on a CPU.
    cross = tree.grams(old.basis, rows)
    gram = jnp.block([[tree.grams(old.basis, old.basis), cross], [cross.T, tree.grams(rows, rows)]])
    values, vectors = jnp.linalg.eigh(scales[:, None] * gram * scales[None, :])
    values, vectors = values[::-1][:rank], vectors[:, ::-1][:, :rank]
    # Directions that are not filled yet have length zero instead of pointing at random.
    filled = values > 1e-6 * values[0]
    inverse = jnp.where(filled, jax.lax.rsqrt(jnp.where(filled, values, 1)), 0)
    mix = inverse[:, None] * vectors.T * scales[None, :]
    basis = jax.tree.map(jnp.add, tree.combine(mix[:, :rank], old.basis), tree.combine(mix[:, rank:], rows))
    # Along b_j the diagonal already holds a part of the eigenvalue; the direction adds the rest.
    values, squares = jnp.where(filled, values, 0), jax.tree.map(jnp.square, basis)
    added = values
    for _ in range(_ROUNDS):
        covered = tree.combine(added, squares)
        added = jnp.maximum(values - tree.products(squares, _positive(tree.subtract(diagonal, covered))), 0)
    covered = tree.combine(added, squares)
    inside = tree.products(squares, _positive(tree.subtract(diagonal, covered)))
    return Leading(basis, values, added, inside, covered)


def _positive(x: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.maximum(leaf, 0), x)
