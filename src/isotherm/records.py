"""The records passed between the parts of a step: `Batch -> GradientEstimate -> State, Info`.

Each is a pytree, so every part of a step can be jitted, vmapped and saved as plain arrays.
"""

import dataclasses
import enum
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float, Int, PyTree

from isotherm.readable import Readable


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a sampler needs from the gradient besides the force.

    **Arguments:**

    - `contrasts`: how many. 1 is the contrast of the two halves of the batch, which costs nothing; `"exact"` is one
      for each row.
    - `operator`: whether C of this batch is needed as an operator.
    """

    contrasts: int | Literal["exact"] = 0
    operator: bool = False

    NOTHING: ClassVar["Needs"]
    EXACT: ClassVar["Needs"]


Needs.NOTHING = Needs()
Needs.EXACT = Needs(contrasts="exact")


class Status(enum.IntEnum):
    """Whether a chain is running or why it stopped: `RUNNING`, `NON_FINITE`. The driver turns it into a sentence."""

    RUNNING = 0
    NON_FINITE = 1


class Batch(Readable, eqx.Module):
    """The rows that one chain sees in one step, and what the minibatch plan knows about them.

    `noise_factor` f makes (N^2/n) f V the covariance of the noisy gradient, V being the Bessel-corrected
    covariance of the per-row gradients in the batch: 1 with replacement, 1 - n/N without. `half_factor` is the factor
    for the contrast of the two halves of the batch in place of V; `None` means that it equals `noise_factor`.
    `weights` multiply the log-likelihoods of rows that were drawn with unequal probabilities, and V is then the
    covariance of the weighted gradients. `source` is all rows, if `rows` are those that `index` selects from it; a
    gradient may then read them itself. Only a kernel's step sets it.
    """

    rows: PyTree[Array]
    index: Int[Array, " n"]
    num_data: int = eqx.field(static=True)
    noise_factor: float = eqx.field(static=True)
    half_factor: float | None = eqx.field(static=True, default=None)
    weights: Float[Array, " n"] | None = None
    source: PyTree[Array] | None = None

    @property
    def size(self) -> int:
        """The number of rows in the batch, n."""
        return self.index.shape[0]


@runtime_checkable
class LinearOperator(Protocol):
    """A matrix over the parameters, given by its product with a vector."""

    def mv(self, x: PyTree) -> PyTree:
        """Return the product with `x`, which has the structure of the parameters."""


class GradientEstimate(Readable, eqx.Module):
    """A noisy force and what is known about its noise.

    `contrasts` has a leading axis k and is scaled so that the mean of z z' over that axis is an unbiased estimate of
    C, the covariance of `force`. `operator` applies C of this batch to a vector. The prior contributes to `force`
    only.
    """

    force: PyTree[Array]
    contrasts: PyTree[Array] | None
    log_density: Float[Array, ""]
    operator: LinearOperator | None = None


class State(Readable, eqx.Module):
    """What the next step needs: no key, no data cursor. Parts that the sampler does not have are `None`."""

    position: PyTree[Array]
    momentum: Any
    xi: Any
    covariance: Any
    step: Int[Array, ""]
    extra: Any = None  # whatever else a sampler carries from step to step


class Info(Readable, eqx.Module):
    """Diagnostics of a step. Under `jit`, entries that are not used are not computed.

    `clipped` counts the directions in which the added noise would have needed a negative variance.
    """

    kinetic_temperature: Float[Array, ""] | None
    xi: Float[Array, ""] | None
    clipped: Int[Array, ""] | None
    status: Int[Array, ""]


class Temperatures(Readable, eqx.Module):
    """What temperatures are computed from in a step.

    `position` is the position to pair with the force of the step: their covariance gives the configurational
    temperature. `kinetic` is the kinetic temperature of each leaf, or `None` without a momentum.
    """

    position: PyTree[Array]
    kinetic: Float[Array, " leaves"] | None


@dataclasses.dataclass(frozen=True)
class Noise:
    """The gradient noise at a point, in units of a sampler's step: S = h^2 beta C M^-1.

    `s` is the largest eigenvalue of S, `trace` its trace, and `effective_rank` is tr(S)^2 / tr(S^2).
    """

    s: float
    trace: float
    effective_rank: float
