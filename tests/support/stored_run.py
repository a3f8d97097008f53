"""A run that tests end in every way and then resume. `run` stores it, or goes on with what is stored.

Run as a program, it can end itself by SIGKILL inside a chosen operation on the disk: see `die_in_operation`.
"""

import builtins
import os
import signal
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import isotherm as iso
from isotherm import tree
from isotherm.chains import recording
from isotherm.data import stream
from isotherm.sums import journal
from support.several import SIZE, posterior, rows

ALONE = ("tuned", "by_hand", "moving", "source")  # by one process
CASES = (*ALONE, "pair")
ROWS = 3001


def settings(case: str, num_draws: int) -> dict[str, Any]:
    """Return arguments of `iso.sample` besides posterior, data and init."""
    by_hand = {
        "sampler": iso.CCAdL(step_size=0.001, friction=5.0, covariance=iso.Dense()),
        "batch_size": 32,
        "burn_in": 100,
        "thinning": 3,
        "init_scale": 0.01,
    }
    if case == "by_hand":
        return by_hand | {"num_draws": num_draws, "num_chains": 3}
    if case == "moving":
        gradient = iso.ControlVariate(refresh=50)
        plan = iso.RandomBlocks(reshuffle_every=70)
        return by_hand | {"gradient": gradient, "minibatch": plan, "num_draws": num_draws, "num_chains": 2}
    return {"num_draws": num_draws}


def is_stored(case: str, folder: Path) -> bool:
    """Return whether there is a run to go on with: in a pair, by both processes."""
    parts = [folder / f"process-{i}-of-2" for i in range(2)] if case == "pair" else [folder]
    return all((part / "call.iso").is_file() for part in parts)


def run(case: str, folder: Path, num_draws: int, *, stored: bool | None = None, seed: int = 5) -> iso.Draws:
    """Return the draws of a run in `folder`: a new one, or that which is `stored` there."""
    recording._SECONDS = journal._SECONDS = (
        0.0  # states and passes are stored as often as there is something new
    )
    recording._SHARE = 0
    target, data = posterior(), rows(ROWS)
    if case == "source":
        stream._HELD, stream._BLOCK = 0, 2**12  # so that rows are read by blocks
        data = iso.data.arrays(data)
    if is_stored(case, folder) if stored is None else stored:
        return iso.resume(folder, target, data, progress=False)
    return iso.sample(
        target, data, jnp.zeros(SIZE), **settings(case, num_draws), seed=seed, progress=False, store=folder
    )


def contents(draws: iso.Draws) -> dict[str, np.ndarray]:
    """Return everything in draws that must not depend on how often a run was ended."""
    found = {f"stats.{name}": x for name, x in draws.stats.items()}
    found |= {f"posterior.{name}": x for name, x in draws.flat().items()}
    for name in ("count", "mean", "variance", "temperature", "kinetic", "refined"):
        value = getattr(draws.moments, name)
        found |= {f"moments.{name}.{leaf}": np.asarray(x) for leaf, x in tree.named_leaves(value)}
    numbers = [draws.record.steps, draws.record.s or 0, draws.record.noise_friction or 0]
    return found | {"lengths": draws.lengths, "record": np.asarray(numbers, np.float64)}


def die_in_operation(number: int) -> None:
    """End this process by SIGKILL in the `number`-th write, rename or flush to the disk from now on.

    A write is cut off half-way; every other rename and flush is done before the end, and the rest is not.
    """
    count = 0

    def due() -> bool:
        nonlocal count
        count += 1
        return count == number

    def wrapped(f: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not due():
                return f(*args, **kwargs)
            result = f(*args, **kwargs) if number % 2 else None
            os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    os.replace, os.fsync = wrapped(os.replace), wrapped(os.fsync)
    fdopen = os.fdopen

    def opened(handle: int, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        file = fdopen(handle, mode, *args, **kwargs)
        return _Torn(file, due) if mode == "wb" else file

    os.fdopen = opened


class _Torn:
    """A file whose write is cut off half-way when it is due."""

    def __init__(self, file: Any, due: Any) -> None:
        self.file, self.due = file, due

    def write(self, data: Any) -> int:
        if self.due():
            self.file.write(bytes(data)[: len(bytes(data)) // 2])
            self.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.file.write(data)

    def __enter__(self) -> "_Torn":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def main(case: str, folder: str, num_draws: str, result: str, *, stored: bool | None = None) -> None:
    """Run, and save what came out."""
    if operation := os.environ.get("DIE_IN_OPERATION"):
        die_in_operation(int(operation))
    draws = run(case, Path(folder), int(num_draws), stored=stored)
    if draws.record.interrupted:
        sys.exit(130)
    with builtins.open(f"{result}.part", "wb") as file:
        np.savez(file, **contents(draws))
    Path(f"{result}.part").rename(result)


if __name__ == "__main__":
    main(*sys.argv[1:])
