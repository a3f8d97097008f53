"""C of the current batch applied to a vector: full covariance control in any dimension, without a matrix."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm.covariance import diagonal
from isotherm.covariance.base import Average, Averaging, Covariance, Operator, averaging_field
from isotherm.covariance.diagonal import DiagonalOperator
from isotherm.records import GradientEstimate, LinearOperator, Needs


class MatrixFreeOperator(Operator):
    """C of one batch, with the inverse of the running diagonal.

    An inverse with C of the same batch would correlate with the force and shift the mean.
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
    r"""C of the current batch, applied by one forward and one backward pass: $Cx = G_c^T(G_cx)/(n-1)$.

    There is no averaging and no matrix. All directions are controlled, at the cost of about one more gradient. The
    fluctuations of a single batch add the relative heat kappa_4 tr(S)/(4n). A running diagonal is kept as well, for
    the inverse in the symmetric scheme.

    **Arguments:**

    - `averaging`: how the diagonal is averaged. A number is a floor, kappa_t = max(1/t, floor), and 0 the
      plain average; a function of t = 1, 2, ... gives any other schedule. In float32 no weight but 0 is below
      2^-17.
    """

    averaging: Averaging = averaging_field()

    estimate = "contrasts"
    contrasts = 1
    has_root = False
    controls_all = False
    tolerates_large_steps = False

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
        kappa = self.kappa(t, diagonal.narrowest(average.operator))
        return Average(t, diagonal.blend(average.operator, estimate.contrasts, kappa))

    def operator(self, average: Average, estimate: GradientEstimate) -> Operator:
        if estimate.operator is None:
            raise ValueError(
                "`operator` of the gradient's estimate must be given for `MatrixFree`; got None. "
                "Return one whose `mv` applies C, or use `iso.DiagonalLowRank(rank)`."
            )
        # One batch has little weight in the average of all, so the inverse is almost independent of the force.
        return MatrixFreeOperator(estimate.operator, average.operator)
