"""C of the current batch applied to a vector: full covariance control in any dimension, without a matrix."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm.covariance import diagonal
from isotherm.covariance.base import Average, Averaging, Covariance, Operator
from isotherm.covariance.diagonal import DiagonalOperator
from isotherm.records import GradientEstimate, LinearOperator, Needs


class MatrixFreeOperator(Operator):
    """C of one batch; the inverse is that of the running diagonal.

    The batch's own C inside the inverse would correlate with the force and shift the mean.
    """

    batch: LinearOperator
    running: DiagonalOperator

    def mv(self, x: PyTree) -> PyTree:
        return self.batch.mv(x)

    def solve_shifted(self, c: Float[Array, ""], x: PyTree) -> PyTree:
        return self.running.solve_shifted(c, x)

    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree) -> tuple[PyTree, Int[Array, ""]]:
        raise ValueError(
            "`MatrixFree` has no square root. Use `iso.DiagonalLowRank(rank)`, or `iso.CCAdL`, which needs none."
        )


class MatrixFree(Covariance):
    r"""C of the current batch, applied by one pass forwards and one backwards: $Cx = G_c^T(G_cx)/(n-1)$.

    No averaging and no matrix: all directions are controlled, at the cost of about one more gradient. The batch's
    own fluctuations add the relative heat kappa_4 tr(S)/(4n). Beside it a running diagonal is kept, for the
    inverse of the symmetric scheme and for what is reported as s.

    **Arguments:**

    - `averaging`: of the diagonal: a number is a floor, kappa_t = max(1/t, floor), and 0 the plain average; a
      function of t = 1, 2, ... gives any other schedule.
    """

    averaging: Averaging = 0.0

    estimate = "contrasts"
    contrasts = 1
    has_root = False
    controls_all = False
    bears_large_steps = False

    @property
    def needs(self) -> Needs:
        return Needs(contrasts=1, operator=True)

    def seed(self, num_parameters: int) -> tuple[int, int]:
        del num_parameters
        return diagonal.SEED, 1

    def init(self, position: PyTree) -> Average:
        return Average(jnp.zeros((), jnp.int32), diagonal.zero(position))

    def update(self, average: Average, estimate: GradientEstimate) -> Average:
        t = average.count + 1
        return Average(t, diagonal.blend(average.operator, estimate.contrasts, self.kappa(t)))

    def operator(self, average: Average, estimate: GradientEstimate) -> Operator:
        if estimate.operator is None:
            raise ValueError(
                "`operator` of the gradient's estimate must be given for `MatrixFree`; got None. "
                "Return one whose `mv` applies C, or use `iso.DiagonalLowRank(rank)`."
            )
        # The average of all batches hardly knows this one, so its inverse is all but independent of the force.
        return MatrixFreeOperator(estimate.operator, average.operator)
