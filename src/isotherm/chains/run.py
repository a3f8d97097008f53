"""`run`: from setups to draws."""

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

from isotherm import keys, processes, tree
from isotherm.chains import advice
from isotherm.chains.collect import collect, record_of
from isotherm.chains.drive import drive
from isotherm.chains.drive_together import drive_together
from isotherm.chains.ensemble import Ensemble, Length, ensemble_of, groups_of_one_shape
from isotherm.chains.launch import launched
from isotherm.chains.noise import measure
from isotherm.chains.resident import resident
from isotherm.chains.setup import Setup
from isotherm.chains.stored import save_result, save_setup
from isotherm.draws import Draws
from isotherm.store.folder import RunFolder
from isotherm.sums import precision

_MAX_CHECKED = 8  # setups of a sweep whose noise is measured before the start


def run(
    setups: Sequence[Setup],
    length: Length,
    key: Key[Array, ""],
    *,
    progress: bool,
    stacklevel: int,
    folder: RunFolder | None = None,
) -> list[Draws]:
    """Return draws from each of `setups`, which may differ only in their samplers.

    Setups whose samplers differ only in numbers run side by side, in one compilation. Warnings point `stacklevel`
    calls up. With a `folder`, the run of a single setup is stored there, or goes on from what is stored.
    """
    with precision.float64(setups[0].problem.float64):
        return _run(setups, length, key, progress=progress, stacklevel=stacklevel + 1, folder=folder)


def _run(
    setups: Sequence[Setup],
    length: Length,
    key: Key[Array, ""],
    *,
    progress: bool,
    stacklevel: int,
    folder: RunFolder | None,
) -> list[Draws]:
    problem, positions = setups[0].problem, setups[0].starts.positions(length.num_chains, key=key)
    problem.check_starts(positions)
    gradient = setups[0].bound(positions).kernel.gradient  # one pass over the data serves all setups
    setups = [setup.with_gradient(gradient) for setup in setups]
    groups = groups_of_one_shape(setups)
    ensembles = [ensemble_of([setups[i] for i in group], positions, length, key) for group in groups]
    if folder is not None:
        save_setup(folder, setups[0], record_of(ensembles[0], setups[0], 0, 0.0))
    together = processes.count() > 1
    launches = [] if together else [launched(ensembles[0])]
    for ensemble in ensembles:
        _warn_before(ensemble, stacklevel=stacklevel + 1)
    drawn: dict[int, Draws] = {}
    interrupted = False
    for ensemble, group in zip(ensembles, groups, strict=True):
        name = type(ensemble.setup.sampler).__name__
        title = name if len(group) == 1 else f"{name} x {len(group)}"
        if together:
            outcome = drive_together(
                ensemble, progress=progress, title=title, cancelled=interrupted, folder=folder
            )
        else:
            outcome = drive(
                ensemble,
                progress=progress,
                title=title,
                cancelled=interrupted,
                folder=folder,
                launch=launches.pop() if launches else None,
            )
        interrupted = outcome.interrupted
        drawn |= dict(zip(group, collect(ensemble, outcome, stacklevel=stacklevel + 1), strict=True))
    if folder is not None:
        save_result(folder, drawn[0])
    return [drawn[i] for i in range(len(setups))]


def _warn_before(ensemble: Ensemble, *, stacklevel: int) -> None:
    """Measure the noise at the first start and warn of problems that it will cause."""
    kernel = ensemble.setup.kernel
    for text in advice.about_plan(kernel.sampler, kernel.minibatch):
        advice.warn(text, stacklevel=stacklevel + 1)
    if ensemble.setup.refresh_every:  # chains start at their anchors, without noise
        return
    position = jax.tree.map(lambda x: tree.put(np.asarray(x)[0]), ensemble.positions)
    chosen = ensemble.setups[:_MAX_CHECKED]
    split = keys.several(jax.random.fold_in(ensemble.key, keys.PREFLIGHT), len(chosen) + 1)
    kernel, data = resident(kernel, ensemble.data, key=split[-1])
    warned: set[str] = set()
    for setup, key in zip(chosen, split[:-1], strict=True):
        measuring = eqx.tree_at(lambda k: k.sampler, kernel, setup.sampler)
        noise = measure(measuring, data, position, step=0, key=key)
        if noise is None:
            return
        size = tree.size(position)
        for text in advice.about_noise(setup.sampler, noise, kernel.batch_size, kernel.num_data, size):
            if text not in warned:
                warned.add(text)
                advice.warn(f"At the start, {text}", stacklevel=stacklevel + 1)
