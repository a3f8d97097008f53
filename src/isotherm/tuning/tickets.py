"""How often each row should be drawn, from how much its gradient varies: work on N numbers, on the device."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.sums import precision

_TOP = 4096  # most rows that count as varying most; at most one in 8 of all


@dataclasses.dataclass(frozen=True)
class Rows:
    """Root mean square of each row's gradient with respect to v, as `roots[order][row]`, and the passes it took.

    `size` is the number of parameters. The order is that of the expansion around the mode that is subtracted.
    """

    roots: tuple[Float[Array, " rows"], ...]
    size: int
    passes: float

    @property
    def num_data(self) -> int:
        """The number of rows."""
        return len(self.roots[0])

    def noise(self) -> tuple[Float[np.ndarray, " orders"], Float[np.ndarray, " orders"]]:
        """Return the mean eigenvalue of C for batches of one row, by order: for equal probabilities and for tickets.

        Tickets are those of `tickets`, before they are rounded to integers.
        """
        with precision.float64():
            equal, weighted = np.asarray([_noise(root) for root in self.roots]).T
            return equal / self.size, weighted / self.size

    def tickets(self, order: int) -> Int[Array, " rows"]:
        """Return one ticket for each row, plus N more in proportion to how much the rows' gradients vary."""
        with precision.float64():
            return _tickets(self.roots[order])

    def top(self, order: int) -> np.ndarray:
        """Return the indices of the rows that vary most, in order."""
        return np.sort(np.asarray(_top(self.roots[order], max(1, min(_TOP, self.num_data // 8)))))

    def replaced(self, index: np.ndarray, order: int, roots: np.ndarray, passes: float) -> "Rows":
        """Return a copy with other numbers of this order for the rows at `index`, which took `passes`."""
        changed = list(self.roots)
        new = tree.put(roots, changed[order].dtype)
        changed[order] = _replaced(changed[order], tree.put(index, np.int32), new)
        return Rows(tuple(changed), self.size, self.passes + passes)


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
