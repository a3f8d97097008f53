"""How noisy each row's gradient is over the posterior, as it is and less its expansion around the mode.

Derivatives of all rows along random directions at random points of the posterior's normal approximation: no gradient
of a row is ever formed.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from isotherm import passes, tree
from isotherm.posterior import Posterior
from isotherm.preconditioner import Preconditioner

ORDERS = (0, 1, 2)
_PROBES = 6
_AGAIN, _POINTS = 16, 16  # probes and points for the rows that matter most
_TOP = 4096  # such rows, or one in 8 of all where that is less


@dataclasses.dataclass(frozen=True)
class Rows:
    """Mean square of each row's gradient with respect to v: `[order][row]`. `size` parameters, and passes it took."""

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


def probe(posterior: Posterior, data: PyTree, preconditioner: Preconditioner, *, key: Key[Array, ""]) -> Rows:
    """Look at every row from the center of `preconditioner` and from random points around it."""
    # A derivative along a direction is about half a gradient, and there are two for each probe.
    squares = _looked(posterior, data, preconditioner, _PROBES, key)
    return Rows(squares, tree.size(preconditioner.center), float(_PROBES))


def refined(
    found: Rows,
    order: int,
    posterior: Posterior,
    data: PyTree,
    preconditioner: Preconditioner,
    *,
    key: Key[Array, ""],
) -> Rows:
    """The same with more probes for the rows that vary most, which decide about the worst direction."""
    top = found.top(order)
    squares = found.squares.copy()
    squares[:, top] = _looked(posterior, jax.tree.map(lambda x: x[top], data), preconditioner, _AGAIN, key)
    return Rows(squares, found.size, found.passes + _AGAIN * len(top) / squares.shape[1])


def _looked(
    posterior: Posterior, data: PyTree, preconditioner: Preconditioner, count: int, key: Key[Array, ""]
) -> np.ndarray:
    widths = [int(np.prod(x.shape[1:])) for x in jax.tree.leaves(data)]
    pieces = [
        np.asarray(_squares(posterior, preconditioner, rows, key, count), np.float64)[:, : int(there.sum())]
        for rows, there in passes.chunks(data, 4 * sum(widths))
    ]
    return np.concatenate(pieces, axis=1)


def lead(
    posterior: Posterior,
    data: PyTree,
    preconditioner: Preconditioner,
    tickets: np.ndarray,
    top: np.ndarray,
    *,
    key: Key[Array, ""],
) -> float:
    """Largest eigenvalue of C for batches of one row drawn by `tickets`: from the rows `top`, and some of the others."""
    others = np.delete(np.arange(len(tickets)), top)
    some = np.random.default_rng(0).permutation(others)[:_TOP]
    rows, stands_for = np.append(top, some), len(others) / max(len(some), 1)
    share = tickets.sum() / tickets[rows] * np.append(np.ones(len(top)), np.full(len(some), stands_for))
    own = jax.tree.map(lambda x: x[rows], data)
    moment = _moment(posterior, preconditioner, own, jnp.asarray(share, float), key)
    return float(np.linalg.eigvalsh(np.asarray(moment, np.float64))[-1])


@eqx.filter_jit
def _moment(
    posterior: Posterior, preconditioner: Preconditioner, rows: PyTree, share: Array, key: Key[Array, ""]
) -> Float[Array, "d d"]:
    """Sum over rows of share_i g_i g_i', with respect to v, on average over points of the posterior."""
    scale = jnp.sqrt(jnp.asarray(posterior.temperature))

    def at(key: Key[Array, ""]) -> Float[Array, "d d"]:
        theta = preconditioner.to_params(
            tree.multiply(scale, tree.normal_like(preconditioner.center, key=key))
        )
        gradients = jax.vmap(jax.grad(posterior.one_log_likelihood), in_axes=(None, 0))(theta, rows)
        g = jax.vmap(lambda x: tree.ravel(preconditioner.multiply_transposed(x)))(gradients)
        return (g * share.astype(g.dtype)[:, None]).T @ g

    return jnp.mean(jax.lax.map(at, jax.random.split(key, _POINTS)), axis=0)


@eqx.filter_jit
def _squares(
    posterior: Posterior, preconditioner: Preconditioner, rows: PyTree, key: Key[Array, ""], count: int
) -> Float[Array, "orders n"]:
    f, center = lambda x: posterior.row_log_likelihoods(x, rows), preconditioner.center
    scale = jnp.sqrt(jnp.asarray(posterior.temperature))

    def look(key: Key[Array, ""]) -> Float[Array, "orders n"]:
        first, second = jax.random.split(key)
        change = preconditioner.multiply(tree.multiply(scale, tree.normal_like(center, key=first)))
        direction = preconditioner.multiply(tree.normal_like(center, key=second))
        slope = lambda x: jax.jvp(f, (x,), (direction,))[1]
        there = slope(jax.tree.map(jnp.add, center, change))
        here, turn = jax.jvp(slope, (center,), (change,))
        return jnp.stack([there - jnp.mean(there), there - here, there - here - turn]) ** 2

    return jnp.mean(jax.lax.map(look, jax.random.split(key, count)), axis=0)
