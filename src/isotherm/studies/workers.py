"""Independent pieces of work side by side, in processes of their own."""

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
    """A process ended before its piece of work did."""


def side_by_side(
    function: Callable[..., Any], arguments: Sequence[tuple]
) -> Iterator[tuple[int, Any | LostWorkerError]]:
    """(i, function(*arguments[i])) as each ends, as many at a time as there are cores; on a GPU one by one, in order.

    Where its process was killed, a piece of work has `LostWorkerError` for a result. What `function` raises is raised
    here, and ends the others, as Ctrl-C does. On a CPU a script calls it under `if __name__ == "__main__":`, and
    `function` and its arguments must be importable there.
    """
    if jax.default_backend() != "cpu" or len(arguments) <= 1:
        for i, own in enumerate(arguments):
            yield i, function(*own)
        return
    # Processes: two programs at once in one process can wait for each other's threads forever (jaxlib 0.10.2).
    cores, context = _cores(), multiprocessing.get_context("spawn")
    count = min(len(cores), 16, len(arguments))
    shares = context.SimpleQueue()
    for i in range(count):
        shares.put(cores[i::count])
    config = {name: getattr(jax.config, name) for name in _CONFIG}
    workers = ProcessPoolExecutor(
        max_workers=count, mp_context=context, initializer=_prepare, initargs=(config, shares)
    )
    others = set(multiprocessing.active_children())
    try:
        waiting = {workers.submit(function, *own): i for i, own in enumerate(arguments)}
        for future in as_completed(waiting):
            try:
                yield waiting[future], future.result()
            except BrokenProcessPool:
                yield waiting[future], LostWorkerError("a process was killed; is there memory enough?")
    except BaseException:
        workers.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    workers.shutdown()


def _cores() -> list[int]:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _prepare(config: dict[str, Any], shares: Any) -> None:
    """A new process: Ctrl-C is for its parent, JAX is set as there, and it keeps to cores of its own.

    Without the last, the threads of all processes are in each other's way and each takes nearly twice as long.
    """
    own = shares.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, own)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for name, value in config.items():
        jax.config.update(name, value)


def _end_with(parent: int) -> None:
    """End this process soon after its parent, which may have been killed, instead of working on for nobody."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
