"""What the outputs of a network say about y: a log-density for each row, and the mean of y.

Densities are complete, constants included. A y outside the support has the density NaN, which `iso.sample` refuses.
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
    """`density(outputs, y, extra)` has one value per row; `extra` holds the start of parameters of its own."""

    density: Callable[[Array, Any, Params], Array]
    mean: Callable[[Array], Array] | None
    extra: Params


def likelihood_of(
    kind: str | Callable[..., Array], *, scale: float | int | None, extra: Mapping[str, Any] | None
) -> Likelihood:
    """A likelihood by its name, or of a function `(outputs, y)`, or `(outputs, y, extra)` where `extra` is given."""
    if scale is not None and kind != "gaussian":
        raise must("scale", 'None unless `likelihood` is "gaussian"', scale)
    if extra is not None and not callable(kind):
        raise must("extra", "None unless `likelihood` is a function", extra)
    if callable(kind):
        own = {name: jnp.asarray(x, float) for name, x in (extra or {}).items()}
        return Likelihood(Own(kind, takes_extra=extra is not None), None, own)
    if kind == "gaussian":
        if scale is None:
            return Likelihood(Gaussian(None), _same, {"log_scale": jnp.zeros(())})
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < np.inf:
            raise must("scale", "a positive number", scale, "Leave it out for an unknown one.")
        return Likelihood(Gaussian(float(scale)), _same, {})
    if kind not in _NAMED:
        names = ", ".join(f'"{name}"' for name in ("gaussian", *_NAMED))
        raise must("likelihood", f"one of {names}, or a function `(outputs, y) -> one value per row`", kind)
    return Likelihood(*_NAMED[kind], {})


class Own(eqx.Module):
    """A function of the user's."""

    function: Callable[..., Array]
    takes_extra: bool = eqx.field(static=True)

    def __call__(self, outputs: Array, y: Any, extra: Params) -> Array:
        """What the function returns."""
        return self.function(outputs, y, extra) if self.takes_extra else self.function(outputs, y)


class Gaussian(eqx.Module):
    """y ~ N(outputs, scale^2), independently for each output; exp of `log_scale` where `scale` is `None`."""

    scale: float | None

    def __call__(self, outputs: Array, y: Array, extra: Params) -> Rows:
        """One value per row."""
        outputs = _fitted(outputs, y)
        log_scale = extra["log_scale"] if self.scale is None else jnp.log(self.scale)
        log_scale = jnp.asarray(log_scale, outputs.dtype)
        z = (y - outputs) * jnp.exp(-log_scale)
        return _rows(-0.5 * z**2 - log_scale - 0.5 * np.log(2 * np.pi))


def categorical(outputs: Array, y: Array, extra: Params) -> Rows:
    """Outputs are logits along the last axis, y the number of the class."""
    del extra
    if not jnp.issubdtype(y.dtype, jnp.integer):
        raise must("y", "an array of integers, the numbers of the classes", y, "Of one-hot rows: argmax.")
    if outputs.shape[:-1] != y.shape:
        raise _misfit(outputs, y, "logits of the classes along one more axis than y")
    chosen = jnp.take_along_axis(jax.nn.log_softmax(outputs), y[..., None], axis=-1)[..., 0]
    return _rows(_where(chosen, (y >= 0) & (y < outputs.shape[-1])))


def bernoulli(outputs: Array, y: Array, extra: Params) -> Rows:
    """Outputs are logits of y = 1; y is 0 or 1."""
    del extra
    outputs = _fitted(outputs, y)
    ones = y.astype(outputs.dtype)
    return _rows(_where(ones * outputs - jax.nn.softplus(outputs), (ones == 0) | (ones == 1)))


def poisson(outputs: Array, y: Array, extra: Params) -> Rows:
    """Outputs are logs of the rate; y is a count."""
    del extra
    outputs = _fitted(outputs, y)
    count = y.astype(outputs.dtype)
    density = count * outputs - jnp.exp(outputs) - gammaln(count + 1)
    return _rows(_where(density, (count >= 0) & (count == jnp.round(count))))


def _same(outputs: Array) -> Array:
    return outputs


_NAMED: dict[str, tuple[Callable[..., Array], Callable[[Array], Array]]] = {
    "categorical": (categorical, jax.nn.softmax),
    "bernoulli": (bernoulli, jax.nn.sigmoid),
    "poisson": (poisson, jnp.exp),
}


def _fitted(outputs: Array, y: Array) -> Array:
    """Outputs in the shape of y: broadcast, (n, 1) and (n,) would compare every row with every other."""
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
