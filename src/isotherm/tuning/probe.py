"""How noisy each row's gradient is over the posterior, as it is and less its expansion around the mode.

Derivatives of all rows along random directions at random points of the posterior's normal approximation: but for a
few thousand rows, no gradient of a row is ever formed.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner
from isotherm.sums import passes

ORDERS = (0, 1, 2)
_PROBES = 6
_LONG = 2**26  # numbers in the data, from which it pays to compile with care
_AGAIN, _POINTS = 16, 16  # probes and points for the rows that matter most
_TOP = 4096  # such rows, or one in 8 of all where that is less


@dataclasses.dataclass(frozen=True)
class Rows:
    """Mean square of each row's gradient with respect to v, `[order][row]`, for `size` parameters; passes it took."""

    squares: np.ndarray
    size: int
    passes: float

    def noise(self, order: int, tickets: np.ndarray | None = None) -> float:
        """Mean eigenvalue of C for batches of one row, drawn by these tickets."""
        squares = self.squares[order] / self.size
        if tickets is None:
            return float(len(squares) * squares.sum())
        return float(tickets.sum() * np.sum(squares / tickets))

    def top(self, order: int) -> np.ndarray:
        """The rows that vary most."""
        num_data = self.squares.shape[1]
        count = max(1, min(_TOP, num_data // 8))
        return np.sort(np.argpartition(-self.squares[order], count - 1)[:count])

    def tickets(self, order: int) -> np.ndarray:
        """One for each row, and as many again shared out by what the rows' gradients vary."""
        root = np.sqrt(self.squares[order])
        if not root.sum() > 0:
            root = np.ones_like(root)
        # Rounded at the ends of their sums, so that there are always two for each row, and programs of one shape.
        ends = np.round(np.cumsum(root) * (len(root) / root.sum())).astype(np.int64)
        ends[-1] = len(root)
        return 1 + np.diff(ends, prepend=0)


@dataclasses.dataclass(frozen=True)
class Probe:
    """Looks at rows from the center of `preconditioner` and from points around it, `spread` apart in each v."""

    posterior: Posterior
    data: PyTree
    preconditioner: Preconditioner
    spread: float

    def all_rows(self, *, key: Key[Array, ""]) -> Rows:
        """A few times at every row."""
        squares = self._squares(None, _PROBES, key)
        # A derivative along a direction is about half a gradient, and there are two for each probe.
        return Rows(squares, tree.size(self.preconditioner.center), float(_PROBES))

    def again(self, found: Rows, order: int, *, key: Key[Array, ""]) -> Rows:
        """More often at the rows that vary most, which decide about the worst direction."""
        top, squares = found.top(order), found.squares.copy()
        squares[:, top] = self._squares(top, _AGAIN, key)
        return Rows(squares, found.size, found.passes + _AGAIN * len(top) / squares.shape[1])

    def lead(
        self, posterior: Posterior, tickets: np.ndarray, top: np.ndarray, *, key: Key[Array, ""]
    ) -> float:
        """Largest eigenvalue of C for batches of one row, drawn by `tickets`, of the rows that `posterior` has.

        From the rows `top`, and a few thousand that stand for the others.
        """
        others = np.delete(np.arange(len(tickets)), top)
        some = np.random.default_rng(0).permutation(others)[:_TOP]
        rows, stands_for = np.append(top, some), len(others) / max(len(some), 1)
        share = tickets.sum() / tickets[rows] * np.append(np.ones(len(top)), np.full(len(some), stands_for))
        index = jnp.asarray(rows, jnp.int32)
        spread, share = jnp.asarray(self.spread), jnp.asarray(share, float)
        moment = _moment(posterior, self.preconditioner, self.data, index, share, spread, key)
        return float(np.linalg.eigvalsh(np.asarray(moment, np.float64))[-1])

    def _squares(self, rows: np.ndarray | None, count: int, key: Key[Array, ""]) -> np.ndarray:
        widths = [int(np.prod(x.shape[1:])) for x in jax.tree.leaves(self.data)]
        squares = _squares_fast if sum(x.size for x in jax.tree.leaves(self.data)) > _LONG else _squares_soon
        spread, times, pieces = jnp.asarray(self.spread), jnp.asarray(count), []
        for index, there in passes.chunks(self.data, 4 * sum(widths), rows):
            piece = squares(self.posterior, self.preconditioner, self.data, index, spread, key, times)
            pieces.append(np.asarray(piece, np.float64)[:, : int(np.sum(np.asarray(there)))])
        return np.concatenate(pieces, axis=1)


def _squares(
    posterior: Posterior,
    preconditioner: Preconditioner,
    data: PyTree,
    index: Int[Array, " n"],
    spread: Float[Array, ""],
    key: Key[Array, ""],
    count: Int[Array, ""],
) -> Float[Array, "orders n"]:
    rows, center = passes.picked(data, index), preconditioner.center
    f = lambda x: posterior.row_log_likelihoods(x, rows)

    def look(key: Key[Array, ""]) -> Float[Array, "orders n"]:
        first, second = jax.random.split(key)
        change = preconditioner.multiply(tree.multiply(spread, tree.normal_like(center, key=first)))
        direction = preconditioner.multiply(tree.normal_like(center, key=second))
        slope = lambda x: jax.jvp(f, (x,), (direction,))[1]
        there = slope(jax.tree.map(jnp.add, center, change))
        here, turn = jax.jvp(slope, (center,), (change,))
        return jnp.stack([there, there - here, there - here - turn]) ** 2

    # As many times as `count` says, which is no constant of the program.
    step = lambda i, total: total + look(jax.random.fold_in(key, i))
    shape = jax.eval_shape(look, key)
    return jax.lax.fori_loop(0, count, step, jnp.zeros(shape.shape, shape.dtype)) / count


_squares_soon, _squares_fast = compile_quickly(_squares), eqx.filter_jit(_squares)


@compile_quickly
def _moment(
    posterior: Posterior,
    preconditioner: Preconditioner,
    data: PyTree,
    index: Int[Array, " n"],
    share: Float[Array, " n"],
    spread: Float[Array, ""],
    key: Key[Array, ""],
) -> Float[Array, "d d"]:
    """Sum over rows of share_i g_i g_i', with respect to v, on average over points of the posterior."""
    rows = passes.picked(data, index)

    def at(key: Key[Array, ""]) -> Float[Array, "d d"]:
        v = tree.multiply(spread, tree.normal_like(preconditioner.center, key=key))
        theta = preconditioner.to_params(v)
        gradients = jax.vmap(jax.grad(posterior.one_log_likelihood), in_axes=(None, 0))(theta, rows)
        g = jax.vmap(lambda x: tree.ravel(preconditioner.multiply_transposed(x)))(gradients)
        return (g * share.astype(g.dtype)[:, None]).T @ g

    return jnp.mean(jax.lax.map(at, jax.random.split(key, _POINTS)), axis=0)
