"""`--distributed`: one run by several processes, each started with the same command, on one machine or many.

JAX ends a process without a Python exception when another one is lost. So the work is done by a child process, and
the process that was started waits for it and says what happened.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from isotherm.cli.messages import complain, fail

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_LOG = "ISOTHERM_DISTRIBUTED_LOG"  # set for the child: the file for messages of JAX's own code
_HEARTBEAT = 20  # seconds after which a process that does not answer is lost
_START = 300  # seconds in which all processes must have been started


def add_distributed(parser: argparse.ArgumentParser) -> None:
    """Add `--distributed` and the options that say which of the processes this is."""
    group = parser.add_argument_group(
        "several processes",
        "Start the same command in each. SLURM and Open MPI need only `--distributed`.",
    )
    group.add_argument("--distributed", action="store_true", help="share the run with other processes")
    group.add_argument(
        "--coordinator", metavar="HOST:PORT", help="where process 0 runs, and a free port there"
    )
    group.add_argument("--processes", type=int, metavar="P", help="number of processes")
    group.add_argument("--process", type=int, metavar="I", help="number of this process, from 0 to P - 1")


def is_parent(options: argparse.Namespace) -> bool:
    """Return whether this process is to start another that does the work."""
    return options.distributed and _LOG not in os.environ


def watch(options: argparse.Namespace) -> int:
    """Run the command in a child process, and say why it ended if JAX ended it. Return the exit code."""
    given = (options.coordinator, options.processes, options.process)
    if any(x is not None for x in given) and any(x is None for x in given):
        return fail(
            options, "--coordinator, --processes and --process must be given together, or none of them"
        )
    with tempfile.TemporaryDirectory(prefix="isotherm-") as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-P", "-m", "isotherm", *options.arguments]
        child = subprocess.Popen(command, env={**os.environ, _LOG: str(log)})
        # Ctrl-C at a terminal reaches the child too, which then ends the run and writes its draws.
        previous = [signal.signal(signal.SIGINT, lambda *_: None)]
        previous.append(signal.signal(signal.SIGTERM, lambda *_: child.terminate()))
        try:
            code = child.wait()
        finally:
            for number, handler in zip((signal.SIGINT, signal.SIGTERM), previous, strict=True):
                signal.signal(number, handler)
        if code >= 0:
            return code
        return fail(options, _why(log.read_text(errors="replace") if log.exists() else "", -code))


def _why(log: str, number: int) -> str:
    """Return why a child was ended by a signal, from what JAX wrote."""
    again = "Start all of them again; the output of the lost one may say why."
    lost = re.search(r"stopped sending heartbeats\):\s*\n([^\n]*)", log)
    if lost is not None:
        tasks = ", ".join(re.findall(r"\d+(?=\D*$|,)", lost.group(1))) or lost.group(1).strip()
        return f"process {tasks} was lost, and the run has ended in all others. {again}"
    if "DEADLINE_EXCEEDED" in log or "RegisterTask" in log:
        return (
            f"not all processes reached the coordinator within {_START} s. Check --coordinator, --processes and "
            "--process, and that the port of process 0 can be reached from the other machines."
        )
    if "distributed service detected fatal errors" in log:
        return f"process 0 was lost, and the run has ended in all others. {again}"
    tail = "\n".join(log.splitlines()[-20:])
    return f"the process that did the work was ended by {signal.Signals(number).name}\n{tail}"


def join(options: argparse.Namespace) -> None:
    """Connect this process, the child, to the others. Raises if it is not known which of them it is."""
    _divert_native_output(os.environ[_LOG])
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    import jax

    try:
        jax.distributed.initialize(
            options.coordinator,
            options.processes,
            options.process,
            initialization_timeout=_START,
            heartbeat_timeout_seconds=_HEARTBEAT,
        )
    except ValueError as error:
        raise ValueError(
            "--distributed must be told which process this is, since no cluster was recognised. Add `--coordinator "
            "HOST:PORT --processes P --process I`."
        ) from error


def leave(code: int) -> None:
    """End the child. After a failure it does not wait for the others, so that they notice at once."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code not in (0, 1, 130):
        os._exit(code)


def in_all(work: "Callable[[], T]", label: str) -> T:
    """Return what `work` returns here. If it raises in one process, all raise."""
    from isotherm import processes

    kept: list[T] = []
    processes.gathered(lambda: kept.append(work()), label)
    return kept[0]


def is_first(options: argparse.Namespace) -> bool:
    """Return whether this process prints and writes: process 0."""
    if not options.distributed:
        return True
    from isotherm import processes

    return processes.is_first()


def _divert_native_output(log: str) -> None:
    """Write what is not printed by Python to `log`: JAX's messages would mix with the output of the command."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        stream.flush()
        copy = os.fdopen(os.dup(number), "w", buffering=1, encoding=stream.encoding, errors=stream.errors)
        setattr(sys, name, copy)
        os.dup2(file, number)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(1)
    with contextlib.suppress(OSError):
        complain("the process that started this one has ended")
    os._exit(2)
