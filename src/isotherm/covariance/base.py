"""Base classes of estimates of C: the average along the chain, and the operator that samplers apply.

Masses do not occur here. Samplers pass the noise of M^-1/2 times the force, so C stands for M^-1/2 C M^-1/2 and S
for h^2 beta C.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PyTree

from isotherm.errors import check_choice, check_count, describe, is_traced
from isotherm.hyper import scheduled
from isotherm.numeric import real_scalar
from isotherm.readable import Readable
from isotherm.records import GradientEstimate, Needs


class Operator(Readable, eqx.Module):
    """A symmetric positive semidefinite matrix C over the parameters, as a linear operator."""

    inverts: ClassVar[bool] = False
    """Whether `solve_shifted` is exactly the inverse of I + c times what `mv` applies."""

    @abc.abstractmethod
    def mv(self, x: PyTree) -> PyTree:
        """Return C x."""

    @abc.abstractmethod
    def solve_shifted(self, c: Float[Array, ""], x: PyTree) -> PyTree:
        """Return (I + c C)^-1 x."""

    @abc.abstractmethod
    def sqrt_remainder(self, c: Float[Array, ""], x: PyTree) -> tuple[PyTree, Int[Array, ""]]:
        """Return (I - c C)^1/2 x, and the number of negative eigenvalues that were clipped to 0."""


class Average(Readable, eqx.Module):
    """The running average of C after `count` batches.

    `pending` holds what is yet to be added in bulk, `factors` an earlier average in a form whose inverse and root are
    cheap; `None` if the sampler or the kind of covariance needs neither.
    """

    count: Int[Array, ""]
    operator: Any  # the `Operator` of this kind of covariance
    pending: PyTree = None
    factors: Any = None


SMALLEST_WEIGHT = 2.0**-17
"""The smallest weight of a batch in a float32 average.

With a smaller one, C + kappa (z z' - C) rounds most batches away and the average drifts: with kappa = 1/t it is 5 %
too large at t = 2e7 and 48 % at 1e8. With 2^-17 the rounding of a step averages out, 1 - kappa is exact, and the
average holds the last 2.6e5 batches: a variance is right to 0.3 % and a dense matrix as good as needed (1/kappa at
least 100 d) up to d = 1,300.
"""

Averaging = float | Callable[[Int[Array, ""]], Array]
Estimate = Literal["contrasts", "exact"]
Form = Literal["inverse", "root"]  # which function of C a step applies


def averaging_field() -> Any:
    """A field for a floor, which becomes a number of Python unless it is an array of JAX, or for a schedule."""
    return eqx.field(default=0.0, converter=_as_floor)


def _as_floor(value: Any) -> Any:
    if callable(value) or isinstance(value, float | jax.Array):
        return value
    number = real_scalar(value)
    return value if number is None else float(number)


class Covariance(Readable, eqx.Module):
    r"""How C is estimated along the chain.

    $$\hat C_t = (1 - \kappa_t)\,\hat C_{t-1} + \kappa_t\, C(\theta_t), \qquad \kappa_t = 1/t .$$

    **Arguments:**

    - `estimate`: `"contrasts"`, unbiased and free: differences between sums over parts of the batch; `"exact"`,
      the paper's formula from one gradient per row.
    - `averaging`: a number is a floor, kappa_t = max(1/t, floor), and 0 the paper's plain average; a function
      of t = 1, 2, ... gives any other schedule. kappa_1 is always 1, so no initial value is needed. The
      count restarts when burn-in ends. A seed of contrasts, taken before the first step, counts as the batches
      that would have given them. In float32 no weight but 0 is below 2^-17 (see `SMALLEST_WEIGHT`).
    - `contrasts`: number of contrasts per batch. One is free, from the two halves of the batch; of several, each
      costs one more backward pass.
    """

    estimate: eqx.AbstractVar[Estimate]
    averaging: eqx.AbstractVar[Averaging]
    contrasts: eqx.AbstractVar[int]

    has_root: eqx.AbstractClassVar[bool]
    """Whether `sqrt_remainder` works, which SGHMC and ModifiedSGLD need."""
    controls_all: eqx.AbstractClassVar[bool]
    """Whether the average converges to all of C, so that no noise goes uncontrolled."""
    tolerates_large_steps: eqx.AbstractClassVar[bool]
    """Whether `solve_shifted` is accurate enough for the symmetric scheme at s above 0.5."""

    def __check_init__(self) -> None:
        name = type(self).__name__
        check_choice(f"estimate` of `{name}", self.estimate, ("contrasts", "exact"))
        check_averaging(self)
        check_count("contrasts", self.contrasts, minimum=1, below=2**31)

    @property
    def needs(self) -> Needs:
        """What the gradient must provide in every step."""
        return Needs.EXACT if self.estimate == "exact" else Needs(contrasts=self.contrasts)

    @abc.abstractmethod
    def seed(self, num_parameters: int) -> tuple[int, int]:
        """Return how many batches, and contrasts of each, to average before the first step so that it is safe."""

    @abc.abstractmethod
    def init(self, position: PyTree) -> Average:
        """Return an empty average."""

    @abc.abstractmethod
    def update(self, average: Average, estimate: GradientEstimate) -> Average:
        """Return the average with the noise of one more batch."""

    def factored(self, average: Average, form: Form) -> Average:
        """Return an empty average that also keeps factors, for a sampler that applies the inverse or the root of C.

        The same average if the operator of this kind needs none.
        """
        del form
        return average

    def refreshed(self, average: Average, c: Float[Array, ""]) -> Average:
        """Return the average with new factors if they are due; c is that of `solve_shifted` or `sqrt_remainder`."""
        del c
        return average

    @abc.abstractmethod
    def operator(self, average: Average, estimate: GradientEstimate) -> Operator:
        """Return C as the step uses it."""

    def kappa(self, t: Int[Array, ""], dtype: DTypeLike = jnp.float32) -> Float[Array, ""]:
        """Return the weight of batch t = 1, 2, ... in an average of this dtype."""
        t = jnp.where(
            t < 1, jnp.iinfo(t.dtype).max, t
        )  # a run of almost 2^31 steps and its seed exceed 32 bits
        kappa = self.averaging(t) if callable(self.averaging) else jnp.maximum(1 / t, self.averaging)
        if jnp.finfo(dtype).bits <= 32:
            # A schedule may also stop the average with a weight of 0.
            kappa = jnp.where(kappa > 0, jnp.maximum(kappa, SMALLEST_WEIGHT), 0)
        return jnp.where(t == 1, 1.0, kappa).astype(dtype)


def check_averaging(covariance: Covariance) -> None:
    """Raise unless the weight of a batch is between 0 and 1, as far as one can tell before a run."""
    value, label = covariance.averaging, f"averaging` of `{type(covariance).__name__}"
    if is_traced(value):
        return
    # kappa_1 is 1 whatever a schedule says, so that its first value may be anything.
    weight, where = (scheduled(value, label, 2), " at t = 2") if callable(value) else (value, "")
    if is_traced(weight):
        return
    number = real_scalar(weight)
    if number is None or not 0 <= float(number) <= 1:
        rule = "a floor between 0 and 1 or a function of t"
        kind = TypeError if number is None else ValueError
        raise kind(f"`{label}` must be {rule}; got {describe(weight)}{where}.")
