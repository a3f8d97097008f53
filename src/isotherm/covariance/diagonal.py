"""The variance of each parameter's gradient, without correlations."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm import tree
from isotherm.covariance.base import Average, Averaging, Covariance, Estimate, Operator, averaging_field
from isotherm.hyper import count_field
from isotherm.records import GradientEstimate


class DiagonalOperator(Operator):
    """C = diag(values)."""

    values: PyTree[Array]

    inverts = True

    def mv(self, x: PyTree) -> PyTree:
        return tree.multiply(self.values, x)

    def solve_shifted(self, c: Float[Array, ""], x: PyTree) -> PyTree:
        return jax.tree.map(lambda v, y: y / (1 + c.astype(v.dtype) * v), self.values, x)

    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree) -> tuple[PyTree, Int[Array, ""]]:
        scaled = tree.multiply(c, self.values)
        clipped = jnp.sum(tree.ravel(scaled) > 1, dtype=jnp.int32)
        return jax.tree.map(lambda v, r: jnp.sqrt(jnp.maximum(1 - v, 0)) * r, scaled, x), clipped


class Diagonal(Covariance):
    """The variance of each parameter's gradient alone: O(d) memory and work per step.

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
    controls_all = False
    tolerates_large_steps = True

    def seed(self, num_parameters: int) -> tuple[int, int]:
        del num_parameters
        return (0, 0) if self.estimate == "exact" else (SEED, 1)

    def init(self, position: PyTree) -> Average:
        return Average(jnp.zeros((), jnp.int32), zero(position))

    def update(self, average: Average, estimate: GradientEstimate) -> Average:
        t = average.count + 1
        kappa = self.kappa(t, narrowest(average.operator))
        return Average(t, blend(average.operator, estimate.contrasts, kappa))

    def operator(self, average: Average, estimate: GradientEstimate) -> Operator:
        del estimate
        return average.operator


SEED = 16  # half-batch contrasts, which give a variance to within a factor of two


def zero(position: PyTree) -> DiagonalOperator:
    """Return C = 0, in 32 bits or more."""
    wide = lambda x: jnp.zeros(x.shape, jnp.promote_types(x.dtype, jnp.float32))
    return DiagonalOperator(jax.tree.map(wide, position))


def narrowest(operator: DiagonalOperator) -> jnp.dtype:
    """Return the dtype with the fewest digits among the leaves."""
    dtypes = (x.dtype for x in jax.tree.leaves(operator.values))
    return min(dtypes, key=lambda dtype: jnp.finfo(dtype).bits, default=jnp.dtype(jnp.float32))


def blend(old: DiagonalOperator, contrasts: PyTree, kappa: Float[Array, ""]) -> DiagonalOperator:
    """Return (1 - kappa) old + kappa (mean of z * z over the contrasts)."""

    def one(v: Array, z: Array) -> Array:
        z, k = z.astype(v.dtype), kappa.astype(v.dtype)
        return (1 - k) * v + k * jnp.mean(z * z, axis=0)

    return DiagonalOperator(jax.tree.map(one, old.values, contrasts))
