"""Constants of a user's function: NumPy arrays in float64 become arrays of JAX, as JAX itself would convert them.

JAX caches what it made of such an array, whatever its x64 mode was: a function that is used in both modes, by sums
over rows and by chains, fails with an error about dtypes.
"""

import types
import weakref
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from isotherm.posterior import Posterior

_copies: weakref.WeakKeyDictionary[Callable, Callable | None] = weakref.WeakKeyDictionary()


def with_constants(posterior: Posterior) -> Posterior:
    """Return the posterior with the constants of its functions converted, if they have any in float64."""
    functions = (posterior.log_likelihood, posterior.log_prior)
    made = tuple(_with_constants(f) for f in functions)
    if all(new is old for new, old in zip(made, functions, strict=True)):
        return posterior
    return eqx.tree_at(
        lambda p: (p.log_likelihood, p.log_prior), posterior, made, is_leaf=lambda x: x is None
    )


def _with_constants(f: Any) -> Any:
    """Return `f`, or a copy of it if its closure, its defaults or the globals that it names hold such arrays."""
    if not isinstance(f, types.FunctionType):
        return f
    if f not in _copies:  # one copy for each function, so that it is compiled once
        _copies[f] = _copy(f)
    return _copies[f] or f


def _copy(f: types.FunctionType) -> types.FunctionType | None:
    cells = f.__closure__ or ()
    named = {name: f.__globals__[name] for name in f.__code__.co_names if name in f.__globals__}
    filled = [cell for cell in cells if _filled(cell)]
    values = [*(cell.cell_contents for cell in filled), *(f.__defaults__ or ()), *named.values()]
    if not any(_is_wide(x) for x in values):
        return None
    closure = tuple(types.CellType(_narrow(cell.cell_contents)) if _filled(cell) else cell for cell in cells)
    scope = f.__globals__ | {name: _narrow(x) for name, x in named.items()}
    defaults = None if f.__defaults__ is None else tuple(_narrow(x) for x in f.__defaults__)
    made = types.FunctionType(f.__code__, scope, f.__name__, defaults, closure or None)
    made.__kwdefaults__ = f.__kwdefaults__
    return made


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that is not yet bound
        return False


def _is_wide(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype == np.float64


def _narrow(x: Any) -> Any:
    return jnp.asarray(x) if _is_wide(x) else x
