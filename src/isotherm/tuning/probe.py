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
from isotherm.tuning.tickets import Rows

ORDERS = (0, 1, 2)
_PROBES = 8  # of every row, all in one pass
_AGAIN = 3  # rounds of probes of the rows that vary most
_POINTS = 16  # at which their gradients are taken
_OTHERS = 4096  # random rows that represent the rest


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
        top = rows.top(order)
        chosen = picked(self.data, jnp.asarray(top, jnp.int32))
        rounds = jnp.stack([self._roots(chosen, k) for k in jax.random.split(key, _AGAIN)])
        passes = _AGAIN * len(top) / rows.num_data
        return rows.replaced(top, jnp.sqrt(jnp.mean(rounds**2, axis=0)), passes)

    def lead(
        self,
        density: Posterior,
        weights: Float[Array, " rows"] | None,
        top: np.ndarray,
        *,
        key: Key[Array, ""],
    ) -> float:
        """Return the largest eigenvalue of C for batches of one row of `density`, drawn with these weights.

        It is computed from the rows `top` and a few thousand others that represent the rest. Without `weights`, all
        rows are equally likely.
        """
        index, copies = self._representatives(top)
        chosen = picked(self.data, jnp.asarray(index, jnp.int32))
        weight = 1.0 if weights is None else np.asarray(weights[jnp.asarray(index, jnp.int32)], np.float64)
        share = jnp.asarray(num_rows(self.data) * copies * weight, tree.ravel(self.zero).dtype)
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
        drawn = np.random.default_rng(0).integers(N, size=4 * _OTHERS) if N > 8 * _OTHERS else np.arange(N)
        sampled = np.setdiff1d(drawn, top)
        sampled = np.random.default_rng(1).permutation(sampled)[:_OTHERS]
        copies = np.append(np.ones(len(top)), np.full(len(sampled), (N - len(top)) / max(len(sampled), 1)))
        return np.append(top, sampled), copies

    def _roots(self, rows: PyTree, key: Key[Array, ""]) -> Float[Array, "rows orders"]:
        function, spread = _Squares(self.density, self.zero), jnp.asarray(self.spread)
        return each(function, rows, spread, key, numbers_per_row=4 * _PROBES)


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
