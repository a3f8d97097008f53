"""Which form of the sums over a batch a step uses: the kernel of `row_sums`, or array operations."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, PyTree

from isotherm.gradients.linear import linear_likelihood
from isotherm.gradients.row_sums import MOST_FEATURES, RowSums, row_sums
from isotherm.posterior import Posterior

INTERPRETED = False  # tests set it, to run the kernel on a CPU and for any sizes

_FEWEST_CHAINS = 64  # with fewer, the time of a step is mostly that of starting kernels
_FEWEST_FEATURES = 32  # shorter rows leave threads idle
_MOST_NUMBERS = 2**31  # the kernel counts the numbers of an array in 32 bits

Plain = Callable[[Posterior, PyTree, PyTree, Array], PyTree]
FromSums = Callable[[Posterior, PyTree, RowSums], PyTree]


def available(rows: PyTree) -> bool:
    """Return whether the default device is an NVIDIA GPU, and `rows` hold a table whose rows the kernel can read."""
    device = jax.devices()[0]
    tables = [x for x in jax.tree.leaves(rows) if x.ndim == 2]
    if len(tables) != 1 or tables[0].shape[1] > MOST_FEATURES or tables[0].size >= _MOST_NUMBERS:
        return False
    long_enough = tables[0].shape[1] >= _FEWEST_FEATURES
    return INTERPRETED or (
        long_enough and device.platform == "gpu" and device.device_kind.startswith("NVIDIA")
    )


def fuse(plain: Plain, from_sums: FromSums, parts: int) -> Plain:
    """Return `plain` as a function that uses the kernel if it is vmapped over many chains.

    `plain` takes a posterior, parameters, all rows and the index of a batch. `from_sums` returns the same from a
    posterior, parameters and the sums over `parts` parts of the batch. For few chains, and for log-likelihoods that
    are not functions of a product x.w, `plain` is used.
    """

    def fused(posterior: Posterior, theta: PyTree, rows: PyTree, index: Array) -> PyTree:
        arrays, static = eqx.partition(posterior, eqx.is_array)

        @custom_vmap
        def one(arrays: PyTree, *args: PyTree) -> PyTree:
            return plain(eqx.combine(arrays, static), *args)

        @one.def_vmap
        def many(axis_size: int, batched: list[Any], *args: PyTree) -> tuple[PyTree, PyTree]:
            axes = jax.tree.map(lambda x: 0 if x else None, tuple(batched))
            each = jax.vmap(lambda arrays, *rest: plain(eqx.combine(arrays, static), *rest), in_axes=axes)
            per_chain = [all(jax.tree.leaves(x)) for x in (batched[1], batched[3])]
            shared = [not any(jax.tree.leaves(x)) for x in (batched[0], batched[2])]
            enough = axis_size >= _FEWEST_CHAINS or INTERPRETED
            kernel = (
                _with_kernel(static, from_sums, parts, args) if all([*per_chain, *shared, enough]) else None
            )
            if kernel is None:
                out = each(*args)
            elif INTERPRETED:
                out = kernel(*args)
            else:  # a computation may be placed on a CPU although there is a GPU
                out = jax.lax.platform_dependent(*args, cuda=kernel, default=each)
            return out, jax.tree.map(lambda _: True, out)

        return one(arrays, theta, rows, index)

    return fused


def _with_kernel(static: PyTree, from_sums: FromSums, parts: int, args: Any) -> Callable[..., PyTree] | None:
    """Return the function of all chains that uses the kernel; `None` if the log-likelihood does not allow it."""
    arrays, theta, rows, _ = args
    first = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), theta)
    likelihood = linear_likelihood(eqx.combine(arrays, static), first, rows)
    if likelihood is None:
        return None

    def kernel(arrays: PyTree, theta: PyTree, rows: PyTree, index: Array) -> PyTree:
        posterior = eqx.combine(arrays, static)
        sums = row_sums(likelihood, posterior, theta, rows, index, parts, interpret=INTERPRETED)
        return jax.vmap(lambda at, s: from_sums(posterior, at, s))(theta, sums)

    return kernel if INTERPRETED or compiles(kernel, *args) else None


def compiles(f: Callable[..., PyTree], *args: PyTree) -> bool:
    """Return whether Pallas has all operations of `f`. It lacks `lgamma` and `erf`, for example."""
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), args)
    try:
        jax.jit(f).trace(*shapes).lower(lowering_platforms=("cuda",))
    except Exception:  # an experimental module: what it raises depends on the version of JAX
        return False
    return True
