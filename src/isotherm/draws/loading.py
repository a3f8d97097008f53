"""Draws read back from the file that `Draws.save` has written, and checked."""

import os

import jax
import numpy as np
from jaxtyping import PyTree

from isotherm import tree
from isotherm.draws.draws import OPTIONAL, PER_PARAMETER, Draws, Moments
from isotherm.draws.record import About, Labels, RunRecord
from isotherm.files import refusing_damage
from isotherm.storage import REPAIR, read_archive
from isotherm.typed_json import typed


def load(path: str | os.PathLike[str], *, like: PyTree | None = None) -> Draws:
    """Read draws written by `Draws.save`.

    Dicts, lists and tuples of parameters come back as they were; modules and other classes come back as dicts
    by leaf name, unless `like`, a pytree of the original structure, is given. Raises a `DamagedFileError` if the file
    is not exactly as it was written.
    """
    names = () if like is None else ("posterior", *PER_PARAMETER, "refined")
    record, extra = read_archive(path, kind="draws", like=dict.fromkeys(names, like))
    with refusing_damage(path, REPAIR):
        draws = Draws(
            posterior=record["posterior"],
            stats=record["stats"],
            moments=Moments(
                record["count"],
                *(record[name] for name in PER_PARAMETER),
                **{name: record.get(name) for name in OPTIONAL},
            ),
            status=typed(tuple[str, ...], extra["status"], "status"),
            lengths=record["lengths"],
            complete=record["complete"],
            record=RunRecord.from_json(extra["record"]),
            derived=record["derived"],
            labels=typed(Labels, extra["labels"], "labels"),
            about=typed(About, extra["about"], "about"),
        )
        check_shapes(draws)
    return draws


def check_shapes(draws: Draws) -> None:
    """Raise unless every array has an entry for each chain and each draw that it should have, and labels fit."""
    m, count = draws.moments, (draws.num_chains,)
    per_chain = [
        draws.lengths,
        draws.complete,
        m.count,
        m.mean,
        m.variance,
        m.temperature,
        m.kinetic,
        m.refined,
    ]
    per_draw = [draws.posterior, draws.derived]
    for x in jax.tree.leaves([*per_chain, draws.stats, *per_draw]):
        if x.shape[:1] != count:
            raise ValueError(f"an array of shape {x.shape} must have an entry for each of {count[0]} chains")
    shapes = {x.shape[1:2] for x in jax.tree.leaves(per_draw)}
    if len(shapes) > 1 or () in shapes:
        raise ValueError(f"all parameters must have as many draws; their numbers are {sorted(shapes)}")
    for name, x, kind in (("lengths", draws.lengths, "iu"), ("complete", draws.complete, "b")):
        if not isinstance(x, np.ndarray) or x.shape != count or x.dtype.kind not in kind:
            raise ValueError(f"`{name}` must be an array with one entry for each chain")
    for name, parts in (("stats", draws.stats), ("derived", draws.derived)):
        if not (isinstance(parts, dict) and all(isinstance(x, np.ndarray) for x in parts.values())):
            raise ValueError(f"`{name}` must hold arrays by name")
    for name, x in {**draws.flat(), **draws.derived}.items():
        if name in draws.labels and x.shape[2:] != (lengths := tuple(map(len, draws.labels[name]))):
            raise ValueError(f"`{name}` has the shape {x.shape[2:]}, and its labels are for {lengths}")
    names = [name for name, _ in tree.named_leaves(draws.posterior)]
    for part in (m.mean, m.variance, m.temperature, *([] if m.refined is None else [m.refined])):
        if [name for name, _ in tree.named_leaves(part)] != names:
            raise ValueError("moments must have the parameters that the draws have")
