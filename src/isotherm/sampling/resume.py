"""`resume`: go on with a stored run, from the last state on the disk."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any, cast

import jax
from jaxtyping import PyTree

from isotherm import processes
from isotherm.caller import check_caller
from isotherm.chains.setup import Setup
from isotherm.chains.stored import decoded
from isotherm.devices import Devices, current, using
from isotherm.draws import Draws
from isotherm.errors import check_count, check_flag, must
from isotherm.posterior import Posterior
from isotherm.sampling import checks
from isotherm.sampling.call import Call
from isotherm.sampling.sampled import sampled
from isotherm.signals import deferred
from isotherm.store import plain
from isotherm.store.folder import RunFolder
from isotherm.store.saved import CALL, RESULT, TOKEN, Saved, Snapshot
from isotherm.versions import versions


def resume(
    path: str | os.PathLike[str],
    posterior: Posterior,
    data: PyTree,
    *,
    num_draws: int | None = None,
    setup: Setup | None = None,
    like: PyTree | None = None,
    exact: bool = True,
    progress: bool = True,
    devices: Devices = None,
) -> Draws:
    """Go on with the run in a folder that `iso.sample(..., store=path)` made, and return all its draws.

    It does not matter how the run was ended: by Ctrl-C, SIGTERM, SIGKILL, a power cut or a full disk. On a CPU the
    draws are bit for bit those of a run that was never ended. A run that was still in its warm-up goes on from the
    passes over the data that it has made.

    **Arguments:**

    - `posterior`, `data`: those of the run. Others are refused.
    - `num_draws`: draws per chain, if more are wanted than at first.
    - `setup`: needed only if the run used a function or a class of yours for its settings, such as a schedule or a
      sampler, which cannot be stored: `iso.setup(...)` with the same arguments.
    - `like`: needed only if parameters are held by a class of yours: a pytree of the same structure, such as `init`.
    - `exact`: refuse to go on with other versions of the libraries or on another kind of machine, which round
      differently. With `False` the run goes on, and its draws are as good, but not the same bits.
    - `progress`, `devices`: as for `iso.sample`.
    """
    check_caller("iso.resume", data=data)
    checks.check_posterior(posterior)
    progress, exact = check_flag("progress", progress), check_flag("exact", exact)
    if num_draws is not None:
        num_draws = check_count("num_draws", num_draws, minimum=1, below=2**31)
    with deferred(), using(devices), checks.callbacks_noted(), _opened(path) as folder:
        saved = folder.read(CALL, "call")
        assert saved is not None
        if exact:
            _check_machine(folder, saved)
        call = _call(folder, saved, setup, like)
        snapshot = folder.snapshot()
        if num_draws is None:
            num_draws = _asked(folder, call, snapshot)
        elif snapshot is not None and num_draws < snapshot.drawn:
            raise must("num_draws", f"at least {snapshot.drawn}, the number of stored draws", num_draws)
        call = dataclasses.replace(call, num_draws=num_draws)
        return sampled(
            posterior, data, call, progress=progress, stacklevel=3, folder=folder, like=like, setup=setup
        )


@contextlib.contextmanager
def started(path: Any, call: Call) -> Iterator[RunFolder]:
    """Yield a new folder for a run, in each process its own."""
    # The problem of a setup is not stored: what it was made from is passed again.
    setup = call.init if isinstance(call.init, Setup) else None
    kept = call
    if setup is not None:
        constraint = setup.problem.posterior.constraint
        free = setup.problem.init
        kept = dataclasses.replace(call, init=free if constraint is None else constraint.constrained(free))
    folder = _in_all(lambda: RunFolder.create(path, kept, _machine()))
    with contextlib.closing(folder):
        yield folder


@contextlib.contextmanager
def _opened(path: Any) -> Iterator[RunFolder]:
    folder = _in_all(lambda: RunFolder.open(path))
    with contextlib.closing(folder):
        yield folder


def _in_all(work: Any) -> RunFolder:
    """Return what `work` returns in this process. If it raises in one, all raise."""
    made: list[RunFolder] = []
    try:
        processes.gathered(lambda: made.append(work()), "the folder of a run")
    except BaseException:
        for folder in made:
            folder.close()
        raise
    return made[0]


def _call(folder: RunFolder, saved: Saved, setup: Setup | None, like: PyTree | None) -> Call:
    """Return the stored call. What could not be stored must be in `setup`."""
    missing = plain.opaque(saved.node)
    if missing and setup is None:
        raise ValueError(
            f"`setup` must be given, since the run in {folder.path} uses {missing[0]}, which cannot be stored. Pass "
            "`iso.setup(...)` with the arguments that `iso.sample` was given."
        )
    node = saved.node
    if missing:
        node = {**node, "fields": {k: None if plain.opaque(x) else x for k, x in node["fields"].items()}}
    return decoded(folder.path / CALL, dataclasses.replace(saved, node=node), like=like)


def _asked(folder: RunFolder, call: Call, snapshot: Snapshot | None) -> int:
    """Return the number of draws that was asked for last: a state that was copied back may be of a time before."""
    result = folder.read(RESULT, "result")
    numbers = [saved.about["num_draws"] for saved in (snapshot, result) if saved is not None]
    return max(numbers, default=call.num_draws)


def _machine() -> dict[str, Any]:
    """Return what the bits of a run depend on besides its arguments."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        **versions(),
        "processes": processes.count(),
        "devices": len(current()),
        "threads": threads,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "jax_enable_x64": bool(jax.config.read("jax_enable_x64")),
        "jax_default_matmul_precision": str(cast(Any, jax.config).jax_default_matmul_precision),
    }


def _check_machine(folder: RunFolder, saved: Saved) -> None:
    """Raise if the bits of the run would depend on where it was stopped."""
    now = _machine()
    for name, value in saved.about.items():
        if name != TOKEN and now.get(name) != value:
            raise ValueError(
                f"`exact` must be False here: the run in {folder.path} was started with {name} {value!r}, and this "
                f"process has {now.get(name)!r}, so the draws would not be bit for bit those of a run that was never "
                "ended. They are as good with `exact=False`."
            )
