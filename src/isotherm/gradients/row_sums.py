"""A kernel for NVIDIA GPUs that sums the log-likelihoods of many chains' batches and their gradients.

Compiled from array operations, a step writes the gathered rows to memory and reads them again in the forward and in
the backward pass. The kernel reads each row once: for a log-likelihood of x.w, it keeps x in registers between the
product with w and the share of the row in the gradient. The rest of the log-likelihood is traced into the kernel.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from isotherm.gradients.linear import LinearLikelihood
from isotherm.posterior import Posterior

MOST_FEATURES = 1024  # a longer row does not fit in the registers of a block of threads
_TILE = 2048  # numbers of x that a block of threads holds at a time
_WARPS = 4
_BLOCKS = 1024  # blocks of threads that keep a large GPU busy


class RowSums(NamedTuple):
    """Sums over each of k parts of a batch: log-likelihoods, and their gradients with a leading axis k."""

    values: Float[Array, "*chains k"]
    gradients: PyTree[Array]


def row_sums(
    likelihood: LinearLikelihood,
    posterior: Posterior,
    theta: PyTree,
    rows: PyTree,
    index: Int[Array, "chains n"],
    parts: int,
    *,
    interpret: bool = False,
) -> RowSums:
    """Return the sums over the parts of each chain's batch, with a leading axis of chains.

    All parts have n // parts rows, and the last one also the remainder. `interpret` runs the kernel on any device,
    slowly.
    """
    head = lambda at: likelihood.head(posterior, at)
    w, scalars = jax.vmap(head)(theta)
    leaves = jax.tree.leaves(rows)
    x = leaves.pop(likelihood.features)
    values, by_w, by_scalars = _sums(likelihood, x, leaves, index, w, scalars, parts, interpret)

    def pulled(at: PyTree, *sums: PyTree) -> PyTree:
        _, pull = jax.vjp(head, at)
        return jax.vmap(lambda *one: pull(one)[0])(*sums)

    return RowSums(values, jax.vmap(pulled)(theta, by_w, by_scalars))


def _sums(
    likelihood: LinearLikelihood,
    x: Float[Array, "N d"],
    others: list[Array],
    index: Int[Array, "chains n"],
    w: Float[Array, "chains d"],
    scalars: tuple[Float[Array, " chains"], ...],
    parts: int,
    interpret: bool,
) -> tuple[Array, Array, tuple[Array, ...]]:
    """Return the sums of log-likelihoods and of their derivatives by w and by each scalar, (chains, parts, ...)."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (chains, n), d = index.shape, x.shape[1]
    width = pl.next_power_of_2(d)
    block = max(1, _TILE // width)
    short = n // parts
    longest = n - (parts - 1) * short
    # A part is cut into pieces if there are few chains.
    pieces = max(1, min(_BLOCKS // (chains * parts), pl.cdiv(longest, block)))
    piece_rows = pl.cdiv(longest, pieces)
    evaluate = _evaluate(likelihood)

    def kernel(x_ref: Any, index_ref: Any, w_ref: Any, *refs: Any) -> None:
        scalar_refs, other_refs = refs[: len(scalars)], refs[len(scalars) : len(scalars) + len(others)]
        value_out, w_out, *scalar_outs = refs[len(scalars) + len(others) :]
        chain, part, piece = (pl.program_id(axis) for axis in range(3))
        start = part * short + piece * piece_rows
        stop = jnp.minimum(start + piece_rows, jnp.where(part == parts - 1, n, (part + 1) * short))
        columns = jnp.arange(width)
        real = columns < d
        w = triton.load(w_ref.at[chain, columns], mask=real, other=0.0)
        s = tuple(ref[chain] for ref in scalar_refs)

        def add(trip: Array, sums: tuple[Array, Array, tuple[Array, ...]]) -> Any:
            place = start + trip * block + jnp.arange(block)
            used = place < stop
            row = triton.load(index_ref.at[chain, place], mask=used, other=0)
            tile = [jnp.broadcast_to(i, (block, width)) for i in (row[:, None], columns[None])]
            xs = triton.load(x_ref.at[tuple(tile)], mask=used[:, None] & real[None], other=0.0)
            ys = tuple(triton.load(ref.at[row], mask=used, other=0) for ref in other_refs)
            value, by_s, by_eta = evaluate(s, jnp.sum(xs * w[None], axis=1), ys, used)
            by_s = tuple(a + b for a, b in zip(sums[2], by_s, strict=True))
            return sums[0] + value, sums[1] + xs * by_eta[:, None], by_s

        zero = jnp.zeros(block, jnp.float32)
        empty = (zero, jnp.zeros((block, width), jnp.float32), (zero,) * len(s))
        value, by_w, by_s = jax.lax.fori_loop(0, pl.cdiv(piece_rows, block), add, empty)
        value_out[chain, part, piece] = jnp.sum(value)
        triton.store(w_out.at[chain, part, piece, columns], jnp.sum(by_w, axis=0), mask=real)
        for out, total in zip(scalar_outs, by_s, strict=True):
            out[chain, part, piece] = jnp.sum(total)

    scalar = jax.ShapeDtypeStruct((chains, parts, pieces), jnp.float32)
    vector = jax.ShapeDtypeStruct((*scalar.shape, d), jnp.float32)
    launched = pl.pallas_call(
        kernel,
        grid=scalar.shape,
        out_shape=[scalar, vector, *(scalar for _ in scalars)],
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=_WARPS),
    )
    value, by_w, *by_scalars = (jnp.sum(out, axis=2) for out in launched(x, index, w, *scalars, *others))
    return value, by_w, tuple(by_scalars)


def _evaluate(likelihood: LinearLikelihood) -> Callable[..., tuple[Array, tuple[Array, ...], Array]]:
    """Return a function (s, eta, y, used) -> log-likelihoods and derivatives by s and eta, zero if not used."""

    def one(s: tuple[Array, ...], eta: Array, y: tuple[Array, ...], used: Array) -> tuple[Array, Any]:
        value, pull = jax.vjp(lambda s, eta: likelihood.tail(s, eta, y), s, eta)
        # Started from the constant 1, the derivative may negate a constant, which Pallas cannot.
        return value, pull(used.astype(value.dtype))

    def many(s: Any, eta: Array, y: Any, used: Array) -> tuple[Array, tuple[Array, ...], Array]:
        value, (by_s, by_eta) = jax.vmap(one, in_axes=(None, 0, 0, 0))(s, eta, y, used)
        zero_elsewhere = lambda v: jnp.where(used, v, 0.0)  # a row of zeros may have infinite derivatives
        return zero_elsewhere(value), jax.tree.map(zero_elsewhere, by_s), zero_elsewhere(by_eta)

    return many
