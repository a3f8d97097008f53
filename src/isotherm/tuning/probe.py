"""The noise of each row's gradient over the posterior, with and without an expansion around the mode subtracted.

It is measured by derivatives of all rows along random directions, at random points of the normal approximation to
the posterior. Full gradients are formed for a few thousand rows only.
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
_PROBES = 6  # of every row
_LONG = 2**26  # numbers in the data above which it pays to optimise the program
_AGAIN, _POINTS = 16, 16  # probes of the rows that vary most; points at which their gradients are taken
_TOP = 4096  # most rows that count as varying most; at most one in 8 of all


@dataclasses.dataclass(frozen=True)
class Rows:
    """Mean square of each row's gradient with respect to v, as `squares[order][row]`, and the passes it took.

    `size` is the number of parameters.
    """

    squares: np.ndarray
    size: int
    passes: float

    def noise(self, order: int, tickets: np.ndarray | None = None) -> float:
        """Return the mean eigenvalue of C for batches of one row, drawn in proportion to `tickets`."""
        squares = self.squares[order] / self.size
        if tickets is None:
            return float(len(squares) * squares.sum())
        return float(tickets.sum() * np.sum(squares / tickets))

    def top(self, order: int) -> np.ndarray:
        """Return the indices of the rows that vary most."""
        num_data = self.squares.shape[1]
        count = max(1, min(_TOP, num_data // 8))
        return np.sort(np.argpartition(-self.squares[order], count - 1)[:count])

    def tickets(self, order: int) -> np.ndarray:
        """Return one ticket for each row, plus N more in proportion to how much the rows' gradients vary."""
        root = np.sqrt(self.squares[order])
        if not root.sum() > 0:
            root = np.ones_like(root)
        # Rounding the running sums keeps the total at 2 N, so that compiled programs have one shape.
        ends = np.round(np.cumsum(root) * (len(root) / root.sum())).astype(np.int64)
        ends[-1] = len(root)
        return 1 + np.diff(ends, prepend=0)


@dataclasses.dataclass(frozen=True)
class Probe:
    """Measures rows at the center of `preconditioner` and at normal points around it, of sd `spread` in each v."""

    posterior: Posterior
    data: PyTree
    preconditioner: Preconditioner
    spread: float

    def all_rows(self, *, key: Key[Array, ""]) -> Rows:
        """Return the mean squares of all rows, from a few probes of each."""
        squares = self._squares(None, _PROBES, key)
        # A derivative along a direction costs about half a gradient, and each probe takes two.
        return Rows(squares, tree.size(self.preconditioner.center), float(_PROBES))

    def again(self, rows: Rows, order: int, *, key: Key[Array, ""]) -> Rows:
        """Return `rows` with more probes of those that vary most, which determine the largest eigenvalue of C."""
        top, squares = rows.top(order), rows.squares.copy()
        squares[:, top] = self._squares(top, _AGAIN, key)
        return Rows(squares, rows.size, rows.passes + _AGAIN * len(top) / squares.shape[1])

    def lead(
        self, posterior: Posterior, tickets: np.ndarray, top: np.ndarray, *, key: Key[Array, ""]
    ) -> float:
        """Return the largest eigenvalue of C for batches of one row of `posterior`, drawn in proportion to `tickets`.

        It is computed from the rows `top` and a few thousand others that represent the rest.
        """
        others = np.delete(np.arange(len(tickets)), top)
        sampled = np.random.default_rng(0).permutation(others)[:_TOP]
        rows, rows_per_sample = np.append(top, sampled), len(others) / max(len(sampled), 1)
        share = (
            tickets.sum()
            / tickets[rows]
            * np.append(np.ones(len(top)), np.full(len(sampled), rows_per_sample))
        )
        index = jnp.asarray(rows, jnp.int32)
        spread, share = jnp.asarray(self.spread), jnp.asarray(share, float)
        moment = _moment(posterior, self.preconditioner, self.data, index, share, spread, key)
        return float(np.linalg.eigvalsh(np.asarray(moment, np.float64))[-1])

    def _squares(self, rows: np.ndarray | None, count: int, key: Key[Array, ""]) -> np.ndarray:
        widths = [int(np.prod(x.shape[1:])) for x in jax.tree.leaves(self.data)]
        squares = (
            _squares_optimised
            if sum(x.size for x in jax.tree.leaves(self.data)) > _LONG
            else _squares_quickly
        )
        spread, times, pieces = jnp.asarray(self.spread), jnp.asarray(count), []
        for index, valid in passes.chunks(self.data, 4 * sum(widths), rows):
            piece = squares(self.posterior, self.preconditioner, self.data, index, spread, key, times)
            pieces.append(np.asarray(piece, np.float64)[:, : int(np.sum(np.asarray(valid)))])
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

    def probe(key: Key[Array, ""]) -> Float[Array, "orders n"]:
        first, second = jax.random.split(key)
        change = preconditioner.multiply(tree.multiply(spread, tree.normal_like(center, key=first)))
        direction = preconditioner.multiply(tree.normal_like(center, key=second))
        slope = lambda x: jax.jvp(f, (x,), (direction,))[1]
        slope_away = slope(jax.tree.map(jnp.add, center, change))
        slope_at_center, slope_change = jax.jvp(slope, (center,), (change,))
        return (
            jnp.stack([slope_away, slope_away - slope_at_center, slope_away - slope_at_center - slope_change])
            ** 2
        )

    # `count` is an argument of the compiled program, not a constant.
    step = lambda i, total: total + probe(jax.random.fold_in(key, i))
    shape = jax.eval_shape(probe, key)
    return jax.lax.fori_loop(0, count, step, jnp.zeros(shape.shape, shape.dtype)) / count


_squares_quickly, _squares_optimised = compile_quickly(_squares), eqx.filter_jit(_squares)


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
    """Return the sum over rows of share_i g_i g_i', with respect to v, averaged over points of the posterior."""
    rows = passes.picked(data, index)

    def at(key: Key[Array, ""]) -> Float[Array, "d d"]:
        v = tree.multiply(spread, tree.normal_like(preconditioner.center, key=key))
        theta = preconditioner.to_params(v)
        gradients = jax.vmap(jax.grad(posterior.one_log_likelihood), in_axes=(None, 0))(theta, rows)
        g = jax.vmap(lambda x: tree.ravel(preconditioner.multiply_transposed(x)))(gradients)
        return (g * share.astype(g.dtype)[:, None]).T @ g

    return jnp.mean(jax.lax.map(at, jax.random.split(key, _POINTS)), axis=0)
