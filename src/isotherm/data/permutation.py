"""A keyed permutation of {0, ..., N-1} whose values are computed one at a time in O(1), without a table.

It is a Feistel network over pairs (l, r) with l < a, r < b, a b >= N. Each round adds a hash of one half to the
other, which is a bijection whatever the hash. Values at or above N, fewer than one in sqrt(N), follow their cycle
until they fall below N, which makes the map a bijection of {0, ..., N-1}.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, UInt32

_ROUNDS = 8


def permute(index: Int[Array, " n"], size: int, *, key: Key[Array, ""]) -> Int[Array, " n"]:
    """Return the images of `index` under the permutation of `range(size)` that `key` selects."""
    a = math.isqrt(size - 1) + 1
    b = -(-size // a)
    round_keys = jax.random.bits(key, (_ROUNDS,), jnp.uint32)

    def network(x: UInt32[Array, " n"]) -> UInt32[Array, " n"]:
        l, r = x // b, x % b
        for left_key, right_key in zip(round_keys[::2], round_keys[1::2], strict=True):
            l = _add(l, _hash(r ^ left_key, a), a)
            r = _add(r, _hash(l ^ right_key, b), b)
        return l * b + r

    def walk(x: UInt32[Array, " n"]) -> UInt32[Array, " n"]:
        return jnp.where(x < size, x, network(x))

    x = network(index.astype(jnp.uint32))
    x = jax.lax.while_loop(lambda x: jnp.any(x >= size), walk, x)
    return x.astype(jnp.int32)


def _hash(x: UInt32[Array, " n"], below: int) -> UInt32[Array, " n"]:
    # MurmurHash3's finaliser; its upper 16 bits are then scaled to [0, below) without a division.
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    x = x ^ (x >> 16)
    return ((x >> 16) * jnp.uint32(below)) >> 16


def _add(x: UInt32[Array, " n"], y: UInt32[Array, " n"], modulus: int) -> UInt32[Array, " n"]:
    z = x + y
    return jnp.where(z >= modulus, z - jnp.uint32(modulus), z)
