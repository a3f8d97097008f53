"""Programs that run a few times, compiled in a hurry: a fifth of the time to compile, twice that to run."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import equinox as eqx

F = TypeVar("F", bound=Callable)


def jit_in_a_hurry(f: F) -> F:
    """`eqx.filter_jit` without the optimisation that pays off in long loops only."""
    options: dict[str, Any] = {"compiler_options": {"xla_backend_optimization_level": 0}}
    return cast(F, eqx.filter_jit(f, **options))
