"""`load`: draws from a file, or from the folder of a run that has ended or is under way."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from isotherm.chains.moments import finish
from isotherm.chains.stored import decoded
from isotherm.draws import Draws, Moments, check_shapes
from isotherm.draws import load as load_file
from isotherm.draws.record import About, Labels, RunRecord
from isotherm.files import damaged, read_json, refusing_damage
from isotherm.storage import REPAIR
from isotherm.store import plain
from isotherm.store.saved import (
    ABOUT,
    IN_MEMORY,
    RESULT,
    SETUP,
    Saved,
    Snapshot,
    parts,
    read_saved,
    read_snapshot,
    run_of,
)
from isotherm.typed_json import typed


def load(path: str | os.PathLike[str], *, like: PyTree | None = None) -> Draws:
    """Return draws from a file that `Draws.save` wrote, or from the folder of a run, which may still be under way.

    Dicts, lists and tuples of parameters come back as they were; modules and other classes come back as dicts
    by leaf name, unless `like`, a pytree of the original structure, is given. Draws of more than 256 MB that are read
    from a folder stay on the disk: leaves of `draws.posterior` are read when they are indexed, or by `np.asarray`.
    """
    folder = Path(path)
    if not folder.is_dir():
        return load_file(path, like=like)
    found = list(parts(folder))
    if not found:
        raise ValueError(f"`path` must be a file of draws or the folder of a stored run; {path} is neither.")
    if found != [folder] and len(found) != (total := int(found[0].name.rpartition("-")[2])):
        raise damaged(folder, f"it has the folders of {len(found)} of {total} processes", REPAIR)
    draws = _joined([_part(part, like) for part in found])
    if not (path := folder / ABOUT).is_file():
        return draws
    content = read_json(path, REPAIR)
    with refusing_damage(path, REPAIR):
        if content["runs"] != [run_of(part) for part in found]:
            raise ValueError("it belongs to another run than the other files of the folder")
        about, labels = typed(About, content["about"], "about"), typed(Labels, content["labels"], "labels")
        named = dataclasses.replace(draws, about=about, labels=labels)
        check_shapes(named)
        return named


def _part(path: Path, like: PyTree | None) -> Draws:
    """Return the draws of one process."""
    snapshot = read_snapshot(path)
    if snapshot is None:
        raise ValueError(
            f"`path` must be the folder of a run that has drawn something; the run in {path} is still in its "
            "warm-up. Wait for it, or go on with `iso.resume` if it was ended."
        )
    with refusing_damage(path, REPAIR):
        posterior, stats = stored_draws(snapshot, like)
    result = None
    if (path / RESULT).is_file():
        result = read_saved(path / RESULT, "result", snapshot.saved.after)
    with refusing_damage(path if result is None else path / RESULT, REPAIR):
        if result is not None and result.about["num_draws"] == snapshot.drawn:
            draws = _complete(path, result, posterior, stats, like)
        else:
            draws = _under_way(path, snapshot, posterior, stats, like)
        check_shapes(draws)
    return draws


def _complete(
    path: Path, result: Saved, posterior: PyTree, stats: dict[str, np.ndarray], like: PyTree | None
) -> Draws:
    """Return the draws of a run that has come to its end."""
    value, about = decoded(path / RESULT, result, like=like), result.about
    return Draws(
        posterior=posterior,
        stats={**stats, **value["stats"]},
        moments=value["moments"],
        status=typed(tuple[str, ...], about["status"], "status"),
        lengths=value["lengths"],
        complete=value["complete"],
        record=RunRecord.from_json(about["record"]),
    )


def stored_draws(snapshot: Snapshot, like: PyTree | None = None) -> tuple[PyTree, dict[str, np.ndarray]]:
    """Return the draws of a state and their statistics. Draws that take much memory stay on the disk."""
    arrays = snapshot.arrays()
    leaves = list(arrays["posterior"].values())
    large = sum(x.nbytes for x in leaves) > IN_MEMORY
    held = [x if large else np.asarray(x) for x in leaves]
    numbers = plain.decode(snapshot.about["parameters"], [], like=like)
    posterior = jax.tree.map(lambda i: held[i], numbers)
    return posterior, {name: np.asarray(x) for name, x in arrays["sample_stats"].items()}


def _under_way(
    path: Path, snapshot: Snapshot, posterior: PyTree, stats: dict[str, np.ndarray], like: PyTree | None
) -> Draws:
    """Return the draws of a run that has not ended, or that was ended before it was complete."""
    about, setup = snapshot.about, read_saved(path / SETUP, "setup")
    if setup.seal != snapshot.saved.after[SETUP]:
        raise damaged(path / SETUP, "it does not belong to the other files of the folder", REPAIR)
    lanes = decoded(path, snapshot.value, like=like)["lanes"]
    moments, ended = finish(lanes.accumulator), np.asarray(lanes.ended)
    record = RunRecord.from_json(setup.about["record"])
    passes = record.data_passes + about["step"] * record.batch_size / record.num_data
    record = dataclasses.replace(
        record,
        num_draws=about["num_draws"],
        steps=about["step"],
        seconds=round(about["seconds"], 3),
        data_passes=passes,
        interrupted=True,
    )
    per_chain = [np.asarray(x).reshape(len(ended), -1) for x in jax.tree.leaves(moments.temperature)]
    stats["configurational_temperature"] = np.concatenate(per_chain, axis=1).mean(axis=1)
    if lanes.clipped is not None:
        stats["clipped_steps"] = np.asarray(lanes.clipped)
    first = (ended - record.burn_in) // record.thinning
    return Draws(
        posterior=posterior,
        stats=stats,
        moments=moments,
        status=tuple(
            f"turned non-finite at step {end}"
            if end >= 0
            else f"{about['step']} of {about['num_steps']} steps so far"
            for end in ended.tolist()
        ),
        lengths=np.where(ended < 0, snapshot.drawn, np.clip(first, 0, snapshot.drawn)),
        complete=ended < 0,
        record=record,
    )


def _joined(pieces: Sequence[Draws]) -> Draws:
    """Return the chains of all processes as one, as far as all of them have come."""
    if len(pieces) == 1:
        return pieces[0]
    count = min(x.num_draws for x in pieces)
    lanes = sum(len(jax.tree.leaves(x.posterior)[0]) for x in pieces)
    chains = lambda *xs: np.concatenate([np.asarray(x) for x in xs])
    drawn = lambda *xs: np.concatenate([np.asarray(x)[:, :count] for x in xs])
    first = pieces[0]
    per_draw = {name: x for name, x in first.stats.items() if x.ndim == 2}
    stats: dict[str, Any] = {name: drawn(*(x.stats[name] for x in pieces)) for name in per_draw}
    merged = dataclasses.replace(
        first, posterior=jax.tree.map(drawn, *(x.posterior for x in pieces)), stats={**first.stats, **stats}
    )
    if len(first.status) == lanes:  # a result is that of all processes
        return merged
    of_chains = lambda pick: jax.tree.map(chains, *(pick(x) for x in pieces))
    rest = {name: chains(*(x.stats[name] for x in pieces)) for name in first.stats if name not in per_draw}
    names = [field.name for field in dataclasses.fields(Moments)]
    return dataclasses.replace(
        merged,
        stats={**stats, **rest},
        moments=Moments(**{name: of_chains(lambda x, name=name: getattr(x.moments, name)) for name in names}),
        status=tuple(text for x in pieces for text in x.status),
        lengths=np.minimum(chains(*(x.lengths for x in pieces)), count),
        complete=chains(*(x.complete for x in pieces)),
    )
