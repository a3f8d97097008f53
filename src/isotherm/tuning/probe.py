"""The noise of each row's gradient over the posterior, with and without an expansion around the mode subtracted.

It is measured by derivatives of all rows along random directions, at random points of the normal approximation to
the posterior. Full gradients and Hessians are formed for a few thousand rows only.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.posterior import Posterior
from isotherm.sums.fold import each, num_rows, picked
from isotherm.sums.precision import exact

ORDERS = (0, 1, 2)
_PROBES = 8  # of every row, all in one pass
_AGAIN, _POINTS = (
    3,
    16,
)  # rounds of probes of the rows that vary most; points at which their gradients are taken
_TOP = 4096  # most rows that count as varying most; at most one in 8 of all


@dataclasses.dataclass(frozen=True)
class Rows:
    """Root mean square of each row's gradient with respect to v, as `roots[row, order]`, and the passes it took.

    `size` is the number of parameters.
    """

    roots: Float[np.ndarray, "rows orders"]
    size: int
    passes: float

    @property
    def num_data(self) -> int:
        """The number of rows."""
        return len(self.roots)

    def noise(self, order: int, tickets: np.ndarray | None = None) -> float:
        """Return the mean eigenvalue of C for batches of one row, drawn in proportion to `tickets`."""
        squares = np.square(self.roots[:, order], dtype=np.float64)
        if tickets is None:
            return float(self.num_data * squares.sum()) / self.size
        return float(tickets.sum(dtype=np.float64) * np.sum(squares / tickets)) / self.size

    def noise_of_weighted(self, order: int) -> float:
        """Return the same for `tickets(order)`, without rounding them to integers."""
        return self.noise(order, 1 + self._shares(order))

    def top(self, order: int) -> np.ndarray:
        """Return the indices of the rows that vary most."""
        count = max(1, min(_TOP, self.num_data // 8))
        return np.sort(np.argpartition(-self.roots[:, order], count - 1)[:count])

    def tickets(self, order: int) -> np.ndarray:
        """Return one ticket for each row, plus N more in proportion to how much the rows' gradients vary."""
        # Rounding the running sums keeps the total at 2 N, so that compiled programs have one shape.
        ends = np.rint(np.cumsum(self._shares(order)))
        ends[-1] = self.num_data
        return 1 + np.diff(ends, prepend=0).astype(np.int64)

    def _shares(self, order: int) -> Float[np.ndarray, " rows"]:
        """Return N numbers in proportion to the roots, with a mean of 1."""
        root = self.roots[:, order].astype(np.float64)
        total = root.sum()
        return root * (self.num_data / total) if total > 0 else np.ones_like(root)


@dataclasses.dataclass(frozen=True)
class Probe:
    """Measures rows at v = 0 and at normal points around it, of sd `spread` in each v.

    `density` is the posterior over v, and `zero` the point v = 0.
    """

    density: Posterior
    data: PyTree
    zero: PyTree[Array]
    spread: float

    def all_rows(self, *, key: Key[Array, ""]) -> Rows:
        """Return the mean squares of all rows, from a few probes of each."""
        return Rows(self._roots(self.data, key), tree.size(self.zero), 1.0)

    def again(self, rows: Rows, order: int, *, key: Key[Array, ""]) -> Rows:
        """Return `rows` with more probes of those that vary most, which determine the largest eigenvalue of C."""
        top, roots = rows.top(order), rows.roots.copy()
        chosen = picked(self.data, jnp.asarray(top, jnp.int32))
        rounds = [self._roots(chosen, k) for k in jax.random.split(key, _AGAIN)]
        roots[top] = np.sqrt(np.mean(np.square(rounds), axis=0))
        return Rows(roots, rows.size, rows.passes + len(rounds) * len(top) / rows.num_data)

    def lead(self, density: Posterior, tickets: np.ndarray, top: np.ndarray, *, key: Key[Array, ""]) -> float:
        """Return the largest eigenvalue of C for batches of one row of `density`, drawn in proportion to `tickets`.

        It is computed from the rows `top` and a few thousand others that represent the rest.
        """
        index, copies = self._representatives(top)
        share = jnp.asarray(copies * tickets.sum() / tickets[index], tree.ravel(self.zero).dtype)
        chosen = picked(self.data, jnp.asarray(index, jnp.int32))
        moment = _moment(density, self.zero, chosen, share, jnp.asarray(self.spread), key)
        return float(np.linalg.eigvalsh(np.asarray(moment, np.float64))[-1])

    def curvatures(
        self, hessian: np.ndarray, top: np.ndarray, *, key: Key[Array, ""]
    ) -> tuple[float, float, float]:
        """Return the largest and the smallest curvature at a random point of the posterior, and the passes it took.

        `hessian` is that of U at v = 0. The change from it is summed over the rows `top` and a few thousand others.
        """
        index, copies = self._representatives(top)
        chosen = picked(self.data, jnp.asarray(index, jnp.int32))
        weights = jnp.asarray(copies, tree.ravel(self.zero).dtype)
        change = _hessian_change(self.density, self.zero, chosen, weights, jnp.asarray(self.spread), key)
        spent = len(index) / num_rows(self.data)
        there = hessian - np.asarray(change, np.float64)
        if not np.all(np.isfinite(there)):
            return 1.0, 1.0, spent
        values = np.linalg.eigvalsh((there + there.T) / 2)
        return max(1.0, float(values[-1])), float(np.clip(values[0], 0.1, 1.0)), spent

    def _representatives(self, top: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows `top` and a few thousand others, and how many rows each of them stands for."""
        N = num_rows(self.data)
        drawn = np.random.default_rng(0).integers(N, size=4 * _TOP) if N > 8 * _TOP else np.arange(N)
        sampled = np.setdiff1d(drawn, top)
        sampled = np.random.default_rng(1).permutation(sampled)[:_TOP]
        copies = np.append(np.ones(len(top)), np.full(len(sampled), (N - len(top)) / max(len(sampled), 1)))
        return np.append(top, sampled), copies

    def _roots(self, rows: PyTree, key: Key[Array, ""]) -> Float[np.ndarray, "rows orders"]:
        function, spread = _Squares(self.density, self.zero), jnp.asarray(self.spread)
        return np.asarray(each(function, rows, spread, key, numbers_per_row=4 * _PROBES))


class _Squares(eqx.Module):
    """The root mean square of each row's slope along random directions, for each order of expansion."""

    density: Posterior
    zero: PyTree[Array]

    @exact
    def __call__(
        self, rows: PyTree, spread: Float[Array, ""], key: Key[Array, ""]
    ) -> Float[Array, "n orders"]:
        f = lambda v: self.density.row_log_likelihoods(v, rows)

        def probe(v: PyTree[Array], direction: PyTree[Array]) -> Float[Array, "orders n"]:
            slope = lambda x: jax.jvp(f, (x,), (direction,))[1]
            away = slope(v)
            here, change = jax.jvp(slope, (self.zero,), (v,))
            return jnp.stack([away, away - here, away - here - change]) ** 2

        # All blocks use the same key on purpose: every row is probed at the same points.
        first, second = jax.random.split(jax.random.clone(key))
        signs = jax.random.rademacher(second, (_PROBES, tree.size(self.zero)), tree.ravel(self.zero).dtype)
        directions = jax.vmap(lambda x: tree.unravel_like(x, self.zero))(signs)
        squares = jnp.mean(
            jax.vmap(probe)(_spread_out(self.zero, spread, _PROBES, first), directions), axis=0
        )
        return jnp.sqrt(squares).T.astype(jnp.float32)


def _spread_out(
    zero: PyTree[Array], spread: Float[Array, ""], count: int, key: Key[Array, ""]
) -> PyTree[Array]:
    """Return points that are normal with sd `spread`, and of which each coordinate takes all kinds of values.

    The values of a coordinate are divided into `count` bins of equal probability, and one point is in each of them
    (Latin hypercube). The gradients of rare rows depend on one coordinate, and steeply: independent points would
    often miss the end at which they are noisy.
    """
    size, dtype = tree.size(zero), tree.ravel(zero).dtype
    bins = jnp.broadcast_to(jnp.asarray(_bins(count), dtype)[:, None], (count, size))
    points = spread.astype(dtype) * jax.random.permutation(key, bins, axis=0, independent=True)
    return jax.vmap(lambda x: tree.unravel_like(x, zero))(points)


def _bins(count: int) -> np.ndarray:
    """Return the root mean square, with its sign, of a standard normal number in each of `count` bins."""
    from scipy.special import ndtri  # SciPy comes with JAX

    ends = ndtri(np.arange(1, count) / count)
    # The integral of x^2 phi(x) is Phi(x) - x phi(x).
    part = np.concatenate([[0.0], ends * np.exp(-(ends**2) / 2) / math.sqrt(2 * math.pi), [0.0]])
    return np.sign(np.arange(count) - (count - 1) / 2) * np.sqrt(1 - count * np.diff(part))


@compile_quickly
@exact
def _moment(
    density: Posterior,
    zero: PyTree[Array],
    rows: PyTree,
    share: Float[Array, " n"],
    spread: Float[Array, ""],
    key: Key[Array, ""],
) -> Float[Array, "d d"]:
    """Return the sum over rows of share_i g_i g_i', with respect to v, averaged over points of the posterior."""

    def at(v: PyTree[Array]) -> Float[Array, "d d"]:
        gradients = jax.vmap(jax.grad(density.one_log_likelihood), in_axes=(None, 0))(v, rows)
        g = jax.vmap(tree.ravel)(gradients)
        return (g * share[:, None]).T @ g

    return jnp.mean(jax.lax.map(at, _spread_out(zero, spread, _POINTS, key)), axis=0)


@compile_quickly
@exact
def _hessian_change(
    density: Posterior,
    zero: PyTree[Array],
    rows: PyTree,
    weights: Float[Array, " n"],
    spread: Float[Array, ""],
    key: Key[Array, ""],
) -> Float[Array, "d d"]:
    """Return the Hessian of the log-density at a random point less that at v = 0."""

    def total(x: Float[Array, " d"]) -> Array:
        v = tree.unravel_like(x, zero)
        return jnp.sum(density.row_log_likelihoods(v, rows) * weights) + density.prior_log_density(v)

    origin = tree.ravel(zero)
    away = tree.ravel(tree.multiply(spread, tree.normal_like(zero, key=key)))

    def column(e: Float[Array, " d"]) -> Float[Array, " d"]:
        slope = lambda x: jax.jvp(jax.grad(total), (x,), (e,))[1]
        return slope(away) - slope(origin)

    return jax.vmap(column)(jnp.eye(len(origin), dtype=origin.dtype))
