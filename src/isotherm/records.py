"""The records that cross the arrows: `Batch -> GradientEstimate -> State, Info`.

Each is a pytree, so every part of a step can be jitted, vmapped and saved as plain arrays.
"""

import enum
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int, PyTree


class Needs(enum.Enum):
    """What a sampler asks of the gradient besides the force."""

    NOTHING = "nothing"
    EXACT = "exact"


class Status(enum.IntEnum):
    """Why a chain stopped moving; the driver turns it into a sentence."""

    RUNNING = 0
    NON_FINITE = 1


class Batch(eqx.Module):
    """Rows that one chain sees in one step, and what their plan knows about them.

    `noise_factor` f makes (N^2/n) f V the covariance of the noisy gradient, V being the Bessel-corrected
    covariance of the per-row gradients in the batch: 1 with replacement, 1 - n/N without.
    """

    rows: PyTree[Array]
    index: Int[Array, " n"]
    num_data: int = eqx.field(static=True)
    noise_factor: float = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Rows in the batch, n."""
        return self.index.shape[0]


class GradientEstimate(eqx.Module):
    """A noisy force and what is known of its noise.

    `contrasts` has a leading axis k and is scaled so that the mean over it of z z' estimates C, the
    covariance of `force`, without bias. The prior adds to `force` but not to the contrasts.
    """

    force: PyTree[Array]
    contrasts: PyTree[Array] | None
    log_density: Float[Array, ""]


class State(eqx.Module):
    """What the next step needs: no key, no data cursor. `None` stands for a part that the sampler does not have."""

    position: PyTree[Array]
    momentum: Any
    xi: Any
    covariance: Any
    step: Int[Array, ""]


class Info(eqx.Module):
    """What a reader of the step wants to know; entries nobody reads are not computed under `jit`.

    `virial` is theta.grad U / N_d where the gradient was taken; `s` is the largest eigenvalue of
    S = h^2 beta C M^-1, the number that decides stability; `clipped` counts the directions in which the
    added noise would have needed a negative variance.
    """

    kinetic_temperature: Float[Array, ""] | None
    virial: Float[Array, ""]
    xi: Float[Array, ""] | None
    s: Float[Array, ""] | None
    clipped: Int[Array, ""] | None
    status: Int[Array, ""]
