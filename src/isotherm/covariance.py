"""Running estimates of C, the covariance of the noisy force, and the operators that samplers apply."""

import abc
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm import tree
from isotherm.records import GradientEstimate, Needs
from isotherm.tree import Scale


class Operator(eqx.Module):
    """A symmetric positive semidefinite matrix C over the parameters, by what it does."""

    @abc.abstractmethod
    def mv(self, x: PyTree) -> PyTree:
        """C x."""

    @abc.abstractmethod
    def trace(self, mass: Scale) -> Float[Array, ""]:
        """tr(C M^-1)."""

    @abc.abstractmethod
    def lambda_max(self, mass: Scale) -> Float[Array, ""]:
        """The largest eigenvalue of C M^-1."""

    @abc.abstractmethod
    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree, mass: Scale) -> tuple[PyTree, Int[Array, ""]]:
        """(I - c M^-1/2 C M^-1/2)^1/2 x, and the number of negative eigenvalues that were clipped to 0."""


class DiagonalOperator(Operator):
    """C = diag(values)."""

    values: PyTree[Array]

    def mv(self, x: PyTree) -> PyTree:
        return tree.multiply(self.values, x)

    def trace(self, mass: Scale) -> Float[Array, ""]:
        return jnp.sum(tree.ravel(tree.divide(self.values, mass)))

    def lambda_max(self, mass: Scale) -> Float[Array, ""]:
        return jnp.max(tree.ravel(tree.divide(self.values, mass)))

    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree, mass: Scale) -> tuple[PyTree, Int[Array, ""]]:
        scaled = tree.multiply(c, tree.divide(self.values, mass))
        clipped = jnp.sum(tree.ravel(scaled) > 1, dtype=jnp.int32)
        return jax.tree.map(lambda v, r: jnp.sqrt(jnp.maximum(1 - v, 0)) * r, scaled, x), clipped


class DenseOperator(Operator):
    """C as a d x d matrix over the ravelled parameters."""

    matrix: Float[Array, "d d"]

    def mv(self, x: PyTree) -> PyTree:
        return tree.unravel_like(self.matrix @ tree.ravel(x), x)

    def trace(self, mass: Scale) -> Float[Array, ""]:
        return jnp.sum(jnp.diag(self.matrix) / self._mass(mass))

    def lambda_max(self, mass: Scale) -> Float[Array, ""]:
        return jnp.linalg.eigvalsh(self._whitened(mass))[-1]

    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree, mass: Scale) -> tuple[PyTree, Int[Array, ""]]:
        eigenvalues, vectors = jnp.linalg.eigh(self._whitened(mass))
        remainder = 1 - c.astype(eigenvalues.dtype) * eigenvalues
        root = jnp.sqrt(jnp.maximum(remainder, 0))
        # The symmetric root is continuous in C, and the identity where C = 0.
        y = vectors @ (root * (vectors.T @ tree.ravel(x)))
        return tree.unravel_like(y, x), jnp.sum(remainder < 0, dtype=jnp.int32)

    def _mass(self, mass: Scale) -> Float[Array, "..."]:
        if tree.is_scalar(mass):
            return jnp.asarray(mass, self.matrix.dtype)
        return tree.ravel(mass).astype(self.matrix.dtype)

    def _whitened(self, mass: Scale) -> Float[Array, "d d"]:
        root = jnp.broadcast_to(jnp.sqrt(self._mass(mass)), (self.matrix.shape[0],))
        return self.matrix / (root[:, None] * root[None, :])


class Average(eqx.Module):
    """The running average of C after `count` batches."""

    count: Int[Array, ""]
    operator: Operator


Averaging = float | Callable[[Int[Array, ""]], Array]


class Covariance(eqx.Module):
    r"""How C is estimated along the chain.

    $$\hat C_t = (1 - \kappa_t)\,\hat C_{t-1} + \kappa_t\, C(\theta_t), \qquad \kappa_t = 1/t .$$

    **Arguments:**

    - `estimate`: `"exact"`, the paper's formula from one gradient per row.
    - `averaging`: a number is a floor, kappa_t = max(1/t, floor), and 0 the paper's plain average; a function
      of t = 1, 2, ... gives any other schedule. kappa_1 is 1 in every case, so there is no start value. The
      count starts again when burn-in ends.
    """

    estimate: eqx.AbstractVar[Literal["exact"]]
    averaging: eqx.AbstractVar[Averaging]

    @property
    def needs(self) -> Needs:
        """What the gradient must bring."""
        return Needs(self.estimate)

    @abc.abstractmethod
    def zero(self, position: PyTree) -> Operator:
        """C = 0 over the parameters in `position`."""

    @abc.abstractmethod
    def blend(self, old: Any, contrasts: PyTree, kappa: Float[Array, ""]) -> Operator:
        """(1 - kappa) old + kappa (mean of z z' over the contrasts)."""

    def init(self, position: PyTree) -> Average:
        """An empty average."""
        return Average(jnp.zeros((), jnp.int32), self.zero(position))

    def update(self, average: Average, estimate: GradientEstimate) -> Average:
        """The average with the noise of one more batch."""
        t = average.count + 1
        kappa = self.averaging(t) if callable(self.averaging) else jnp.maximum(1 / t, self.averaging)
        kappa = jnp.where(t == 1, 1, kappa)
        return Average(t, self.blend(average.operator, estimate.contrasts, kappa))


def _check(covariance: Covariance) -> None:
    name = type(covariance).__name__
    if covariance.estimate != "exact":
        raise ValueError(f'`estimate` of `{name}` must be "exact"; got {covariance.estimate!r}.')
    floor = covariance.averaging
    if not callable(floor) and not 0 <= floor <= 1:
        raise ValueError(
            f"`averaging` of `{name}` must be a floor between 0 and 1 or a function of t; got {floor!r}."
        )


class Diagonal(Covariance):
    __doc__ = f"""Only the variance of each parameter's gradient: O(d). {Covariance.__doc__}"""

    estimate: Literal["exact"] = eqx.field(default="exact", static=True)
    averaging: Averaging = 0.0

    def __check_init__(self) -> None:
        _check(self)

    def zero(self, position: PyTree) -> DiagonalOperator:
        return DiagonalOperator(tree.zeros_like(position))

    def blend(self, old: DiagonalOperator, contrasts: PyTree, kappa: Float[Array, ""]) -> DiagonalOperator:
        new = jax.tree.map(lambda z: jnp.mean(z * z, axis=0), contrasts)
        return DiagonalOperator(tree.add_scaled(tree.multiply(1 - kappa, old.values), (kappa, new)))


class Dense(Covariance):
    __doc__ = f"""The whole matrix: O(d^2) memory. {Covariance.__doc__}"""

    estimate: Literal["exact"] = eqx.field(default="exact", static=True)
    averaging: Averaging = 0.0

    def __check_init__(self) -> None:
        _check(self)

    def zero(self, position: PyTree) -> DenseOperator:
        dtype = jnp.result_type(*jax.tree.leaves(position))
        return DenseOperator(jnp.zeros((tree.size(position),) * 2, dtype))

    def blend(self, old: DenseOperator, contrasts: PyTree, kappa: Float[Array, ""]) -> DenseOperator:
        z = jax.vmap(tree.ravel)(contrasts)
        kappa = kappa.astype(old.matrix.dtype)
        return DenseOperator((1 - kappa) * old.matrix + kappa * (z.T @ z) / z.shape[0])
