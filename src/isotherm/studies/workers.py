"""Run independent function calls in parallel, in worker processes."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import jax

_CONFIG = ("jax_enable_x64", "jax_platforms", "jax_default_matmul_precision")


class LostWorkerError(OSError):
    """A worker process was killed before its call returned."""


def side_by_side(
    function: Callable[..., Any], arguments: Sequence[tuple]
) -> Iterator[tuple[int, Any | LostWorkerError]]:
    """Yield `(i, function(*arguments[i]))` as each call finishes.

    On a CPU as many calls run at a time as there are cores, up to 16; on a GPU they run one after another, in order.
    If a worker process is killed, the result of its call is a `LostWorkerError`. An exception raised by `function`
    is raised here and stops the other calls, as Ctrl-C does. On a CPU a script must call this under
    `if __name__ == "__main__":`, and the workers must be able to import `function` and unpickle its arguments.
    """
    if jax.default_backend() != "cpu" or len(arguments) <= 1:
        for i, args in enumerate(arguments):
            yield i, function(*args)
        return
    # Processes, not threads: two JAX programs running in one process can deadlock (jaxlib 0.10.2).
    cores, context = _available_cores(), multiprocessing.get_context("spawn")
    count = min(len(cores), 16, len(arguments))
    core_sets = context.SimpleQueue()
    for i in range(count):
        core_sets.put(cores[i::count])
    config = {name: getattr(jax.config, name) for name in _CONFIG}
    workers = ProcessPoolExecutor(
        max_workers=count, mp_context=context, initializer=_prepare, initargs=(config, core_sets)
    )
    other_children = set(multiprocessing.active_children())
    try:
        futures = {workers.submit(function, *args): i for i, args in enumerate(arguments)}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                message = "A worker process was killed; the machine may be out of memory."
                yield futures[future], LostWorkerError(message)
    except BaseException:
        workers.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - other_children:
            child.terminate()
        raise
    workers.shutdown()


def _available_cores() -> list[int]:
    """Return the CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _prepare(config: dict[str, Any], core_sets: Any) -> None:
    """Set up a worker: pin it to its cores, leave Ctrl-C to the parent, and copy the parent's JAX configuration.

    Without pinning, the threads of all workers compete for the same cores and each takes nearly twice as long.
    """
    cores = core_sets.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    for name, value in config.items():
        jax.config.update(name, value)


def _exit_with_parent(parent: int) -> None:
    """Exit soon after the parent has ended, so that a killed parent leaves no worker running."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
