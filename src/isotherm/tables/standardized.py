"""Coefficients of standardised columns as coefficients in the units of the columns."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Standardized(eqx.Module):
    r"""A transform from coefficients of standardised columns to coefficients in the units of the columns.

    With m and s the mean and scale of the columns, and o and u the origin and unit of the response, intercept a and
    coefficients b become

    $$\beta_j = u b_j / s_j, \qquad \alpha = o + u a - \sum_j \beta_j m_j.$$

    The last axis of a vector holds the intercept, then the coefficients. Without an intercept, m and o are zero.
    Origin and unit are arrays where programs are to be reused for another response: numbers become part of a compiled
    program.
    """

    affine = True  # in the coefficients: effects of groups rely on it

    center: Float[Array, " F"]
    scale: Float[Array, " F"]
    origin: float | Float[Array, ""] = 0.0
    unit: float | Float[Array, ""] = 1.0
    has_intercept: bool = eqx.field(default=True, static=True)

    def __call__(self, x: Float[Array, "*rows K"]) -> Float[Array, "*rows K"]:
        """Return coefficients per unit of the column."""
        if not self.has_intercept:
            return self.unit * x / self._broadcast(self.scale, x)
        slopes = self.unit * x[..., 1:] / self._broadcast(self.scale, x)
        intercept = self.origin + self.unit * x[..., :1] - self._shift(slopes)
        return jnp.concatenate([intercept, slopes], axis=-1)

    def inv(self, y: Float[Array, "*rows K"]) -> Float[Array, "*rows K"]:
        """Return coefficients per standard deviation of the column."""
        if not self.has_intercept:
            return y * self._broadcast(self.scale, y) / self.unit
        slopes = y[..., 1:]
        intercept = (y[..., :1] + self._shift(slopes) - self.origin) / self.unit
        return jnp.concatenate([intercept, slopes * self._broadcast(self.scale, y) / self.unit], axis=-1)

    def linear(self, y: Float[Array, "*rows K"]) -> tuple[Float[Array, "*rows F"], Float[Array, "*rows"]]:
        """Return slopes and intercept for rows of standardised columns, in units of the response."""
        b = self.inv(y)
        if not self.has_intercept:
            return b, jnp.zeros_like(b[..., 0])
        return b[..., 1:], b[..., 0] + self.origin / self.unit

    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array:
        """Return the log of the volume change at each vector, which is a constant."""
        del y
        volume = x.shape[-1] * jnp.log(self.unit) - jnp.sum(jnp.log(self.scale))
        return jnp.broadcast_to(volume.astype(x.dtype), x.shape[:-1])

    def _shift(self, slopes: Array) -> Array:
        return jnp.sum(slopes * self._broadcast(self.center, slopes), axis=-1, keepdims=True)

    def _broadcast(self, row: Array, like: Array) -> Array:
        return row.astype(like.dtype).reshape((1,) * (like.ndim - 1) + (-1,))
