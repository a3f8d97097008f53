"""Stored runs: the setup and the result."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from isotherm.centring import Charted, ChartedLikelihood, charted
from isotherm.chains.problem import Problem
from isotherm.chains.setup import Setup
from isotherm.draws import Draws
from isotherm.draws.record import RunRecord
from isotherm.files import refusing_damage
from isotherm.storage import REPAIR
from isotherm.store import plain
from isotherm.store.folder import RunFolder
from isotherm.store.saved import PASSES, RESULT, SETUP, Saved


def known_objects(problem: Problem) -> dict[str, Any]:
    """Return what a setup refers to but does not store, by name.

    Of a density in the coordinates of groups only that of the free parameters is known: the coordinates are stored.
    """
    posterior, density = problem.posterior, problem.density
    if isinstance(density.log_likelihood, ChartedLikelihood):
        density = density.log_likelihood.posterior
    return {
        "problem": problem,
        "posterior": posterior,
        "density": density,
        "data": problem.data,
        "constraint": posterior.constraint,
        "transforms": posterior.transforms,
        "log_likelihood": posterior.log_likelihood,
        "log_prior": posterior.log_prior,
        "density.log_likelihood": density.log_likelihood,
        "density.log_prior": density.log_prior,
    }


def save_setup(folder: RunFolder, setup: Setup, record: RunRecord | None = None) -> None:
    """Store a setup and, once it is known, the record of its run; drop what was kept to find the setup.

    Parts that cannot be stored, such as a schedule, are marked. A resumption must be given them again, and raises if
    the rest is not what is stored.
    """
    saved, known = folder.read(SETUP, "setup"), known_objects(setup.problem)
    if saved is not None and saved.about:
        node, arrays = plain.encode(setup, known)
        same = _without_costs(node) == _without_costs(saved.node) and len(arrays) == len(saved.arrays)
        if not same or not all(map(np.array_equal, arrays, saved.arrays)):
            raise ValueError(
                f"`setup` must be that of the stored run; its settings differ from those in {folder.path}. Pass the "
                "arguments with which the run was started."
            )
        return
    about = {} if record is None else {"record": record.to_json()}
    folder.write(SETUP, "setup", setup, known=known, about=about)
    folder.remove(PASSES)


def _without_costs(node: Any) -> Any:
    """Return a setup as JSON, without what it cost."""
    return {**node, "fields": {k: x for k, x in node["fields"].items() if k not in ("seconds", "passes")}}


def read_setup(folder: RunFolder, problem: Problem, like: PyTree | None) -> Setup | None:
    """Return the stored setup for a problem; `None` if there is none yet, or it could not be stored."""
    saved = folder.read(SETUP, "setup")
    if saved is None or plain.opaque(saved.node):
        return None
    setup = decoded(folder.path / SETUP, saved, known_objects(problem), like)
    if not isinstance(setup.kernel.constraint, Charted):
        return setup
    # The problem is that of the free parameters, as it was before the warm-up.
    density = charted(problem.density, setup.kernel.constraint)
    there = dataclasses.replace(problem, density=density, init=setup.kernel.preconditioner.center)
    return dataclasses.replace(setup, problem=there)


def decoded(path: Path, saved: Saved, known: dict[str, Any] | None = None, like: PyTree | None = None) -> Any:
    """Return a stored object. Raises the error of a damaged file if it cannot be built."""
    with refusing_damage(path, REPAIR):
        return saved.decoded(known, like)


def save_result(folder: RunFolder, draws: Draws) -> None:
    """Store all of a run except its draws."""
    per_chain = {name: x for name, x in draws.stats.items() if x.ndim == 1}
    value = {
        "moments": draws.moments,
        "stats": per_chain,
        "lengths": draws.lengths,
        "complete": draws.complete,
    }
    about = {"status": list(draws.status), "record": draws.record.to_json(), "num_draws": draws.num_draws}
    folder.write(RESULT, "result", value, about=about)
