"""Fast compilation for programs that run only a few times."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import equinox as eqx

F = TypeVar("F", bound=Callable)


def compile_quickly(f: F) -> F:
    """Return `eqx.filter_jit(f)` without XLA's optimisations.

    Compiling takes a fifth of the time and running twice as long, which pays off unless the program is a long loop.
    """
    options: dict[str, Any] = {"compiler_options": {"xla_backend_optimization_level": 0}}
    return cast(F, eqx.filter_jit(f, **options))
