"""How often each row should be drawn, from how much its gradient varies."""

import dataclasses
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.plans import MinibatchPlan
from isotherm.data.stream import picked
from isotherm.data.weighted import Weighted
from isotherm.data.weighted_blocks import WeightedBlocks
from isotherm.sums import precision

_TOP = 4096  # most rows that count as varying most; at most one in 8 of all
_OTHERS = 4096  # random rows that represent the rest


@dataclasses.dataclass(frozen=True)
class Representatives:
    """The `num_top` rows that vary most and some random others, their numbers, and how many rows each stands for."""

    rows: PyTree[Array]
    index: np.ndarray
    copies: Float[np.ndarray, " n"]
    num_top: int


@runtime_checkable
class Rows(Protocol):
    """How much the gradient of each row with respect to v varies.

    An order is that of the expansion around the mode that is subtracted.
    """

    @property
    def passes(self) -> float:
        """The passes it took."""
        ...

    @property
    def num_data(self) -> int:
        """The number of rows."""
        ...

    def noise(self) -> tuple[Float[np.ndarray, " orders"], Float[np.ndarray, " orders"]]:
        """Return the mean eigenvalue of C for batches of one row, by order: drawn equally often, and by `plan`."""
        ...

    def plan(self, order: int) -> Weighted | WeightedBlocks:
        """Return a plan that draws rows in proportion to how much they vary."""
        ...

    def representatives(self, order: int) -> Representatives:
        """Return the rows that vary most and some others; for order 0, others alone."""
        ...

    def weights(self, order: int, plan: MinibatchPlan, chosen: Representatives) -> Float[np.ndarray, " n"]:
        """Return the weights of `representatives(order)` under `plan(order)`, or under equal probabilities."""
        ...

    def replaced(self, order: int, index: np.ndarray, roots: np.ndarray, passes: float) -> "Rows":
        """Return a copy with other root mean squares of this order for the rows at `index`, which took `passes`."""
        ...


@dataclasses.dataclass(frozen=True)
class RowsInMemory:
    """Root mean square of each row's gradient, as `roots[order][row]`. `size` is the number of parameters."""

    data: PyTree[Array]
    roots: tuple[Float[Array, " rows"], ...]
    size: int
    passes: float

    @property
    def num_data(self) -> int:
        """The number of rows."""
        return len(self.roots[0])

    def noise(self) -> tuple[Float[np.ndarray, " orders"], Float[np.ndarray, " orders"]]:
        """Return the mean eigenvalue of C for batches of one row, by order: drawn equally often, and by `plan`."""
        with precision.float64():
            equal, weighted = np.asarray([_noise(root) for root in self.roots]).T
            return equal / self.size, weighted / self.size

    def plan(self, order: int) -> Weighted:
        """Return a plan with one ticket for each row, plus N more in proportion to how much rows vary."""
        with precision.float64():
            tickets = _tickets(self.roots[order])
        return Weighted(tickets)

    def representatives(self, order: int) -> Representatives:
        """Return the rows that vary most and some others; for order 0, others alone."""
        N, top = self.num_data, np.zeros(0, int)
        if order:
            top = np.sort(np.asarray(_top(self.roots[order], num_top(N))))
        drawn = np.random.default_rng(0).integers(N, size=4 * _OTHERS) if N > 8 * _OTHERS else np.arange(N)
        others = np.random.default_rng(1).permutation(np.setdiff1d(drawn, top))[:_OTHERS]
        index = np.append(top, others)
        return Representatives(picked(self.data, index), index, copies_of(N, len(top), len(others)), len(top))

    def weights(self, order: int, plan: MinibatchPlan, chosen: Representatives) -> Float[np.ndarray, " n"]:
        """Return the weights of `representatives(order)` under `plan(order)`, or under equal probabilities."""
        return plan.weights_of(chosen.index) if isinstance(plan, Weighted) else np.ones(len(chosen.index))

    def replaced(self, order: int, index: np.ndarray, roots: np.ndarray, passes: float) -> "RowsInMemory":
        """Return a copy with other root mean squares of this order for the rows at `index`, which took `passes`."""
        changed = list(self.roots)
        new = tree.put(roots, changed[order].dtype)
        changed[order] = _replaced(changed[order], tree.put(index, np.int32), new)
        return dataclasses.replace(self, roots=tuple(changed), passes=self.passes + passes)


def num_top(N: int) -> int:
    """Return how many of N rows count as varying most."""
    return max(1, min(_TOP, N // 8))


def copies_of(N: int, top: int, others: int) -> Float[np.ndarray, " n"]:
    """Return how many of N rows each representative stands for."""
    return np.append(np.ones(top), np.full(others, (N - top) / max(others, 1)))


def _shares(root: Float[Array, " rows"]) -> Float[Array, " rows"]:
    """Return N numbers in proportion to the roots, with a mean of 1."""
    total = jnp.sum(root)
    return jnp.where(total > 0, root * (len(root) / jnp.where(total > 0, total, 1)), 1)


@compile_quickly
def _noise(root: Float[Array, " rows"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    root = root.astype(jnp.float64)
    r = 1 + _shares(root)
    return len(root) * jnp.sum(root**2), jnp.sum(r) * jnp.sum(root**2 / r)


@compile_quickly
def _tickets(root: Float[Array, " rows"]) -> Int[Array, " rows"]:
    # Rounding the running sums keeps the total at 2 N, so that compiled programs have one shape.
    ends = jnp.rint(jnp.cumsum(_shares(root.astype(jnp.float64)))).astype(jnp.int32).at[-1].set(len(root))
    return 1 + jnp.diff(ends, prepend=jnp.zeros(1, ends.dtype))


@compile_quickly
def _top(root: Float[Array, " rows"], count: int) -> Int[Array, " count"]:
    return jax.lax.top_k(root, count)[1]


@compile_quickly
def _replaced(
    root: Float[Array, " rows"], index: Int[Array, " n"], new: Float[Array, " n"]
) -> Float[Array, " rows"]:
    return root.at[index].set(new)
