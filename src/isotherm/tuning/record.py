"""What a warm-up chose, and why."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.data.minibatch import MinibatchPlan
from isotherm.gradient import Gradient
from isotherm.preconditioner import Preconditioner
from isotherm.samplers.base import Sampler


@dataclasses.dataclass(frozen=True, eq=False)
class Warmup:
    """Settings for `iso.sample`, found by a look at the posterior. Pass it as `init`, as often as you like.

    Chains start around the mode, `spread` standard deviations apart. `reasons` has a line for each choice: what, its
    value, and why. `passes` and `seconds` are what it cost.
    """

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

    def starts(self, num_chains: int, *, key: Key[Array, ""]) -> PyTree[Array]:
        """One start a chain, drawn from the normal approximation around the mode."""
        center = self.preconditioner.center

        def one(key: Key[Array, ""]) -> PyTree[Array]:
            v = tree.multiply(self.spread, tree.normal_like(center, key=key))
            return self.preconditioner.to_params(v)

        return jax.vmap(one)(jax.random.split(key, num_chains))

    def describe(self) -> dict[str, Any]:
        """As plain JSON values, for `draws.settings`."""
        return {
            "passes": round(self.passes, 2),
            "seconds": round(self.seconds, 3),
            "choices": {name: {"value": value, "why": why} for name, value, why in self.reasons},
        }

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=110, force_terminal=False)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    __repr__ = __str__

    def __rich_console__(self, console, options):  # noqa: ANN001
        from rich.table import Table

        table = Table(box=None, header_style="bold")
        for title in ("choice", "value", "why"):
            table.add_column(title, no_wrap=title != "why")
        for row in self.reasons:
            table.add_row(*row)
        yield table
        yield f"{self.passes:.1f} passes over the data, {self.seconds:.1f} s"


def as_leaf(x: Any, like: PyTree) -> Array:
    """In the dtype of the ravelled parameters."""
    return jnp.asarray(x, tree.ravel(like).dtype)
