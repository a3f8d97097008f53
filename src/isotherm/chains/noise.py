"""The gradient noise at a point, from a few batches: how large, in how many directions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.hyper import at
from isotherm.kernel import Kernel
from isotherm.records import Needs
from isotherm.samplers.base import LangevinSampler, Sampler

_BATCHES = 4
_NUMBERS = 2**24  # in all contrasts together
_CONTRASTS = (8, 256)
_ITERATIONS = 30


@dataclasses.dataclass(frozen=True)
class Noise:
    """Of S = h^2 beta C M^-1: `s`, its largest eigenvalue; its trace; tr(S)^2 / tr(S^2), its effective rank."""

    s: float
    trace: float
    effective_rank: float


def measure(
    kernel: Kernel, sampler: Sampler, data: PyTree, position: PyTree, *, step: int, key: Key[Array, ""]
) -> Noise | None:
    """The noise at `position` as `sampler` would feel it; `None` where it cannot be measured.

    Without bias in the trace and in tr(S^2). s is that of a direction found in one half of the contrasts and
    measured in the other: a lower bound, close where the noise has fewer leading directions than there are
    contrasts (256, or 32 for half a million parameters), and far too low where it has none.
    """
    size = tree.size(position)
    if kernel.batch_size < 2:
        return None
    each = int(np.clip(_NUMBERS // size, *_CONTRASTS)) // _BATCHES
    try:
        products = _products(kernel, sampler, data, position, jnp.asarray(step), key, each)
    except (NotImplementedError, TypeError, ValueError):  # a gradient of the user's own may know no contrasts
        return None
    G = np.asarray(products, np.float64)
    each = len(G) // _BATCHES  # a gradient of the user's own may bring fewer
    if not np.all(np.isfinite(G)):
        return None
    batch = np.arange(len(G)) // each
    apart = batch[:, None] != batch[None, :]
    trace, square = float(np.mean(np.diag(G))), float(np.mean(G[apart] ** 2))
    first = batch < _BATCHES // 2
    values = [_cross_validated(G, half, ~half) for half in (first, ~first)]
    scale = _scale(sampler, step)
    rank = float(min(trace**2 / square, size)) if square > 0 else float("nan")
    return Noise(scale * float(np.mean(values)), scale * trace, rank)


def _cross_validated(G: np.ndarray, here: np.ndarray, there: np.ndarray) -> float:
    """u'C u by the contrasts `there`, for u the leading eigenvector of those `here`."""
    own = G[np.ix_(here, here)]
    weights = own[:, np.argmax(np.diag(own))]
    for _ in range(_ITERATIONS):  # enough for a direction in which there is nearly as much as in any
        weights = own @ (weights / max(float(np.linalg.norm(weights)), 1e-300))
    weights = weights / max(float(np.linalg.norm(weights)), 1e-300)
    length = weights @ own @ weights
    if length <= 0:
        return 0.0
    return float(np.mean((G[np.ix_(there, here)] @ weights) ** 2) / length)


def _scale(sampler: Sampler, step: int) -> float:
    """S / C for the whitened noise."""
    at_step = jnp.asarray(step)
    h, T = float(at(sampler.step_size, at_step)), float(sampler.temperature_at(at_step))
    # A Langevin step h is an underdamped one of length sqrt(2 h).
    return 2 * h / T if isinstance(sampler, LangevinSampler) else h * h / T


@compile_quickly
def _products(
    kernel: Kernel,
    sampler: Sampler,
    data: PyTree,
    position: PyTree,
    step: Int[Array, ""],
    key: Key[Array, ""],
    each: int,
) -> Float[Array, "k k"]:
    def contrasts(key: Key[Array, ""]) -> Float[Array, "each d"]:
        keys = jax.random.split(key, 3)
        batch = kernel.batch(data, step, key=keys[0], chain_key=keys[2])
        estimate = kernel.estimate(position, batch, needs=Needs(contrasts=each), key=keys[1])
        return jax.vmap(tree.ravel)(sampler.whitened(estimate).contrasts)

    z = jax.lax.map(contrasts, jax.random.split(key, _BATCHES))
    z = z.reshape(-1, z.shape[-1])
    return z @ z.T
