"""The policy of precision: which arithmetic sums over rows, coordinates and chains use.

- Sums over rows are taken in float64 if the device is good at it and the log-likelihood allows it. JAX's x64 mode is
  switched on for them alone, on this thread, so that users need not enable it.
- Products of the library with a matrix (coordinates, known Hessians, covariances) are never rounded to fewer bits
  than their arguments have, whatever JAX's default precision on this device is.
- Plain minibatch gradients follow the user's settings of JAX: their noise is far larger than their rounding.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm import tree
from isotherm.data.stream import Stream, rows_in_memory
from isotherm.posterior import Posterior

F = TypeVar("F", bound=Callable)

# GPUs whose float64 arithmetic is at least a quarter as fast as float32; on others it is 32 to 64 times slower.
_FAST_FLOAT64 = ("P100", "V100", "A100", "A30", "A800", "H100", "H200", "GH200", "H800", "B200", "GB200")
_FAST_FLOAT64_PREFIX = "MI"  # AMD's Instinct series


def exact(f: F) -> F:
    """Return `f` with matrix products in the full precision of their arguments."""

    @functools.wraps(f, updated=())
    def with_full_products(*args: Any, **kwargs: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return f(*args, **kwargs)

    return cast(F, with_full_products)


@contextlib.contextmanager
def float64(use: bool = True) -> Iterator[None]:
    """Allow float64 arrays on this thread if `use` holds, whatever JAX is set to."""
    with contextlib.ExitStack() as stack:
        if use:
            stack.enter_context(jax.enable_x64(True))
        yield


def float64_is_cheap() -> bool:
    """Return whether the default device computes in float64 without a great loss of speed."""
    device = jax.devices()[0]
    if device.platform == "cpu":
        return True
    kinds = device.device_kind.upper().replace("-", " ").split()
    fast = any(kind in _FAST_FLOAT64 or kind.startswith(_FAST_FLOAT64_PREFIX) for kind in kinds)
    return device.platform == "gpu" and fast


def why_not_float64(posterior: Posterior, data: PyTree | Stream, theta: PyTree) -> str | None:
    """Return why the rows cannot be evaluated in float64; `None` if they can.

    A log-likelihood may fix float32 itself, by `astype` or in the carry of a loop.
    """
    if not float64_is_cheap():
        return f"{jax.devices()[0].device_kind} computes in float64 only slowly"
    with float64():
        wide = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.float64), theta)
        rows = jax.tree.map(lambda x: jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype), rows_in_memory(data))
        total = lambda x, r: jnp.sum(posterior.row_log_likelihoods(x, r)) + posterior.prior_log_density(x)
        try:
            values = eqx.filter_eval_shape(posterior.row_log_likelihoods, wide, rows)
            eqx.filter_eval_shape(jax.grad(total), wide, rows)
        except Exception as error:  # the user's functions may raise anything
            return f"the log-density does not accept parameters in float64 ({type(error).__name__})"
    if values.dtype != jnp.float64:
        return f"the log-likelihood returns {values.dtype} for parameters in float64"
    return None


def widened(x: PyTree) -> PyTree:
    """Return a pytree with its floating arrays in float64. Call it in the context `float64()`."""

    def one(leaf: Any) -> Any:
        if eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating):
            return tree.put(leaf, np.float64)
        return leaf

    return jax.tree.map(one, x)
