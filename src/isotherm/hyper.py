"""Hyper-parameters: scalar array leaves, or schedules of the step number."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from isotherm.errors import is_traced, must

Schedule = Callable[[Int[Array, ""]], Any]
Hyper = Float[Array, ""] | float | Schedule


def _as_hyper(value: Any) -> Any:
    """A number as a float array. Schedules and `None` are returned unchanged."""
    if value is None or callable(value):
        return value
    try:
        array = jnp.asarray(value)
    except TypeError:
        return value  # `check_positive` refuses it with the name of its owner
    # An explicit dtype keeps Python floats from being weakly typed, which would compile twice.
    return jnp.asarray(array, array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else float)


def hyper_parameter(*, default: Any = None, kw_only: bool = False) -> Any:
    """A field for a scalar array or a schedule. Numbers are converted to arrays, so `vmap` over it works."""
    return eqx.field(default=default, converter=_as_hyper, kw_only=kw_only)


def required_hyper_parameter() -> Any:
    """A `hyper_parameter` without a default."""
    return eqx.field(converter=_as_hyper)


def at(value: Hyper, step: Int[Array, ""]) -> Float[Array, ""]:
    """The value of a hyper-parameter at this step. Schedules count steps from 0."""
    return jnp.asarray(value(step) if callable(value) else value)


def check_number(owner: Any, name: str) -> None:
    """Raise unless the hyper-parameter is a finite number; a schedule is not accepted."""
    value, label = getattr(owner, name), type(owner).__name__
    if value is None or is_traced(value):
        return
    if callable(value) or not np.isfinite(np.asarray(value)).all():
        shown = "a schedule" if callable(value) else repr(np.asarray(value).tolist())
        raise ValueError(f"`{name}` of `{label}` must be a finite number; got {shown}.")


def check_positive(owner: Any, name: str, *, finite: bool = True, schedule: bool = True) -> None:
    """Raise unless the hyper-parameter is a positive scalar. The message names its owner."""
    value, label = getattr(owner, name), type(owner).__name__
    if callable(value) and not schedule:
        raise TypeError(f"`{name}` of `{label}` must be a number; got a schedule.")
    if value is None or is_traced(value):
        return
    where = ""
    if callable(value):
        value, where = value(jnp.zeros((), int)), " at step 0"
    number = np.asarray(value)
    if number.dtype.kind not in "fiu" and number.dtype.name != "bfloat16":
        raise TypeError(f"`{name}` of `{label}` must be a number or a schedule; got {value!r}.")
    rule = "a positive finite number" if finite else "a positive number"
    if number.ndim:
        raise must(
            f"{name}` of `{label}",
            f"{rule} (a scalar)",
            value,
            "To run many settings in one compilation, pass a list of samplers to `iso.sweep`.",
        )
    good = number > 0 and (np.isfinite(number) or not finite) and not np.isnan(number)
    if not good:
        raise ValueError(f"`{name}` of `{label}` must be {rule}{where}; got {number.item()!r}.")


def _as_mass(value: PyTree) -> PyTree:
    return jax.tree.map(_as_hyper, value)


def mass_field() -> Any:
    """A field for a diagonal mass: one number, or a pytree like the position."""
    return eqx.field(default=1.0, converter=_as_mass, kw_only=True)


def check_mass(owner: Any) -> None:
    """Raise unless all entries of the mass are positive and finite."""
    for leaf in jax.tree.leaves(owner.mass):
        if is_traced(leaf):
            continue
        numbers = np.asarray(leaf)
        bad = ~(np.isfinite(numbers) & (numbers > 0))
        if bad.any():
            value = float(numbers[bad].ravel()[0])
            raise ValueError(
                f"`mass` of `{type(owner).__name__}` must be positive and finite; got {value!r}."
            )
