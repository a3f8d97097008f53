"""Hyper-parameters: scalar array leaves, or schedules of the step number."""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from isotherm.errors import describe, is_traced, must
from isotherm.numeric import is_real, numeric, real_scalar

Schedule = Callable[[Int[Array, ""]], Any]
Hyper = Float[Array, ""] | float | Schedule


def _as_hyper(value: Any) -> Any:
    """A number as a float array. Everything else is returned unchanged, for a check that names its owner."""
    if value is None or callable(value):
        return value
    array = numeric(value)
    if array is None or not is_real(array.dtype):
        return value
    # An explicit dtype keeps Python floats from being weakly typed, which would compile twice.
    dtype = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else np.dtype(float)
    return jnp.asarray(array, jax.dtypes.canonicalize_dtype(dtype))


def hyper_parameter(*, default: Any = None, kw_only: bool = False) -> Any:
    """A field for a scalar array or a schedule. Numbers are converted to arrays, so `vmap` over it works."""
    return eqx.field(default=default, converter=_as_hyper, kw_only=kw_only)


def required_hyper_parameter() -> Any:
    """A `hyper_parameter` without a default."""
    return eqx.field(converter=_as_hyper)


def count_field(*, default: int | None, kw_only: bool = False) -> Any:
    """A static field for a count. Integers of NumPy, which may have no sign, become those of Python."""
    return eqx.field(default=default, static=True, converter=_as_count, kw_only=kw_only)


def _as_count(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) and not isinstance(value, np.timedelta64) else value


def at(value: Hyper, step: Int[Array, ""]) -> Float[Array, ""]:
    """The value of a hyper-parameter at this step. Schedules count steps from 0."""
    return jnp.asarray(value(step) if callable(value) else value)


def check_number(owner: Any, name: str) -> None:
    """Raise unless the hyper-parameter is `None` or a finite number; a schedule is not accepted."""
    value, label = getattr(owner, name), type(owner).__name__
    if value is None or is_traced(value):
        return
    number = None if callable(value) else real_scalar(value)
    if number is None or not np.isfinite(np.asarray(number)):
        shown = "a schedule" if callable(value) else describe(value)
        error = TypeError if number is None and not callable(value) else ValueError
        raise error(f"`{name}` of `{label}` must be a finite number; got {shown}.")


def check_positive(
    owner: Any, name: str, *, optional: bool = False, finite: bool = True, schedule: bool = True
) -> None:
    """Raise unless the hyper-parameter is a positive scalar, or `None` if `optional`. The message names its owner."""
    value, label = getattr(owner, name), type(owner).__name__
    if (value is None and optional) or is_traced(value):
        return
    where = ""
    if callable(value):
        if not schedule:
            raise TypeError(f"`{name}` of `{label}` must be a number; got a schedule.")
        value, where = scheduled(value, f"{name}` of `{label}"), " at step 0"
    number = numeric(value)
    kinds = "a number or a schedule" if schedule else "a number"
    if number is None or not is_real(number.dtype):
        raise TypeError(f"`{name}` of `{label}` must be {kinds}; got {describe(value)}{where}.")
    rule = "a positive finite number" if finite else "a positive number"
    if number.ndim:
        raise must(
            f"{name}` of `{label}",
            f"{rule} (a scalar)",
            number,
            "To run many settings in one compilation, pass a list of samplers to `iso.sweep`.",
        )
    number = np.asarray(number)
    good = number > 0 and (np.isfinite(number) or not finite) and not np.isnan(number)
    if not good:
        raise ValueError(f"`{name}` of `{label}` must be {rule}{where}; got {number.item()!r}.")


def scheduled(schedule: Schedule, label: str, step: int = 0) -> Any:
    """Return the value of a schedule at a step. Raises, or adds a note, if a compiled program could not call it."""
    try:
        inspect.signature(schedule).bind(step)
    except ValueError:  # a function of C, which does not tell its arguments
        pass
    except TypeError:
        rule = "a number, or a schedule that takes the step number as its only argument"
        raise must(label, rule, schedule, "Write `lambda step: ...`.", error=TypeError) from None
    try:
        value = schedule(jnp.asarray(step))
        if numeric(value) is not None:  # other types are refused by the check of the value
            jax.eval_shape(schedule, jnp.asarray(step))
    except Exception as error:
        error.add_note(
            f"This was raised by the schedule `{label}`, which is called with the step number as an integer array of "
            "JAX. A compiled program does not know its value: write `jnp.where` instead of `if`."
        )
        raise
    return value


def _as_mass(value: PyTree) -> PyTree:
    try:
        return jax.tree.map(_as_hyper, value)
    except ValueError:  # a dictionary whose keys cannot be sorted, or the like
        return np.asarray(None)


def mass_field() -> Any:
    """A field for a diagonal mass: one number, or a pytree like the position."""
    return eqx.field(default=1.0, converter=_as_mass, kw_only=True)


def check_mass(owner: Any) -> None:
    """Raise unless all entries of the mass are positive and finite."""
    rule = f"`mass` of `{type(owner).__name__}` must be positive and finite"
    for leaf in jax.tree.leaves(owner.mass):
        if is_traced(leaf):
            continue
        numbers = numeric(leaf)
        if numbers is None or not is_real(numbers.dtype):
            raise TypeError(f"{rule}: one number, or a pytree like the parameters; got {describe(leaf)}.")
        numbers = np.asarray(numbers)
        bad = ~(np.isfinite(numbers) & (numbers > 0))
        if bad.any():
            raise ValueError(f"{rule}; got {float(numbers[bad].ravel()[0])!r}.")
