"""A hash of rows on the device, by which a setup recognises the data that it was made for."""

import hashlib
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt32

from isotherm import tree
from isotherm.data.sources.base import Source, exact_blocks
from isotherm.data.stream import Stream

_SOME = 64  # rows of a source, from three places, that are compared
_ODD = 0x9E3779B9  # 2^32 over the golden ratio: its multiples are far apart


def fingerprint(data: PyTree[Array] | Stream) -> str:
    """Return a hash of the names, shapes, dtypes and every bit of `data`, from one pass on the device.

    For a stream it is a hash of the number of rows and of some of them: a pass would take long.
    """
    if isinstance(data, Stream):
        return data.fingerprint
    digest = hashlib.sha256()
    for name, x in tree.named_leaves(data):
        sums = [int(total) for total in _checksums(x)]
        digest.update(f"{name} {x.shape} {x.dtype} {sums}\n".encode())
    return digest.hexdigest()


def of_source(source: Source) -> str:
    """Return a hash of the number of rows, and of the first rows, the last and some in the middle."""
    N, digest = source.num_rows, hashlib.sha256()
    digest.update(f"{N}\n".encode())
    for begin in (0, max(0, (N - _SOME) // 2), max(0, N - _SOME)):
        rows = next(exact_blocks(source, _SOME, begin, min(begin + _SOME, N)))
        for name, x in tree.named_leaves(rows):
            x = np.ascontiguousarray(x)
            digest.update(f"{name} {x.shape} {x.dtype}\n".encode() + x.tobytes())
    return digest.hexdigest()


@eqx.filter_jit
def _checksums(x: Array) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    """Return two sums, modulo 2^32, of hashes of each element and its place.

    A change of one element always shows: the hash is one-to-one in the element. Other changes go unseen with a
    probability of about 2^-64.
    """
    words = _words(x)
    row, column = (jax.lax.broadcasted_iota(jnp.uint32, words.shape, axis) for axis in (0, 1))
    place = row * jnp.uint32(words.shape[1]) + column
    first = _mixed(words ^ (place * jnp.uint32(_ODD)))
    second = _mixed(first + jnp.uint32(_ODD))
    return jnp.sum(first, dtype=jnp.uint32), jnp.sum(second, dtype=jnp.uint32)


def _words(x: Array) -> UInt32[Array, "rows words"]:
    """Return the bits of `x`, in a row for each of its rows."""
    if jnp.iscomplexobj(x):
        x = jnp.stack([x.real, x.imag], axis=-1)
    if x.dtype.itemsize == 8:
        x = jax.lax.bitcast_convert_type(x, jnp.uint32)  # with a new last axis of two
    elif jnp.issubdtype(x.dtype, jnp.floating):
        x = jax.lax.bitcast_convert_type(x, {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[x.dtype.itemsize])
    return x.astype(jnp.uint32).reshape(x.shape[0], math.prod(x.shape[1:]))


def _mixed(x: UInt32[Array, "n k"]) -> UInt32[Array, "n k"]:
    """Return the finalizer of MurmurHash3, which is one-to-one and spreads a change of one bit over all."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
