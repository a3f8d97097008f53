"""A linear change of variables, theta = center + L v: chains move v, in which the posterior is nearly isotropic.

Samplers work with v alone; gradients, minibatches and draws with theta alone; the kernel converts between them. L L'
is about the covariance of the posterior, so that one step size fits all directions.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm import tree
from isotherm.errors import must
from isotherm.numeric import is_real, numeric
from isotherm.posterior import Posterior
from isotherm.readable import Readable
from isotherm.records import GradientEstimate, LinearOperator
from isotherm.sums.precision import exact


def _as_numbers(x: PyTree) -> PyTree:
    """Numbers as arrays that JAX can hold. Everything else is returned unchanged, for a check that names it."""
    try:
        return jax.tree.map(_as_array, x)
    except ValueError:  # a dictionary whose keys cannot be sorted, or the like
        return np.asarray(None)


def _as_array(x: Any) -> Any:
    number = None if isinstance(x, jax.Array | float) else numeric(x)
    if number is None:
        return x
    # A compiled program would cut integers of 64 bits down to 32.
    return number.astype(np.float64) if number.dtype.kind in "iu" else number


class Preconditioner(Readable, eqx.Module):
    """The change of variables theta = center + L v. v has the structure of theta."""

    center: eqx.AbstractVar[PyTree[Array]]

    def __check_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.metadata.get("static"):
                continue
            for leaf in jax.tree.leaves(getattr(self, field.name)):
                number = numeric(leaf)
                if number is None or not is_real(number.dtype):
                    label = f"{field.name}` of `{type(self).__name__}"
                    raise must(label, "numbers in the shapes of the parameters", leaf, error=TypeError)

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
        """theta from v."""
        return jax.tree.map(jnp.add, self.center, self.multiply(v))

    def from_params(self, theta: PyTree) -> PyTree:
        """v from theta."""
        return self.solve(tree.subtract(theta, self.center))

    def pull(self, estimate: GradientEstimate) -> GradientEstimate:
        """The estimate with respect to v, from one with respect to theta."""
        force, contrasts, operator = estimate.force, estimate.contrasts, estimate.operator
        if contrasts is None:
            force = self.multiply_transposed(force)
        else:
            # One matrix product for the force and all contrasts.
            rows = jax.tree.map(lambda f, z: jnp.concatenate([f[None], z]), force, contrasts)
            rows = jax.vmap(self.multiply_transposed)(rows)
            force, contrasts = jax.tree.map(lambda x: x[0], rows), jax.tree.map(lambda x: x[1:], rows)
        operator = None if operator is None else PulledNoise(self, operator)
        return GradientEstimate(force, contrasts, estimate.log_density, operator)


def in_coordinates(posterior: Posterior, preconditioner: Preconditioner) -> Posterior:
    """Return the density of v, for a posterior with density over theta. No Jacobian: it is constant."""
    prior = None if posterior.log_prior is None else AtParams(posterior.log_prior, preconditioner)
    likelihood = AtParams(posterior.log_likelihood, preconditioner)
    return Posterior(likelihood, prior, batched=posterior.batched, temperature=posterior.temperature)


class AtParams(Readable, eqx.Module):
    """A function of theta as a function of v."""

    function: Callable[..., Any]
    preconditioner: Preconditioner

    def __call__(self, v: PyTree, *rest: PyTree) -> Any:
        """The value of the function at theta = center + L v. That of a constant prior may be a number of Python."""
        return self.function(self.preconditioner.to_params(v), *rest)


class PulledNoise(Readable, eqx.Module):
    """L' C L, where C is the noise covariance of one batch."""

    preconditioner: Preconditioner
    operator: LinearOperator

    def mv(self, x: PyTree) -> PyTree:
        """L' C L x."""
        return self.preconditioner.multiply_transposed(self.operator.mv(self.preconditioner.multiply(x)))


class DiagonalPreconditioner(Preconditioner):
    """One scale per parameter.

    **Arguments:**

    - `center`: where v is zero, such as the mode.
    - `scale`: pytree like the parameters, about their posterior standard deviations.
    """

    center: PyTree[Array] = eqx.field(converter=_as_numbers)
    scale: PyTree[Array] = eqx.field(converter=_as_numbers)

    def multiply(self, v: PyTree) -> PyTree:
        return tree.multiply(self.scale, v)

    def multiply_transposed(self, x: PyTree) -> PyTree:
        return tree.multiply(self.scale, x)

    def solve(self, x: PyTree) -> PyTree:
        return tree.divide(x, self.scale)


class DensePreconditioner(Preconditioner):
    """A full matrix over the ravelled parameters: d^2 numbers, for up to about a thousand parameters.

    **Arguments:**

    - `center`: where v is zero, such as the mode.
    - `root`: L, with L L' about the covariance of the posterior. `inverse` is L^-1.
    """

    center: PyTree[Array] = eqx.field(converter=_as_numbers)
    root: Float[Array, "d d"] = eqx.field(converter=_as_numbers)
    inverse: Float[Array, "d d"] = eqx.field(converter=_as_numbers)

    @exact
    def multiply(self, v: PyTree) -> PyTree:
        return tree.unravel_like(self.root @ tree.ravel(v), v)

    @exact
    def multiply_transposed(self, x: PyTree) -> PyTree:
        return tree.unravel_like(self.root.T @ tree.ravel(x), x)

    @exact
    def solve(self, x: PyTree) -> PyTree:
        return tree.unravel_like(self.inverse @ tree.ravel(x), x)


class LowRankPreconditioner(Preconditioner):
    r"""One scale per parameter, and k directions with one factor each: $L = D\,(I + \sum_j (f_j - 1)\,u_ju_j')$.

    For models with too many parameters for a matrix. It takes k d numbers and as many operations.

    **Arguments:**

    - `center`: where v is zero.
    - `scale`: D, pytree like the parameters.
    - `vectors`: u, orthonormal over all leaves together, each leaf with a leading axis k.
    - `factors`: f, positive, such as 1/sqrt(curvature) along u if D makes the curvature 1 in other directions.
    """

    center: PyTree[Array] = eqx.field(converter=_as_numbers)
    scale: PyTree[Array] = eqx.field(converter=_as_numbers)
    vectors: PyTree[Array] = eqx.field(converter=_as_numbers)
    factors: Float[Array, " k"] = eqx.field(converter=_as_numbers)

    def multiply(self, v: PyTree) -> PyTree:
        return tree.multiply(self.scale, self._along(self.factors, v))

    def multiply_transposed(self, x: PyTree) -> PyTree:
        return self._along(self.factors, tree.multiply(self.scale, x))

    def solve(self, x: PyTree) -> PyTree:
        return self._along(1 / self.factors, tree.divide(x, self.scale))

    def _along(self, factors: Float[Array, " k"], v: PyTree) -> PyTree:
        weights = (factors - 1) * tree.products(self.vectors, v)
        return jax.tree.map(jnp.add, v, tree.combine(weights, self.vectors))
