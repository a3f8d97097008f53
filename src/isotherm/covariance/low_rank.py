"""A diagonal plus leading directions, from a streaming sketch: O(rank d) memory, for networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm import tree
from isotherm.covariance.base import Average, Averaging, Covariance, Estimate, Operator, power_iteration
from isotherm.errors import check_count
from isotherm.records import GradientEstimate

_SEED_BATCHES = 8
_ROUNDS = 4  # of a fixed point that halves its error in each
_SMALL = 2**20  # numbers in the basis, up to which every batch is used for the leading directions


class LowRankOperator(Operator):
    """C = diag(rest) + sum_j values_j b_j b_j', with orthonormal b_j.

    Functions of C are composed from those of its two parts as if `rest` were, along b_j, its mean there, `inside`_j:
    exact where it is constant, and else to first order in its variation.
    """

    rest: Float[Array, " d"]
    basis: Float[Array, "rank d"]
    values: Float[Array, " rank"]
    inside: Float[Array, " rank"]

    def mv(self, x: PyTree) -> PyTree:
        v = self._flat(x)
        return tree.unravel_like(self.rest * v + self._along(self.values, v), x)

    def solve_shifted(self, c: Float[Array, ""], x: PyTree) -> PyTree:
        c = c.astype(self.rest.dtype)
        root = jax.lax.rsqrt(1 + c * self.rest)
        scaled = c * self.values / (1 + c * self.inside)
        v = root * self._flat(x)
        return tree.unravel_like(root * (v - self._along(scaled / (1 + scaled), v)), x)

    def trace(self) -> Float[Array, ""]:
        return jnp.sum(self.rest) + jnp.sum(self.values)

    def lambda_max(self) -> Float[Array, ""]:
        along = jnp.ones_like(self.values) @ self.basis
        noise = jax.random.normal(jax.random.key(0), self.rest.shape, self.rest.dtype)
        start = along + noise * jnp.sqrt(self.rest / jnp.maximum(jnp.sum(self.rest), 1e-30))
        return power_iteration(lambda v: self.rest * v + self._along(self.values, v), start)

    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree) -> tuple[PyTree, Int[Array, ""]]:
        c = c.astype(self.rest.dtype)
        left = 1 - c * self.rest
        scaled = c * self.values / jnp.maximum(1 - c * self.inside, 1e-6)
        clipped = jnp.sum(left < 0, dtype=jnp.int32) + jnp.sum(scaled > 1, dtype=jnp.int32)
        v = self._flat(x)
        y = v + self._along(jnp.sqrt(jnp.maximum(1 - scaled, 0)) - 1, v)
        return tree.unravel_like(jnp.sqrt(jnp.maximum(left, 0)) * y, x), clipped

    def _along(self, weights: Float[Array, " rank"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        return (weights * (self.basis @ v)) @ self.basis

    def _flat(self, x: PyTree) -> Float[Array, " d"]:
        return tree.ravel(x).astype(self.rest.dtype)


class Pending(eqx.Module):
    """Contrasts that wait to be added to the leading directions, each with its weight in the average by now.

    `diagonal` is that of the whole average, `covered` what the leading directions have of it, `values` their
    eigenvalues, and `kept` the weight that is left of them.
    """

    diagonal: Float[Array, " d"]
    covered: Float[Array, " d"]
    values: Float[Array, " rank"]
    rows: Float[Array, "rank d"]
    weights: Float[Array, " rank"]
    kept: Float[Array, ""]


class DiagonalLowRank(Covariance):
    __doc__ = f"""The diagonal and `rank` leading directions. {Covariance.__doc__}
    - `rank`: how many directions. They are the leading eigenvectors of the running average, tracked by merging
      `rank` contrasts at a time into a truncated eigendecomposition; what they leave goes to the diagonal, so that
      the diagonal of C is kept whole. Memory is 2 rank d numbers, and as much again within a step. Take one to two
      times the effective rank tr(C)^2 / tr(C^2) of the noise.
    """

    rank: int = eqx.field(default=16, static=True)
    estimate: Estimate = eqx.field(default="contrasts", static=True)
    averaging: Averaging = 0.0
    contrasts: int = eqx.field(default=1, static=True)

    has_root = True

    def __check_init__(self) -> None:
        check_count("rank", self.rank, minimum=1)

    def seed(self, num_parameters: int) -> tuple[int, int]:
        if self.estimate == "exact":
            return 0, 0
        return _SEED_BATCHES, max(self.rank, self.contrasts)

    def init(self, position: PyTree) -> Average:
        size = tree.size(position)
        dtype = jnp.promote_types(jnp.result_type(*jax.tree.leaves(position)), jnp.float32)
        zeros = lambda *shape: jnp.zeros(shape, dtype)
        operator = LowRankOperator(zeros(size), zeros(self.rank, size), zeros(self.rank), zeros(self.rank))
        one = jnp.ones((), dtype)
        rank = self.rank
        pending = Pending(zeros(size), zeros(size), zeros(rank), zeros(rank, size), zeros(rank), one)
        return Average(jnp.zeros((), jnp.int32), operator, pending)

    def update(self, average: Average, estimate: GradientEstimate) -> Average:
        t, old, waiting = average.count + 1, average.operator, average.pending
        z = jax.vmap(tree.ravel)(estimate.contrasts).astype(old.rest.dtype)
        kappa, count = self.kappa(t).astype(z.dtype), z.shape[0]
        diagonal = (1 - kappa) * waiting.diagonal + kappa * jnp.mean(z * z, axis=0)
        kept, share = (1 - kappa) * waiting.kept, jnp.full((count,), kappa)
        leading = Leading(old.basis, waiting.values, old.values, old.inside, waiting.covered)
        if count >= self.rank:
            rows, weights = waiting.rows, waiting.weights
            leading, kept = _merged(leading, kept, z, share, diagonal), jnp.ones_like(kept)
        else:
            # Fill the buffer; when it is full, merge it and empty it. Of a large model every eighth batch goes in.
            every = 1 if old.basis.size <= _SMALL else 8
            slots = self.rank // count
            start = ((t - 1) // every % slots) * count
            fill = lambda buffer, x: jax.lax.dynamic_update_slice_in_dim(buffer, x, start, axis=0)
            rows, weights = fill(waiting.rows, z), fill((1 - kappa) * waiting.weights, share)
            due = t % (every * slots) == 0

            def merge(carry: tuple[Leading, Array, Array]) -> tuple[Leading, Array, Array]:
                leading, rows, due = carry
                # Rows that left the loop as they came would have their products computed in every step.
                return _merged(leading, kept, rows, weights, diagonal), jnp.zeros_like(rows), ~due

            # A loop of at most one round: under `vmap` a `cond` would merge in every step.
            leading, rows, _ = jax.lax.while_loop(lambda carry: carry[2], merge, (leading, rows, due))
            kept, weights = jnp.where(due, 1, kept), jnp.where(due, 0, weights)
        rest = jnp.maximum(diagonal - leading.covered, 0)
        operator = LowRankOperator(rest, leading.basis, leading.added, leading.inside)
        return Average(t, operator, Pending(diagonal, leading.covered, leading.values, rows, weights, kept))

    def operator(self, average: Average, estimate: GradientEstimate) -> Operator:
        del estimate
        return average.operator


class Leading(eqx.Module):
    """Orthonormal directions and their eigenvalues, of which `added` goes beyond the diagonal and `inside` is in it.

    `covered` is the diagonal of what they add.
    """

    basis: Float[Array, "rank d"]
    values: Float[Array, " rank"]
    added: Float[Array, " rank"]
    inside: Float[Array, " rank"]
    covered: Float[Array, " d"]


def _merged(
    old: Leading,
    kept: Float[Array, ""],
    rows: Float[Array, "k d"],
    weights: Float[Array, " k"],
    diagonal: Float[Array, " d"],
) -> Leading:
    """The leading directions of kept (old) + (1 - kept) (weighted mean of z z' over the rows)."""
    rank = old.values.shape[0]
    weights = (1 - kept) * weights / jnp.maximum(jnp.sum(weights), jnp.finfo(weights.dtype).tiny)
    scales = jnp.sqrt(jnp.concatenate([kept * old.values, weights]))
    # Products by block: one of all rows joined is several times slower on a CPU.
    cross = old.basis @ rows.T
    gram = jnp.block([[old.basis @ old.basis.T, cross], [cross.T, rows @ rows.T]])
    values, vectors = jnp.linalg.eigh(scales[:, None] * gram * scales[None, :])
    values, vectors = values[::-1][:rank], vectors[:, ::-1][:, :rank]
    # Directions that are not there yet have length zero rather than a random one.
    there = values > 1e-6 * values[0]
    inverse = jnp.where(there, jax.lax.rsqrt(jnp.where(there, values, 1)), 0)
    mix = inverse[:, None] * vectors.T * scales[None, :]
    basis, values = mix[:, :rank] @ old.basis + mix[:, rank:] @ rows, jnp.where(there, values, 0)
    # Along b_j the diagonal has a part of the eigenvalue already: what the direction adds is the rest of it.
    squares, added = jnp.square(basis), values
    for _ in range(_ROUNDS):
        inside = squares @ jnp.maximum(diagonal - added @ squares, 0)
        added = jnp.maximum(values - inside, 0)
    covered = added @ squares
    return Leading(basis, values, added, squares @ jnp.maximum(diagonal - covered, 0), covered)
