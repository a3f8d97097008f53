"""What a warm-up chose, and why."""

import dataclasses
import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.plans import MinibatchPlan
from isotherm.gradients.minibatch import Gradient
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.printed import Printed
from isotherm.samplers.base import Sampler

_LOOKED_AT = 4096  # rows


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Warmup(Printed):
    """Settings for `iso.sample`, found by a look at the posterior. Pass it as `init`, as often as you like.

    It serves the posterior and the data that it was made for, and `iso.sample` refuses others.

    Chains start around the mode, or around one of `points` each, `spread` standard deviations apart. `reasons` has a
    line for each choice: what, its value, and why. `passes` and `seconds` are what it cost.
    """

    posterior: Posterior
    fingerprint: str
    sampler: Sampler
    gradient: Gradient
    minibatch: MinibatchPlan
    preconditioner: Preconditioner
    batch_size: int
    burn_in: int
    thinning: int
    spread: float
    passes: float
    seconds: float
    reasons: tuple[tuple[str, str, str], ...]
    points: PyTree[Array] | None = None

    def starts(self, num_chains: int, *, key: Key[Array, ""]) -> PyTree[Array]:
        """One start a chain, drawn from the normal approximation around its place."""
        return _starts(self.preconditioner, self.points, jnp.asarray(self.spread), key, num_chains)

    def describe(self) -> dict[str, Any]:
        """As plain JSON values, for `draws.settings`."""
        return {
            "passes": round(self.passes, 2),
            "seconds": round(self.seconds, 3),
            "choices": {name: {"value": value, "why": why} for name, value, why in self.reasons},
        }

    def __rich_console__(self, console, options):  # noqa: ANN001
        from rich.table import Table

        table = Table(box=None, header_style="bold")
        for title in ("choice", "value", "why"):
            table.add_column(title, no_wrap=title != "why")
        for row in self.reasons:
            table.add_row(*row)
        yield table
        yield f"{self.passes:.1f} passes over the data, {self.seconds:.1f} s"


@compile_quickly
def _starts(
    preconditioner: Preconditioner,
    points: PyTree[Array] | None,
    spread: Float[Array, ""],
    key: Key[Array, ""],
    num_chains: int,
) -> PyTree[Array]:
    center = preconditioner.center
    points = jax.tree.map(lambda x: x[None], center) if points is None else points
    own = jnp.arange(num_chains) % jax.tree.leaves(points)[0].shape[0]

    def one(key: Key[Array, ""], i: Int[Array, ""]) -> PyTree[Array]:
        v = tree.multiply(spread, tree.normal_like(center, key=key))
        return jax.tree.map(lambda p, move: p[i] + move, points, preconditioner.multiply(v))

    return jax.vmap(one)(jax.random.split(key, num_chains), own)


def fingerprint(data: PyTree[Array]) -> str:
    """Of shapes, dtypes and a few thousand rows: enough to tell other data."""
    digest = hashlib.sha256()
    for name, x in tree.named_leaves(data):
        index = np.unique(np.linspace(0, x.shape[0] - 1, _LOOKED_AT).astype(int))
        digest.update(f"{name} {x.shape} {x.dtype}".encode())
        digest.update(np.ascontiguousarray(np.asarray(x[index])).tobytes())
    return digest.hexdigest()


def as_leaf(x: Any, like: PyTree) -> Array:
    """In the dtype of the ravelled parameters."""
    return jnp.asarray(x, tree.ravel(like).dtype)
