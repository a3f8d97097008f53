"""Where the draws of a run go: into memory, or to the disk together with the state that a resumption needs."""

import time
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm import tree
from isotherm.chains import loop
from isotherm.chains.placement import Placement
from isotherm.files import damaged, refusing_damage
from isotherm.gradients.control_variate import Anchor
from isotherm.storage import REPAIR
from isotherm.store import plain
from isotherm.store.draws_writer import DrawsWriter
from isotherm.store.folder import RunFolder, explaining
from isotherm.store.saved import DRAWS, IN_MEMORY
from isotherm.store.zarr_layout import StoredLeaf, ZarrLayout

_SECONDS = 1.0  # between two states, at least
_SHARE = 40  # times as long as writing the last one took: so writing takes a fortieth of the run


class Position:
    """Where a run stands: the chains, and what the driver keeps beside them."""

    def __init__(
        self,
        lanes: loop.Lane,
        last_finite: PyTree,
        anchors: Anchor | None,
        oldest: tuple[PyTree, Anchor | None] | None,
        step: int,
        seconds: float = 0.0,
    ) -> None:
        self.lanes, self.last_finite, self.anchors, self.oldest = lanes, last_finite, anchors, oldest
        self.step, self.seconds = step, seconds

    @property
    def arrays(self) -> dict[str, Any]:
        """Everything but the numbers."""
        return {
            "lanes": self.lanes,
            "last_finite": self.last_finite,
            "anchors": self.anchors,
            "oldest": self.oldest,
        }


class Recorder(Protocol):
    """Receives the draws of a run."""

    def add(self, kept: loop.Kept, count: int) -> None:
        """Keep the first `count` draws of a chunk, whose leaves are (draw, lane, ...)."""

    def save(self, position: Position, *, now: bool) -> None:
        """Save where the run stands, `now` or if enough time has passed."""

    def truncate(self, count: int) -> None:
        """Drop all but the first `count` draws of each chain."""

    def result(self, lanes: loop.Lane) -> loop.Kept:
        """Return all draws, (chain, draw, ...)."""


class InMemory:
    """Kept draws on the host, allocated once."""

    def __init__(self, num_draws: int, lanes: int) -> None:
        self.num_draws, self.lanes, self.filled = num_draws, lanes, 0
        self.arrays: PyTree = None

    def add(self, kept: loop.Kept, count: int) -> None:
        """Keep the first `count` draws of a chunk."""
        if self.arrays is None:
            self.arrays = jax.tree.map(
                lambda x: np.empty((self.lanes, self.num_draws, *x.shape[2:]), x.dtype), kept
            )
        for array, x in zip(jax.tree.leaves(self.arrays), jax.tree.leaves(kept), strict=True):
            array[:, self.filled : self.filled + count] = np.asarray(x)[:count, : self.lanes].swapaxes(0, 1)
        self.filled += count

    def save(self, position: Position, *, now: bool) -> None:
        """Do nothing."""

    def truncate(self, count: int) -> None:
        """Drop all but the first `count` draws of each chain."""
        self.filled = min(self.filled, count)

    def result(self, lanes: loop.Lane) -> loop.Kept:
        """Return all draws."""
        if self.arrays is None:
            empty = loop.Kept(lanes.accumulator.reference, lanes.stats)
            return jax.tree.map(lambda x: np.empty((self.lanes, 0, *x.shape[1:]), x.dtype), empty)
        return jax.tree.map(lambda x: x[:, : self.filled], self.arrays)


class OnDisk:
    """Draws and states in the folder of a run. `resumed` is the state to go on from, if there is one."""

    def __init__(
        self, folder: RunFolder, lanes: loop.Lane, placement: Placement, num_draws: int, num_steps: int
    ) -> None:
        self.folder, self.placement = folder, placement
        self.num_draws, self.num_steps = num_draws, num_steps
        self.template = loop.Kept(lanes.accumulator.reference, lanes.stats)
        self.parameters = _numbered(self.template.params)
        self.snapshot = folder.snapshot()
        leaves = _stored_leaves(self.template)
        self.layout = ZarrLayout.of(folder.path / DRAWS, leaves, placement.lanes, num_draws)
        if self.snapshot is not None:
            self.layout = self.snapshot.layout
            if self.layout.leaves != leaves or self.layout.chains != placement.lanes:
                raise damaged(folder.path, "its draws have other names or shapes than the parameters")
        if self.snapshot is None or self.snapshot.about["num_draws"] != num_draws:
            with explaining(folder.path):
                self.layout.describe(num_draws)
        self.writer = DrawsWriter(self.layout)
        if self.snapshot is not None:
            self.writer.restore(self.snapshot.drawn, self.snapshot.checksums)
        self.began = time.perf_counter()
        self.saved_at, self.cost = self.began, 0.0

    def resumed(self, start: Position) -> Position:
        """Return where the run stood when it was last saved; `start` if it never was."""
        if self.snapshot is None:
            return start
        saved = self.snapshot.value
        # The oldest positions are there once anchors have moved.
        moved = start.oldest if start.oldest is not None else (start.lanes.state.position, start.anchors)
        template = start.arrays | {"oldest": None}
        with refusing_damage(self.folder.path, REPAIR):
            found = jax.tree.leaves(saved.decoded())
            if len(found) != len(jax.tree.leaves(template)):
                template["oldest"] = moved
            expected, structure = jax.tree.flatten(template)
            shapes = [(x.shape, x.dtype) for x in found]
            if shapes != [((self.placement.lanes, *x.shape[1:]), x.dtype) for x in expected]:
                raise ValueError("its state does not fit the chains of this run")
        arrays = structure.unflatten([self.placement.placed(x) for x in found])
        return Position(**arrays, step=saved.about["step"], seconds=saved.about["seconds"])

    def add(self, kept: loop.Kept, count: int) -> None:
        """Keep the first `count` draws of a chunk."""
        with explaining(self.folder.path):
            self.writer.add([np.asarray(x) for x in jax.tree.leaves(kept)], count)

    def save(self, position: Position, *, now: bool) -> None:
        """Write the draws so far, and then where the run stands, `now` or if enough time has passed."""
        began = time.perf_counter()
        if not now and began - self.saved_at < max(_SECONDS, _SHARE * self.cost):
            return
        layout = self.layout
        host = lambda x: np.asarray(x)[: self.placement.lanes]
        about = {
            "step": position.step,
            "num_steps": self.num_steps,
            "drawn": self.writer.drawn,
            "num_draws": self.num_draws,
            "seconds": position.seconds,
            "leaves": [[x.group, x.name, x.shape, x.dtype] for x in layout.leaves],
            "parameters": self.parameters,
            "chains": layout.chains,
            "chunk_draws": layout.chunk_draws,
        }
        with explaining(self.folder.path):
            checksums = self.writer.flush()
            self.folder.write_snapshot(jax.tree.map(host, position.arrays), checksums, about)
        self.saved_at = time.perf_counter()
        self.cost = self.saved_at - began

    def truncate(self, count: int) -> None:
        """Drop all but the first `count` draws of each chain."""
        self.writer.truncate(count)

    def result(self, lanes: loop.Lane) -> loop.Kept:
        """Return all draws. Those of the parameters stay on the disk if they take much memory."""
        snapshot = self.folder.snapshot()
        assert snapshot is not None
        arrays = snapshot.arrays()
        leaves = [arrays[leaf.group][leaf.name] for leaf in self.layout.leaves]
        large = sum(x.nbytes for x in leaves) > IN_MEMORY
        held = [x if large and x.leaf.group == "posterior" else np.asarray(x) for x in leaves]
        return jax.tree.structure(self.template).unflatten(held)


def _numbered(params: PyTree) -> Any:
    """Return the structure of the parameters as JSON, with the numbers of the leaves in their places."""
    structure = jax.tree.structure(params)
    return plain.encode(structure.unflatten(range(structure.num_leaves)))[0]


def _stored_leaves(kept: loop.Kept) -> tuple[StoredLeaf, ...]:
    """Return what is stored of one draw, in the order of its leaves."""
    leaves, used = [], set()
    for group, values in (("posterior", kept.params), ("sample_stats", kept.stats)):
        for name, x in tree.named_leaves(values):
            name = unique = name or "theta"
            while (group, unique.casefold()) in used:  # some file systems do not tell a from A
                unique += "'"
            used.add((group, unique.casefold()))
            leaves.append(StoredLeaf(group, unique, tuple(x.shape[1:]), jnp.dtype(x.dtype).name))
    return tuple(leaves)
