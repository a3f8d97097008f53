"""Likelihoods of y given the outputs of a network: a log-density for each row, and the mean of y.

Log-densities include all constants. A y outside the support has the density NaN, which `iso.sample` refuses.
"""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float

from isotherm.errors import must

Params = dict[str, Any]
Rows = Float[Array, " n"]


class Likelihood(eqx.Module):
    """`density(outputs, y, extra)` has one value per row. `extra` holds initial values of its parameters.

    `classes`: whether y is a class, and `mean` its probability.
    """

    density: Callable[[Array, Any, Params], Array]
    mean: Callable[[Array], Array] | None
    extra: Params
    classes: bool = eqx.field(default=False, static=True)


def likelihood_of(
    kind: str | Callable[..., Array], *, scale: float | int | None, extra: Mapping[str, Any] | None
) -> Likelihood:
    """The likelihood of this name, or one from a function `(outputs, y)`; with `extra`, `(outputs, y, extra)`."""
    if scale is not None and kind != "gaussian":
        raise must("scale", 'None unless `likelihood` is "gaussian"', scale)
    if extra is not None and not callable(kind):
        raise must("extra", "None unless `likelihood` is a function", extra)
    if callable(kind):
        start = {name: jnp.asarray(x, float) for name, x in (extra or {}).items()}
        return Likelihood(UserDefined(kind, takes_extra=extra is not None), None, start)
    if kind == "gaussian":
        if scale is None:
            return Likelihood(Gaussian(None), _identity, {"log_scale": jnp.zeros(())})
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < np.inf:
            raise must("scale", "a positive number", scale, "Leave it out if the scale is unknown.")
        return Likelihood(Gaussian(float(scale)), _identity, {})
    if kind not in _NAMED:
        names = ", ".join(f'"{name}"' for name in ("gaussian", *_NAMED))
        raise must("likelihood", f"one of {names}, or a function `(outputs, y) -> one value per row`", kind)
    return Likelihood(*_NAMED[kind], {}, classes=kind in _CLASSES)


class UserDefined(eqx.Module):
    """A likelihood from a function that the user wrote."""

    function: Callable[..., Array]
    takes_extra: bool = eqx.field(static=True)

    def __call__(self, outputs: Array, y: Any, extra: Params) -> Array:
        """The value of the function, one per row."""
        return self.function(outputs, y, extra) if self.takes_extra else self.function(outputs, y)


class Gaussian(eqx.Module):
    """y ~ N(outputs, scale^2), independently for each output. If `scale` is `None`, it is exp of `log_scale`."""

    scale: float | None

    def __call__(self, outputs: Array, y: Array, extra: Params) -> Rows:
        """One value per row."""
        outputs = _fitted(outputs, y)
        log_scale = extra["log_scale"] if self.scale is None else jnp.log(self.scale)
        log_scale = jnp.asarray(log_scale, outputs.dtype)
        z = (y - outputs) * jnp.exp(-log_scale)
        return _rows(-0.5 * z**2 - log_scale - 0.5 * np.log(2 * np.pi))


def categorical(outputs: Array, y: Array, extra: Params) -> Rows:
    """One value per row. Outputs are logits along the last axis, and y is the index of the class."""
    del extra
    if not jnp.issubdtype(y.dtype, jnp.integer):
        raise must(
            "y", "an array of integers, the indices of the classes", y, "For one-hot rows take the argmax."
        )
    if outputs.shape[:-1] != y.shape:
        raise _misfit(outputs, y, "logits of the classes along one more axis than y")
    log_probability = jnp.take_along_axis(jax.nn.log_softmax(outputs), y[..., None], axis=-1)[..., 0]
    return _rows(_where(log_probability, (y >= 0) & (y < outputs.shape[-1])))


def bernoulli(outputs: Array, y: Array, extra: Params) -> Rows:
    """One value per row. Outputs are logits of y = 1, and y is 0 or 1."""
    del extra
    outputs = _fitted(outputs, y)
    ones = y.astype(outputs.dtype)
    return _rows(_where(ones * outputs - jax.nn.softplus(outputs), (ones == 0) | (ones == 1)))


def poisson(outputs: Array, y: Array, extra: Params) -> Rows:
    """One value per row. Outputs are logs of the rate, and y is a count."""
    del extra
    outputs = _fitted(outputs, y)
    count = y.astype(outputs.dtype)
    density = count * outputs - jnp.exp(outputs) - gammaln(count + 1)
    return _rows(_where(density, (count >= 0) & (count == jnp.round(count))))


_CLASSES = ("categorical", "bernoulli")


def _identity(outputs: Array) -> Array:
    return outputs


_NAMED: dict[str, tuple[Callable[..., Array], Callable[[Array], Array]]] = {
    "categorical": (categorical, jax.nn.softmax),
    "bernoulli": (bernoulli, jax.nn.sigmoid),
    "poisson": (poisson, jnp.exp),
}


def _fitted(outputs: Array, y: Array) -> Array:
    """The outputs in the shape of y. Broadcasting (n, 1) with (n,) would compare every row with every other."""
    if outputs.shape == (*y.shape, 1):
        return outputs[..., 0]
    if outputs.shape != y.shape:
        raise _misfit(outputs, y, "of the shape of y, or with one more axis of length 1")
    return outputs


def _misfit(outputs: Array, y: Array, rule: str) -> Exception:
    return must("outputs", rule, outputs, f"The shape of y is {tuple(y.shape)}; rows come first.")


def _where(density: Array, inside: Bool[Array, "..."]) -> Array:
    return jnp.where(inside, density, jnp.nan)


def _rows(density: Array) -> Rows:
    return jnp.sum(density, axis=tuple(range(1, density.ndim)))
