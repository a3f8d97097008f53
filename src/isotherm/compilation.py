"""Fast compilation for programs that run only a few times."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import equinox as eqx
import jax

F = TypeVar("F", bound=Callable)


def compile_quickly(f: F) -> F:
    """Return `eqx.filter_jit(f)` without XLA's optimisations.

    Compiling takes a fifth of the time and running twice as long, which pays off unless the program is a long loop.
    """
    return _compiled(f, {"xla_backend_optimization_level": 0})


def compile_untuned(f: F) -> F:
    """Return `eqx.filter_jit(f)` without trials of several kernels for each matrix product, which take seconds."""
    return _compiled(f, {})


def _compiled(f: F, options: dict[str, Any]) -> F:
    # Options depend on the device, which is not known when a module is imported.
    @functools.cache
    def compiled() -> Callable:
        here = {"xla_gpu_autotune_level": 0} if jax.default_backend() == "gpu" else {}
        settings: dict[str, Any] = {"compiler_options": {**options, **here}}
        return eqx.filter_jit(f, **settings)

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiled()(*args, **kwargs)

    return cast(F, call)
