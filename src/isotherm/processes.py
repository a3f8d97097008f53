"""Several processes that work on one problem, after `jax.distributed.initialize()`.

Each process computes on its own devices. Results are exchanged on the host, as bytes, in places that all processes
reach in the same order. So every process has the same numbers and takes the same decisions.
"""

import builtins
import contextlib
import itertools
import json
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")
Message = tuple[str, tuple[str, str] | None, list[np.ndarray]]  # place, error, arrays

_PIECE = 2**26  # bytes that each process sends at once
_ALONE: ContextVar[bool] = ContextVar("alone", default=False)
_RUNS = itertools.count()


def count() -> int:
    """Return the number of processes that share the work; 1 inside `alone`."""
    return 1 if _ALONE.get() else jax.process_count()


def index() -> int:
    """Return the number of this process among those that share the work."""
    return 0 if _ALONE.get() else jax.process_index()


def is_first() -> bool:
    """Return whether this process is the one that shows progress."""
    return jax.process_index() == 0


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Do the work inside without other processes."""
    token = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(token)


def own_range(total: int) -> tuple[int, int]:
    """Return the part of `total` contiguous pieces of work that this process does: first, and last plus 1."""
    return range_of(index(), total)


def range_of(process: int, total: int) -> tuple[int, int]:
    """Return the part of `total` contiguous pieces of work that a process does: first, and last plus 1."""
    return process * total // count(), (process + 1) * total // count()


def gathered(work: Callable[[], T], label: str) -> list[T]:
    """Return what `work` returns in each process, in the order of the processes.

    That must be a pytree of numbers and arrays of NumPy, of the same structure in all processes. If `work` raises in
    one of them, all processes raise that error. `label` names the place in the program, and must be the same in all.
    """
    if count() == 1:
        return [work()]
    error, structure = None, None
    try:
        leaves, structure = jax.tree.flatten(work())
        message: Message = (label, None, [np.asarray(x) for x in leaves])
    except Exception as caught:
        error, message = caught, (label, (type(caught).__name__, str(caught)), [])
    messages = _exchanged(message)
    for other, (there, _, _) in enumerate(messages):
        if there != messages[0][0]:
            raise RuntimeError(
                f"All processes must make the same calls of isotherm in the same order; process 0 is at "
                f"{messages[0][0]!r} and process {other} at {there!r}."
            )
    failed = [i for i, (_, failure, _) in enumerate(messages) if failure is not None]
    if failed:
        if error is not None and failed[0] == index():
            raise error
        raise _as_error(*cast(tuple[str, str], messages[failed[0]][1]), failed[0])
    assert structure is not None
    return [structure.unflatten(leaves) for _, _, leaves in messages]


def _as_error(kind: str, text: str, process: int) -> Exception:
    """Return an error of another process. If it has no type of Python's own, it is a `RuntimeError`."""
    known = getattr(builtins, kind, None)
    usable = isinstance(known, type) and issubclass(known, Exception) and known is not UnicodeDecodeError
    error = known(text) if usable else RuntimeError(text)
    error.add_note(f"It was raised in process {process}.")
    return error


def _exchanged(message: Message) -> list[Message]:
    """Return the messages of all processes."""
    sent = np.frombuffer(_as_bytes(message), np.uint8)
    lengths = _allgather(np.frombuffer(np.int64(len(sent)).tobytes(), np.uint8))
    sizes = [int(np.frombuffer(x.tobytes(), np.int64)[0]) for x in lengths]
    parts: list[list[np.ndarray]] = [[] for _ in sizes]
    # The length of a piece is a power of 2: few programs serve messages of all lengths.
    piece = min(_PIECE, 1 << max(10, (max(sizes) - 1).bit_length()))
    for begin in range(0, max(sizes), piece):
        own = np.zeros(piece, np.uint8)
        now = sent[begin : begin + piece]
        own[: len(now)] = now
        for received, x in zip(parts, _allgather(own), strict=True):
            received.append(x)
    return [_from_bytes(np.concatenate(x)[:n].tobytes()) for x, n in zip(parts, sizes, strict=True)]


def _as_bytes(message: Message) -> bytes:
    """Return a message as JSON, which says what follows, and the bytes of its arrays."""
    label, failure, leaves = message
    arrays = [(x.dtype.name, x.shape) for x in leaves]
    header = json.dumps({"label": label, "failure": failure, "arrays": arrays}).encode()
    return b"".join([np.int64(len(header)).tobytes(), header, *(x.tobytes() for x in leaves)])


def _from_bytes(data: bytes) -> Message:
    """Return the message that `_as_bytes` made bytes of."""
    place = 8 + int(np.frombuffer(data[:8], np.int64)[0])
    header, leaves = json.loads(data[8:place]), []
    for name, shape in header["arrays"]:
        dtype = jnp.dtype(name)
        end = place + math.prod(shape) * dtype.itemsize
        leaves.append(np.frombuffer(data[place:end], dtype).reshape(shape))
        place = end
    failure = header["failure"]
    return header["label"], None if failure is None else tuple(failure), leaves


def _allgather(x: np.ndarray) -> np.ndarray:
    from jax.experimental import multihost_utils

    try:
        with jax.enable_x64(False):
            return np.asarray(multihost_utils.process_allgather(x))
    except jax.errors.JaxRuntimeError as error:
        raise RuntimeError(
            f"Process {jax.process_index()} of {jax.process_count()} lost contact with another process, so the run "
            "cannot go on. Look at the output of the other processes for the cause, and start all of them again."
        ) from error


class Stop:
    """A request to end a run early, which one process makes and all see. Make one for each run, in all processes."""

    def __init__(self) -> None:
        self.name = f"isotherm/stop/{next(_RUNS)}"
        self.client = _client() if count() > 1 else None

    def request(self) -> None:
        """Ask all processes to stop."""
        if self.client is not None:
            self.client.key_value_set(self.name, "1", allow_overwrite=True)

    def requested(self) -> bool:
        """Return whether a process has asked."""
        if self.client is None:
            return False
        try:
            return bool(self.client.key_value_try_get(self.name))
        except jax.errors.JaxRuntimeError:  # there is no such key
            return False


def _client() -> Any:
    from jax._src import distributed  # JAX has no public name for it

    return distributed.global_state.client
