"""The gradient noise at a point, measured on a few batches: its size and effective rank."""

import math

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from isotherm import tree
from isotherm.compilation import compile_fully, compile_quickly
from isotherm.kernel import Kernel
from isotherm.records import Needs, Noise

_BATCHES = 4
_MAX_NUMBERS = 2**24  # in all contrasts together
_CONTRASTS = (8, 256)  # fewest and most
_MOST_STEPS = 96  # of networks, where a contrast costs as much as a step
_FEW_PARAMETERS = 1000
_ITERATIONS = 30


def measure(
    kernel: Kernel, data: PyTree, position: PyTree, *, step: int, key: Key[Array, ""]
) -> Noise | None:
    """Return the noise at `position` in units of the sampler's step; `None` if the gradient has no contrasts.

    The trace and tr(S^2) are unbiased. s is measured along a direction that is found in one half of the contrasts and
    evaluated in the other. It is a lower bound: close if the noise has fewer leading directions than there are
    contrasts (256, or 96 for a network and 32 for half a million parameters), and far too low if it has none.
    """
    size = tree.size(position)
    if kernel.batch_size < 2:
        return None
    count = int(np.clip(_MAX_NUMBERS // size, *_CONTRASTS))
    if _is_network(data, position):
        batches, each, products_of = min(count, _MOST_STEPS), 1, _products_of_a_network
    else:
        batches, each, products_of = _BATCHES, count // _BATCHES, _products
    try:
        products = products_of(kernel, data, position, tree.put(step, np.int32), key, batches, each)
    except NotImplementedError:  # raised by a user's gradient
        return None
    if products is None:
        return None
    G = np.asarray(products, np.float64)
    each = len(G) // batches  # a user's gradient may return fewer
    if not np.all(np.isfinite(G)):
        return None
    batch = np.arange(len(G)) // each
    apart = batch[:, None] != batch[None, :]
    trace, square = float(np.mean(np.diag(G))), float(np.mean(G[apart] ** 2))
    first = batch < batches // 2
    values = [_cross_validated(G, half, ~half) for half in (first, ~first)]
    scale = kernel.sampler.noise_scale(step)
    rank = float(min(trace**2 / square, size)) if square > 0 else float("nan")
    return Noise(scale * float(np.mean(values)), scale * trace, rank)


def _cross_validated(G: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Return u'C u by the contrasts in `test`, for u the leading eigenvector of those in `train`."""
    products = G[np.ix_(train, train)]
    weights = products[:, np.argmax(np.diag(products))]
    for _ in range(_ITERATIONS):  # enough to find a direction with nearly the largest noise
        weights = products @ (weights / max(float(np.linalg.norm(weights)), 1e-300))
    weights = weights / max(float(np.linalg.norm(weights)), 1e-300)
    length = weights @ products @ weights
    if length <= 0:
        return 0.0
    return float(np.mean((G[np.ix_(test, train)] @ weights) ** 2) / length)


def _is_network(data: PyTree, position: PyTree) -> bool:
    """Whether a row has far fewer numbers than there are parameters, so that many backward passes share little."""
    numbers = sum(math.prod(x.shape[1:]) for x in jax.tree.leaves(data))
    return tree.size(position) > max(_FEW_PARAMETERS, 2 * numbers)


def _inner_products(
    kernel: Kernel,
    data: PyTree,
    position: PyTree,
    step: Int[Array, ""],
    key: Key[Array, ""],
    batches: int,
    each: int,
) -> Float[Array, "k k"] | None:
    """Return the inner products of all contrasts, `each` of every batch; `None` if the gradient has none."""

    def contrasts(key: Key[Array, ""]) -> Float[Array, "each d"] | None:
        rows, signs, chain = jax.random.split(key, 3)
        batch = kernel.batch(data, step, key=rows, chain_key=chain)
        estimate = kernel.estimate(position, batch, needs=Needs(contrasts=each), key=signs)
        if estimate.contrasts is None:
            return None
        return jax.vmap(tree.ravel)(kernel.sampler.whitened(estimate).contrasts)

    z = jax.lax.map(contrasts, jax.random.split(key, batches))
    if z is None:
        return None
    z = z.reshape(-1, z.shape[-1])
    return z @ z.T


_products = compile_quickly(_inner_products)
_products_of_a_network = compile_fully(_inner_products)  # a long loop
