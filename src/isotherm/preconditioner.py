"""A linear change of variables, theta = center + L v: chains move v, in which the posterior is nearly round.

Samplers see v alone, and gradients, minibatches and draws see theta alone; the kernel stands between them. L L' is
about the covariance of the posterior, so that one step size fits all directions.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from isotherm import tree
from isotherm.records import GradientEstimate, LinearOperator


class Preconditioner(eqx.Module):
    """theta = center + L v. v has the structure of theta."""

    center: eqx.AbstractVar[PyTree[Array]]

    @abc.abstractmethod
    def multiply(self, v: PyTree) -> PyTree:
        """L v."""

    @abc.abstractmethod
    def multiply_transposed(self, x: PyTree) -> PyTree:
        """L' x."""

    @abc.abstractmethod
    def solve(self, x: PyTree) -> PyTree:
        """L^-1 x."""

    def to_params(self, v: PyTree) -> PyTree:
        """theta."""
        return jax.tree.map(jnp.add, self.center, self.multiply(v))

    def from_params(self, theta: PyTree) -> PyTree:
        """v."""
        return self.solve(tree.subtract(theta, self.center))

    def pull(self, estimate: GradientEstimate) -> GradientEstimate:
        """Force and noise with respect to v from those with respect to theta."""
        force, contrasts, operator = estimate.force, estimate.contrasts, estimate.operator
        if contrasts is None:
            force = self.multiply_transposed(force)
        else:
            # One product for all of them.
            rows = jax.tree.map(lambda f, z: jnp.concatenate([f[None], z]), force, contrasts)
            rows = jax.vmap(self.multiply_transposed)(rows)
            force, contrasts = jax.tree.map(lambda x: x[0], rows), jax.tree.map(lambda x: x[1:], rows)
        operator = None if operator is None else PulledNoise(self, operator)
        return GradientEstimate(force, contrasts, estimate.log_density, operator)


class PulledNoise(eqx.Module):
    """L' C L for the C of one batch."""

    preconditioner: Preconditioner
    operator: LinearOperator

    def mv(self, x: PyTree) -> PyTree:
        """L' C L x."""
        return self.preconditioner.multiply_transposed(self.operator.mv(self.preconditioner.multiply(x)))


class DiagonalPreconditioner(Preconditioner):
    """One scale a parameter.

    **Arguments:**

    - `center`: where v is zero, such as the mode.
    - `scale`: pytree like the parameters, about their posterior standard deviations.
    """

    center: PyTree[Array]
    scale: PyTree[Array]

    def multiply(self, v: PyTree) -> PyTree:
        return tree.multiply(self.scale, v)

    def multiply_transposed(self, x: PyTree) -> PyTree:
        return tree.multiply(self.scale, x)

    def solve(self, x: PyTree) -> PyTree:
        return tree.divide(x, self.scale)


class DensePreconditioner(Preconditioner):
    """A whole matrix over the ravelled parameters: d^2 numbers, for up to about a thousand parameters.

    **Arguments:**

    - `center`: where v is zero, such as the mode.
    - `root`: L, with L L' about the covariance of the posterior. `inverse` is L^-1.
    """

    center: PyTree[Array]
    root: Float[Array, "d d"]
    inverse: Float[Array, "d d"]

    def multiply(self, v: PyTree) -> PyTree:
        return tree.unravel_like(self.root @ tree.ravel(v), v)

    def multiply_transposed(self, x: PyTree) -> PyTree:
        return tree.unravel_like(self.root.T @ tree.ravel(x), x)

    def solve(self, x: PyTree) -> PyTree:
        return tree.unravel_like(self.inverse @ tree.ravel(x), x)


class LowRankPreconditioner(Preconditioner):
    r"""One scale a parameter, and k directions with a factor each: $L = D\,(I + \sum_j (f_j - 1)\,u_ju_j')$.

    For parameters too many for a matrix: k d numbers, and as many operations.

    **Arguments:**

    - `center`: where v is zero.
    - `scale`: D, pytree like the parameters.
    - `vectors`: u, orthonormal over all leaves together, each leaf with a leading axis k.
    - `factors`: f, positive, such as 1/sqrt(curvature) along u where D has made it 1 elsewhere.
    """

    center: PyTree[Array]
    scale: PyTree[Array]
    vectors: PyTree[Array]
    factors: Float[Array, " k"]

    def multiply(self, v: PyTree) -> PyTree:
        return tree.multiply(self.scale, self._along(self.factors, v))

    def multiply_transposed(self, x: PyTree) -> PyTree:
        return self._along(self.factors, tree.multiply(self.scale, x))

    def solve(self, x: PyTree) -> PyTree:
        return self._along(1 / self.factors, tree.divide(x, self.scale))

    def _along(self, factors: Float[Array, " k"], v: PyTree) -> PyTree:
        weights = (factors - 1) * tree.products(self.vectors, v)
        return jax.tree.map(jnp.add, v, tree.combine(weights, self.vectors))
