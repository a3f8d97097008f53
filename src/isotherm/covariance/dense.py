"""The full matrix C."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm import tree
from isotherm.covariance.base import Average, Averaging, Covariance, Estimate, Form, Operator, averaging_field
from isotherm.covariance.factors import Factors, eigenvectors
from isotherm.hyper import count_field
from isotherm.records import GradientEstimate

_SEED_BLOCK = 64  # contrasts per batch while seeding


class DenseOperator(Operator):
    """C as a d x d matrix over the ravelled parameters."""

    matrix: Float[Array, "d d"]

    inverts = True

    def mv(self, x: PyTree) -> PyTree:
        return tree.unravel_like(_matmul(self.matrix, tree.ravel(x)), x)

    def solve_shifted(self, c: Float[Array, ""], x: PyTree) -> PyTree:
        shifted = (
            jnp.eye(self.matrix.shape[0], dtype=self.matrix.dtype) + c.astype(self.matrix.dtype) * self.matrix
        )
        factor = jax.scipy.linalg.cho_factor(shifted, lower=True)
        return tree.unravel_like(jax.scipy.linalg.cho_solve(factor, tree.ravel(x)), x)

    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree) -> tuple[PyTree, Int[Array, ""]]:
        return eigenvectors(self.matrix).sqrt_remainder(c, x)


class Dense(Covariance):
    """The full matrix: O(d^2) memory and work per step.

    Samplers that apply an inverse or a root of C take that of an earlier average, and renew it when a tenth of the
    present average is newer.

    **Arguments:**

    - `estimate`: `"contrasts"`, unbiased and free: differences between sums over parts of the batch; or `"exact"`,
      the paper's formula from one gradient per row.
    - `averaging`: floor of the weight of a new batch, kappa_t = max(1/t, floor); 0 is the paper's plain average. A
      function of t = 1, 2, ... gives any other schedule. In float32 no weight but 0 is below 2^-17.
    - `contrasts`: number of contrasts per batch. One is free, from the two halves of the batch; of several, each
      costs one more backward pass.
    """

    estimate: Estimate = eqx.field(default="contrasts", static=True)
    averaging: Averaging = averaging_field()
    contrasts: int = count_field(default=1)

    has_root = True
    controls_all = True
    tolerates_large_steps = True

    def seed(self, num_parameters: int) -> tuple[int, int]:
        # The average of a few contrasts spans few directions, each with far too large an eigenvalue. With four
        # times as many contrasts as parameters, no eigenvalue is more than about (1 + 1/2)^2 times too large.
        if self.estimate == "exact":
            return 0, 0
        return -(-4 * num_parameters // _SEED_BLOCK), _SEED_BLOCK

    def init(self, position: PyTree) -> Average:
        dtype = jnp.promote_types(jnp.result_type(*jax.tree.leaves(position)), jnp.float32)
        return Average(jnp.zeros((), jnp.int32), DenseOperator(jnp.zeros((tree.size(position),) * 2, dtype)))

    def update(self, average: Average, estimate: GradientEstimate) -> Average:
        t, old = average.count + 1, average.operator.matrix
        kappa = self.kappa(t, old.dtype)
        z = jax.vmap(tree.ravel)(estimate.contrasts).astype(old.dtype)
        # One contrast is an outer product, which the compiler fuses with the average.
        new = z[0][:, None] * z[0][None, :] if z.shape[0] == 1 else _matmul(z.T, z) / z.shape[0]
        factors = None if average.factors is None else average.factors.older(kappa)
        return Average(t, DenseOperator((1 - kappa) * old + kappa * new), factors=factors)

    def factored(self, average: Average, form: Form) -> Average:
        factors = Factors.of_zero(average.operator.matrix, form)
        return Average(average.count, average.operator, factors=factors)

    def refreshed(self, average: Average, c: Float[Array, ""]) -> Average:
        if average.factors is None:
            return average
        factors = average.factors.refreshed(average.operator.matrix, c)
        return Average(average.count, average.operator, factors=factors)

    def operator(self, average: Average, estimate: GradientEstimate) -> Operator:
        del estimate
        return average.operator if average.factors is None else average.factors.operator


def _matmul(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")  # a GPU may round to fewer bits by default
