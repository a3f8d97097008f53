"""Coefficients of standardised columns as coefficients in the units of the columns."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Standardized(eqx.Module):
    r"""A transform from coefficients of standardised columns to coefficients in the units of the columns.

    With m and s the mean and scale of the columns, and o and u the origin and unit of the response, intercept a and
    coefficients b become

    $$\beta_j = u b_j / s_j, \qquad \alpha = o + u a - \sum_j \beta_j m_j.$$

    The last axis of a vector holds the intercept, then the coefficients. Origin and unit are arrays where programs
    are to be reused for another response: numbers become part of a compiled program.
    """

    center: Float[Array, " F"]
    scale: Float[Array, " F"]
    origin: float | Float[Array, ""] = 0.0
    unit: float | Float[Array, ""] = 1.0

    def __call__(self, x: Float[Array, "*rows K"]) -> Float[Array, "*rows K"]:
        """Return coefficients per unit of the column."""
        slopes = self.unit * x[..., 1:] / self._broadcast(self.scale, x)
        intercept = self.origin + self.unit * x[..., :1] - self._shift(slopes)
        return jnp.concatenate([intercept, slopes], axis=-1)

    def inv(self, y: Float[Array, "*rows K"]) -> Float[Array, "*rows K"]:
        """Return coefficients per standard deviation of the column."""
        slopes = y[..., 1:]
        intercept = (y[..., :1] + self._shift(slopes) - self.origin) / self.unit
        return jnp.concatenate([intercept, slopes * self._broadcast(self.scale, y) / self.unit], axis=-1)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Return the log of the volume change at each vector, which is a constant."""
        del y
        volume = x.shape[-1] * jnp.log(self.unit) - jnp.sum(jnp.log(self.scale))
        return jnp.broadcast_to(volume.astype(x.dtype), x.shape[:-1])

    def _shift(self, slopes: Array) -> Array:
        return jnp.sum(slopes * self._broadcast(self.center, slopes), axis=-1, keepdims=True)

    def _broadcast(self, row: Array, like: Array) -> Array:
        return row.astype(like.dtype).reshape((1,) * (like.ndim - 1) + (-1,))
