"""An earlier average of a dense C, kept in a form whose inverse or root costs a product or two.

A step changes the average by a share kappa_t only, so a form that costs O(d^3) serves many steps. An earlier average
is as good an estimate of C, and more independent of the current batch.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from isotherm import tree
from isotherm.covariance.base import Form, Operator

OLDEST = 0.1  # share of the average that may be newer than its factors
_OTHER_C = 1e-3  # relative change of c for which an inverse still serves: as if C were wrong by as much
_MOST_ROUNDS = 40


class EigenOperator(Operator):
    """C = V diag(values) V', with eigenvectors in the columns of V: any function of C costs two products."""

    vectors: Float[Array, "d d"]
    values: Float[Array, " d"]

    inverts = True

    def mv(self, x: PyTree) -> PyTree:
        return self._times(self.values, x)

    def solve_shifted(self, c: Float[Array, ""], x: PyTree) -> PyTree:
        return self._times(1 / (1 + c.astype(self.values.dtype) * self.values), x)

    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree) -> tuple[PyTree, Int[Array, ""]]:
        remainder = 1 - c.astype(self.values.dtype) * self.values
        # The symmetric root is continuous in C, and the identity where C = 0.
        y = self._times(jnp.sqrt(jnp.maximum(remainder, 0)), x)
        return y, jnp.sum(remainder < 0, dtype=jnp.int32)

    def _times(self, values: Float[Array, " d"], x: PyTree) -> PyTree:
        """Return V diag(values) V'x."""
        product = lambda a, b: jnp.matmul(
            a, b, precision="highest"
        )  # a GPU may round to fewer bits by default
        return tree.unravel_like(product(self.vectors, values * product(self.vectors.T, tree.ravel(x))), x)


class InverseOperator(Operator):
    """(I + c C)^-1 for a single c, as a matrix: a solution costs one product."""

    inverse: Float[Array, "d d"]
    c: Float[Array, ""]

    inverts = True

    def mv(self, x: PyTree) -> PyTree:
        raise ValueError("Only the inverse of I + c C is kept. Apply the average itself.")

    def solve_shifted(self, c: Float[Array, ""], x: PyTree) -> PyTree:
        del c  # that of `refreshed`, which the same step has called with it
        return tree.unravel_like(jnp.matmul(self.inverse, tree.ravel(x), precision="highest"), x)

    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree) -> tuple[PyTree, Int[Array, ""]]:
        raise ValueError("Only the inverse of I + c C is kept. Keep eigenvectors for a root.")


class Factors(eqx.Module):
    """An operator made of an earlier average, and its `age`: the weight of the batches since in the average."""

    operator: EigenOperator | InverseOperator
    age: Float[Array, ""]

    @staticmethod
    def of_zero(like: Float[Array, "d d"], form: Form) -> "Factors":
        """Return the factors of C = 0."""
        identity, zero = jnp.eye(like.shape[0], dtype=like.dtype), jnp.zeros((), like.dtype)
        if form == "root":
            return Factors(EigenOperator(identity, jnp.zeros_like(like[0])), zero)
        return Factors(InverseOperator(identity, zero), zero)

    @property
    def form(self) -> Form:
        """The function of C that these factors are for."""
        return "root" if isinstance(self.operator, EigenOperator) else "inverse"

    def older(self, kappa: Float[Array, ""]) -> "Factors":
        """Return the same factors after a batch of weight kappa."""
        return Factors(self.operator, self.age + kappa)

    def refreshed(self, matrix: Float[Array, "d d"], c: Float[Array, ""]) -> "Factors":
        """Return the factors of `matrix`, for this c, if the present ones are too old or for another c."""
        old, c = self.operator, c.astype(matrix.dtype)
        due = self.age >= OLDEST
        if isinstance(old, InverseOperator):
            due |= jnp.abs(c - old.c) > _OTHER_C * old.c

        def renew(carry: tuple[PyTree, Bool[Array, ""]]) -> tuple[PyTree, Bool[Array, ""]]:
            operator, due = carry
            # The matrix depends on `due`: a compiler may move what does not change in a loop out of it.
            C = jnp.where(due, matrix, 0)
            if isinstance(operator, EigenOperator):
                return eigenvectors(C), ~due
            shifted = jnp.eye(C.shape[0], dtype=C.dtype) + c * C
            return InverseOperator(inverse_near(operator.inverse, shifted), c), ~due

        # A loop of at most one iteration: under `vmap` a `cond` would do this work in every step.
        operator, _ = jax.lax.while_loop(lambda carry: carry[1], renew, (old, due))
        return Factors(operator, jnp.where(due, 0, self.age))


def eigenvectors(matrix: Float[Array, "d d"]) -> EigenOperator:
    """Return a symmetric matrix by its eigenvectors."""
    values, vectors = jnp.linalg.eigh(matrix)
    return EigenOperator(vectors, values)


def inverse_near(guess: Float[Array, "d d"], A: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return the inverse of a symmetric A whose eigenvalues are at least 1, by Newton's iteration from a guess.

    A round, X + X (I - A X), squares the residual and consists of products, which are fast everywhere: LAPACK's
    inverse takes a hundred times as long if its threads wait for each other, and GPUs factor small matrices slowly.
    """
    product = lambda x, y: jnp.matmul(x, y, precision="highest")
    identity = jnp.eye(A.shape[0], dtype=A.dtype)
    # The eigenvalues lie between 1 and the largest row sum, so this start always converges.
    safe = 2 / (1 + jnp.max(jnp.sum(jnp.abs(A), axis=1))) * identity
    residual = identity - product(A, guess)
    near = jnp.linalg.norm(residual) < 0.5
    start = jnp.where(near, guess, safe), jnp.where(near, residual, identity - product(A, safe)), 0

    def improve(carry: tuple[Array, Array, Int[Array, ""]]) -> tuple[Array, Array, Int[Array, ""]]:
        X, R, rounds = carry
        X = X + product(X, R)
        return X, identity - product(A, X), rounds + 1

    close = float(jnp.finfo(A.dtype).eps) ** 0.5  # from which one more round reaches the rounding error
    far = lambda carry: (jnp.linalg.norm(carry[1]) > close) & (carry[2] < _MOST_ROUNDS)
    X, R, _ = jax.lax.while_loop(far, improve, start)
    return X + product(X, R)
