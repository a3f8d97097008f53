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
from isotherm.data.stream import Stream, num_rows, put
from isotherm.posterior import Posterior
from isotherm.sums.fold import each_on_devices
from isotherm.sums.precision import exact
from isotherm.tuning.streamed_rows import streamed_rows
from isotherm.tuning.tickets import Representatives, Rows, RowsInMemory

ORDERS = (0, 1, 2)
_PROBES = 8  # of every row, all in one pass
_POINTS = 16  # at which the gradients of the rows that vary most are taken


@dataclasses.dataclass(frozen=True)
class Probe:
    """Measures rows at v = 0 and at normal points around it, of sd `spread` in each v.

    `density` is the posterior over v, and `zero` the point v = 0.
    """

    density: Posterior
    data: PyTree | Stream
    zero: PyTree[Array]
    spread: float

    def all_rows(self, *, key: Key[Array, ""]) -> Rows:
        """Return how much all rows vary, from a few probes of each."""
        roots = _Roots(self.density, self.zero, tree.as_ravelled(self.spread, self.zero), key)
        size = tree.size(self.zero)
        if isinstance(self.data, Stream):
            return streamed_rows(self.data, roots, size)
        found = each_on_devices(roots, self.data, numbers_per_row=4 * _PROBES)
        return RowsInMemory(self.data, jax.tree.map(put, found), size, 1.0)

    def again(self, rows: Rows, density: Posterior, order: int, *, key: Key[Array, ""]) -> Rows:
        """Return `rows` with other numbers for those that vary most, which determine the largest eigenvalue of C.

        They are taken from whole gradients at more points. `density` has the remainders of this order as its rows.
        """
        chosen = rows.representatives(order)
        _, squares = self._moment(density, chosen.rows, chosen.copies, key)
        passes = 2 * len(chosen.index) / rows.num_data  # `lead` uses the same rows again
        top = chosen.num_top
        return rows.replaced(order, chosen.index[:top], np.sqrt(squares[:top]), passes)

    def lead(
        self, density: Posterior, chosen: Representatives, weights: np.ndarray, *, key: Key[Array, ""]
    ) -> float:
        """Return the largest eigenvalue of C for batches of one row of `density`, with the weights of `chosen`."""
        shares = num_rows(self.data) * chosen.copies * weights
        moment, _ = self._moment(density, chosen.rows, shares, key)
        return float(np.linalg.eigvalsh(moment)[-1])

    def _moment(
        self, density: Posterior, rows: PyTree[Array], share: np.ndarray, key: Key[Array, ""]
    ) -> tuple[np.ndarray, np.ndarray]:
        shares, spread = tree.as_ravelled(share, self.zero), tree.as_ravelled(self.spread, self.zero)
        moment = _moment(density, self.zero, rows, shares, spread, key)
        return np.asarray(moment[0], np.float64), np.asarray(moment[1], np.float64)

    def curvatures(
        self, hessian: np.ndarray, chosen: Representatives, *, key: Key[Array, ""]
    ) -> tuple[float, float, float]:
        """Return the largest and the smallest curvature at a random point of the posterior, and the passes it took.

        `hessian` is that of U at v = 0. The change from it is summed over the rows `chosen`.
        """
        weights, spread = tree.as_ravelled(chosen.copies, self.zero), tree.as_ravelled(self.spread, self.zero)
        change = _hessian_change(self.density, self.zero, chosen.rows, weights, spread, key)
        spent = len(chosen.index) / num_rows(self.data)
        there = hessian - np.asarray(change, np.float64)
        if not np.all(np.isfinite(there)):
            return 1.0, 1.0, spent
        values = np.linalg.eigvalsh((there + there.T) / 2)
        return max(1.0, float(values[-1])), float(np.clip(values[0], 0.1, 1.0)), spent


class _Roots(eqx.Module):
    """The root mean square of each row's slope along random directions, for each order of expansion."""

    density: Posterior
    zero: PyTree[Array]
    spread: Float[Array, ""]
    key: Key[Array, ""]

    @exact
    def __call__(self, rows: PyTree) -> tuple[Float[Array, " n"], ...]:
        """Return one for each row, by order."""
        f = lambda v: self.density.row_log_likelihoods(v, rows)

        def probe(v: PyTree[Array], direction: PyTree[Array]) -> Float[Array, "orders n"]:
            slope = lambda x: jax.jvp(f, (x,), (direction,))[1]
            away = slope(v)
            here, change = jax.jvp(slope, (self.zero,), (v,))
            return jnp.stack([away, away - here, away - here - change]) ** 2

        # All blocks use the same key on purpose: every row is probed at the same points.
        first, second = jax.random.split(jax.random.clone(self.key))
        signs = jax.random.rademacher(second, (_PROBES, tree.size(self.zero)), tree.ravel(self.zero).dtype)
        directions = jax.vmap(lambda x: tree.unravel_like(x, self.zero))(signs)
        squares = jnp.mean(
            jax.vmap(probe)(_spread_out(self.zero, self.spread, _PROBES, first), directions), axis=0
        )
        return tuple(jnp.sqrt(squares).astype(jnp.float32))


def _spread_out(
    zero: PyTree[Array], spread: Float[Array, ""], count: int, key: Key[Array, ""]
) -> PyTree[Array]:
    """Return points that are normal with sd `spread`, and of which each coordinate takes all kinds of values.

    The values of a coordinate are divided into `count` bins of equal probability, and one point is in each of them
    (Latin hypercube). The gradients of rare rows depend on one coordinate, and steeply: independent points would
    often miss the end at which they are noisy.
    """
    size, dtype = tree.size(zero), tree.ravel(zero).dtype
    bins = jnp.broadcast_to(jnp.asarray(normal_bins(count), dtype)[:, None], (count, size))
    points = spread.astype(dtype) * jax.random.permutation(key, bins, axis=0, independent=True)
    return jax.vmap(lambda x: tree.unravel_like(x, zero))(points)


def normal_bins(count: int) -> np.ndarray:
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
) -> tuple[Float[Array, "d d"], Float[Array, " n"]]:
    """Return averages over points of the posterior: the sum over rows of share_i g_i g_i', and |g_i|^2 of each row.

    Gradients are with respect to v.
    """

    def at(v: PyTree[Array]) -> tuple[Float[Array, "d d"], Float[Array, " n"]]:
        gradients = jax.vmap(jax.grad(density.one_log_likelihood), in_axes=(None, 0))(v, rows)
        g = jax.vmap(tree.ravel)(gradients)
        return (g * share[:, None]).T @ g, jnp.sum(g**2, axis=1)

    moments, squares = jax.lax.map(at, _spread_out(zero, spread, _POINTS, key))
    return jnp.mean(moments, axis=0), jnp.mean(squares, axis=0)


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
