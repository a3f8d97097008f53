"""The gradient noise at a point, from a few batches: how large, in how many directions."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_quickly
from isotherm.kernel import Kernel
from isotherm.records import Needs, Noise

_BATCHES = 4
_NUMBERS = 2**24  # in all contrasts together
_CONTRASTS = (8, 256)
_ITERATIONS = 30


def measure(
    kernel: Kernel, data: PyTree, position: PyTree, *, step: int, key: Key[Array, ""]
) -> Noise | None:
    """The noise at `position` in units of the kernel's sampler; `None` if its gradient brings no contrasts.

    The trace and tr(S^2) are unbiased. s is that of a direction found in one half of the contrasts and measured in
    the other: a lower bound, close if the noise has fewer leading directions than there are contrasts (256, or 32
    for half a million parameters), and far too low if it has none.
    """
    size = tree.size(position)
    if kernel.batch_size < 2:
        return None
    each = int(np.clip(_NUMBERS // size, *_CONTRASTS)) // _BATCHES
    try:
        products = _products(kernel, data, position, jnp.asarray(step), key, each)
    except NotImplementedError:  # by a gradient that a user wrote
        return None
    if products is None:
        return None
    G = np.asarray(products, np.float64)
    each = len(G) // _BATCHES  # a gradient written by a user may bring fewer
    if not np.all(np.isfinite(G)):
        return None
    batch = np.arange(len(G)) // each
    apart = batch[:, None] != batch[None, :]
    trace, square = float(np.mean(np.diag(G))), float(np.mean(G[apart] ** 2))
    first = batch < _BATCHES // 2
    values = [_cross_validated(G, half, ~half) for half in (first, ~first)]
    scale = kernel.sampler.noise_scale(step)
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


@compile_quickly
def _products(
    kernel: Kernel, data: PyTree, position: PyTree, step: Int[Array, ""], key: Key[Array, ""], each: int
) -> Float[Array, "k k"] | None:
    """Inner products of all contrasts; `None` if the gradient brings none."""

    def contrasts(key: Key[Array, ""]) -> Float[Array, "each d"] | None:
        rows, signs, chain = jax.random.split(key, 3)
        batch = kernel.batch(data, step, key=rows, chain_key=chain)
        estimate = kernel.estimate(position, batch, needs=Needs(contrasts=each), key=signs)
        if estimate.contrasts is None:
            return None
        return jax.vmap(tree.ravel)(kernel.sampler.whitened(estimate).contrasts)

    z = jax.lax.map(contrasts, jax.random.split(key, _BATCHES))
    if z is None:
        return None
    z = z.reshape(-1, z.shape[-1])
    return z @ z.T
