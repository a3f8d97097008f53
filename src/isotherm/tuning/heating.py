r"""How much the noise of control variates heats single coordinates, since it grows with the distance from the mode.

CCAdL removes the average of the noise. Where the noise is above its average it heats the chain by a factor of
$1 + (s - \bar s)/(2hA + \bar s)$. If that happens at large $|v_k|$, the variance of $v_k$ is too large by
$\mathrm E[(v_k^2/\mathrm{Var}\,v_k - 1)\,s_k(v)]/(2hA)$, where $s_k = h^2 C_{kk}/(nT)$. Rows that depend on many
coordinates have noise that hardly depends on each of them; the few rows of a rare group depend on one.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.data.stream import Drawn, Stream, num_rows
from isotherm.data.weighted import Weighted
from isotherm.data.weighted_blocks import WeightedBlocks
from isotherm.gradients.control_variate import ControlVariate
from isotherm.posterior import Posterior
from isotherm.sums.precision import exact

# Distances from the mode along each coordinate, in standard deviations of the normal approximation.
_NODES = np.array([-5.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0])
_ROWS = (256, 2**15)  # fewest and most rows drawn, by which noise and density are estimated
_MORE, _AGAIN = 4096, 8  # most rows for the coordinates with the largest estimates, and how many these are


def heating(
    expanded: ControlVariate, data: PyTree | Stream, plan: Weighted | WeightedBlocks
) -> tuple[float, float]:
    """Return max_k E[(v_k^2 / Var v_k - 1) C_kk(v)] / T for batches of one row of `plan`, and the passes it took.

    Expectations are along each coordinate, the others being zero, over the posterior itself. The largest of many
    estimates from few rows would be too large: the largest ones are made again, from more rows.
    """
    size, N = tree.size(expanded.anchor), num_rows(data)
    few = int(np.clip(N // (2 * size * len(_NODES)), *_ROWS))
    found = _heating_along(expanded, data, plan, np.arange(size), few)
    passes = size * len(_NODES) * few / N
    more = min(_MORE, N // 8)
    if more >= 2 * few:
        worst = np.argsort(found)[-_AGAIN:]
        found = _heating_along(expanded, data, plan, worst, more)
        passes += len(worst) * len(_NODES) * more / N
    return max(0.0, float(np.max(found))), passes


def _heating_along(
    expanded: ControlVariate,
    data: PyTree | Stream,
    plan: Weighted | WeightedBlocks,
    coordinates: np.ndarray,
    count: int,
) -> Float[np.ndarray, " k"]:
    """Return the expectation of `heating` along each of `coordinates`, from `count` rows."""
    rest, zero = expanded.expanded, expanded.anchor
    T, scale = float(rest.temperature), tree.as_ravelled(float(num_rows(data)), zero)
    axes = np.eye(tree.size(zero))[coordinates]
    moves = (axes[:, None, :] * (T**0.5 * _NODES)[:, None]).reshape(-1, axes.shape[1])
    drawn = plan.drawn(data, count, np.random.default_rng(0))
    profiles = _profiles(rest, zero, drawn, scale, tree.as_ravelled(moves, zero))
    log_density, noise = (np.asarray(x, np.float64).reshape(len(axes), -1) for x in profiles)
    # The mode is another node, at which control variates have no noise.
    log_density, noise = (np.insert(x, 0, 0.0, axis=1) for x in (log_density / T, noise / T))
    weights = np.exp(np.minimum(np.where(np.isfinite(log_density), log_density, -np.inf), 0.0))
    weights, noise = weights / weights.sum(axis=1, keepdims=True), np.where(weights > 0, noise, 0.0)
    v = np.insert(_NODES, 0, 0.0)
    square = (v - weights @ v[:, None]) ** 2
    variance = np.sum(weights * square, axis=1, keepdims=True)
    return np.sum(weights * (square / variance - 1) * noise, axis=1)


@compile_quickly
@exact
def _profiles(
    posterior: Posterior,
    zero: PyTree,
    drawn: Drawn,
    num_data: Float[Array, ""],
    moves: Float[Array, "k d"],
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return the change of the log-density with each move, and the variance of the force along it of one row."""
    rows, weights = drawn.rows, num_data * drawn.weights
    prior = lambda x: posterior.prior_log_density(tree.unravel_like(x, zero))
    origin = prior(jnp.zeros_like(moves[0]))

    def at(move: Float[Array, " d"]) -> tuple[Array, Array]:
        f = lambda x: posterior.row_log_likelihoods(tree.unravel_like(x, zero), rows)
        value, slope = jax.jvp(f, (move,), (move / jnp.linalg.norm(move),))
        return jnp.mean(weights * value) + prior(move) - origin, jnp.var(weights * slope)

    return jax.lax.map(at, moves)
