"""Fast compilation for programs that run only a few times, a cache of compiled programs, and a bound on their number.

JAX keeps each compiled program for as long as the process runs, and a function that is defined again, as in a loop,
is another function: 70 MB for each of them. So programs are dropped once there are those of too many functions.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import equinox as eqx
import jax

from isotherm import signals

F = TypeVar("F", bound=Callable)

_MOST_FUNCTIONS = 8  # whose programs are kept
_programs: list[Any] = []  # what `eqx.filter_jit` returned
_functions: dict[Any, None] = {}  # those that programs have been compiled for since they were last dropped


def compile_fully(f: F) -> F:
    """Return `eqx.filter_jit(f)`, whose programs `drop_old_programs` can drop."""
    program = eqx.filter_jit(f)
    _programs.append(program)
    return _interruptible(f, lambda: program)


def compile_ahead(f: Callable, *args: Any) -> Callable[[], None]:
    """Begin to compile a function of `compile_fully` for a call with these arguments; return a function that waits.

    The call then finds the compiled program. Only XLA runs on the other thread: `f` is traced on this one, since
    functions of users need not be safe to run on two threads. What fails there fails again in the call.
    """
    lowered = cast(Any, f).lower(*args)

    def compiled() -> None:
        with contextlib.suppress(Exception):
            lowered.compile()

    thread = threading.Thread(target=compiled, name="isotherm-compile")
    thread.start()
    return thread.join


def drop_old_programs(*functions: Callable | None) -> None:
    """Drop all compiled programs if they were for eight other functions: call it before any are compiled for these.

    Functions are the same if JAX would use the same programs for them: arrays that they hold do not count.
    """
    leaves, structure = jax.tree.flatten(eqx.filter(functions, eqx.is_array, inverse=True))
    key = (structure, *leaves)
    try:
        known = key in _functions
    except TypeError:  # not hashable: JAX will refuse it with its message
        return
    if not known and len(_functions) >= _MOST_FUNCTIONS:
        for program in _programs:
            program._cached.clear_cache()  # Equinox has no public name for it
        _functions.clear()
    _functions[key] = None


def compile_quickly(f: F) -> F:
    """Return `eqx.filter_jit(f)` without XLA's optimisations.

    Compiling takes a fifth of the time and running twice as long, which pays off unless the program is a long loop.
    """
    return _compiled(f, {"xla_backend_optimization_level": 0})


def compile_untuned(f: F) -> F:
    """Return `eqx.filter_jit(f)` without trials of several kernels for each matrix product, which take seconds."""
    return _compiled(f, {})


def keep_compiled(folder: str | os.PathLike[str] | None = None) -> Path:
    """Keep compiled programs in a folder, so that a later process need not compile them again. Return the folder.

    Call it before anything is sampled. Most of the time of a first `iso.sample` is compilation; with a filled cache
    most of that is saved. It sets options of JAX for the whole process. A cache folder that was set before, by
    `JAX_COMPILATION_CACHE_DIR` for example, is kept if none is given here. Commands of `isotherm` use the cache.

    **Arguments:**

    - `folder`: a folder that only you can write to, since programs in it are run; one in your cache folder if `None`.
    """
    import pooch

    set_before = cast(Any, jax.config).jax_compilation_cache_dir
    path = Path(folder or set_before or pooch.os_cache("isotherm") / "compiled")
    if set_before is None or folder is not None:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        jax.config.update("jax_compilation_cache_dir", str(path))
    # By default JAX keeps programs that took a second or more; those of a warm-up are many, and smaller.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return path


def _compiled(f: F, options: dict[str, Any]) -> F:
    # Options depend on the device, which is not known when a module is imported.
    @functools.cache
    def compiled() -> Callable:
        here = {"xla_gpu_autotune_level": 0} if jax.default_backend() == "gpu" else {}
        settings: dict[str, Any] = {"compiler_options": {**options, **here}}
        program = eqx.filter_jit(f, **settings)
        _programs.append(program)
        return program

    return _interruptible(f, compiled)


def _interruptible(f: F, program: Callable[[], Callable]) -> F:
    """Return a function that calls the program, and then raises an interruption that was held back meanwhile."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = program()(*args, **kwargs)
        signals.check()
        return result

    cast(Any, call).lower = lambda *args, **kwargs: cast(Any, program()).lower(*args, **kwargs)
    return cast(F, call)
