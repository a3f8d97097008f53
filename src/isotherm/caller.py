"""Where the library may be called from: not inside a transformation of JAX, nor in a fork of a process with JAX."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from isotherm.forks import is_fork_of_jax

_DEEPEST = 200  # levels of containers in an argument; JAX fails at about a thousand


def check_caller(function: str, **arguments: PyTree) -> None:
    """Raise if `function` is called where it cannot compute. `arguments` are those that may hold traced arrays."""
    if is_fork_of_jax():
        raise RuntimeError(
            f"`{function}` must not be called in a process made by `fork` after JAX was used: the threads of JAX are "
            'missing in it, and it would hang. Use `multiprocessing.get_context("spawn")`, or make the processes '
            "before JAX is used."
        )
    traced = isinstance(jnp.zeros(()), jax.core.Tracer)  # as all new arrays are inside `jit`
    for name, value in arguments.items():
        traced = traced or any(isinstance(x, jax.core.Tracer) for x in leaves_of(name, value))
    if traced:
        raise TypeError(
            f"`{function}` must not be called inside `jax.jit`, `jax.vmap`, `jax.grad` or another transformation: "
            "it compiles its own programs and moves draws to the host. Call it outside, once for each data set."
        )


def leaves_of(argument: str, value: PyTree) -> list[Any]:
    """Return the leaves of a pytree. Raises if JAX cannot take it apart."""
    # JAX would break the interpreter: after its error, every deep call of the thread fails.
    if _too_deep(value):
        raise TypeError(
            f"`{argument}` must be a pytree of arrays; got containers that contain themselves, or are nested "
            f"more than {_DEEPEST} deep."
        )
    try:
        return jax.tree.leaves(value)
    except Exception as error:  # keys that cannot be sorted, or a container of the user that raises
        reason = str(error).partition("\n")[0][:200]
        raise TypeError(
            f"`{argument}` must be a pytree of arrays; got one that JAX cannot take apart ({reason}). Use "
            "dictionaries with keys of one type, tuples and lists."
        ) from error


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        containers = {id(x): x for x in level if isinstance(x, list | tuple | dict)}
        level = [y for x in containers.values() for y in (x.values() if isinstance(x, dict) else x)]
        if not level:
            return False
    return True
