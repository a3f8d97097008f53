"""Names for all numbers folded into random keys other than step and chain numbers, so that no two uses share one.

Chains are numbered from 0 and steps stay below 2^31, so numbers from 2^31 on are free for other uses. A test checks
that all of them differ.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from isotherm.errors import check_count, must

# Folds of a chain's key.
EPOCHS = 2**32 - 1  # the order of rows in an epoch
CHAIN_START = 2**32 - 2  # the first momentum, and the batches that seed a covariance

# Folds of a run's key.
ARRANGEMENTS = 2**32 - 3  # the order in which rows are stored
JITTER = 2**32 - 4  # the spread of starts by `init_scale`
PREFLIGHT = 2**32 - 5  # the noise at the start
FAILURES = 2**32 - 6  # the noise where a chain failed
FINAL_NOISE = 2**32 - 7  # the noise where chains ended
WARMUP = 2**32 - 8  # everything that a warm-up draws
WARM_STARTS = 2**32 - 9  # starts around a mode
REFERENCE = 2**32 - 10  # `iso.reference_posterior` with the same seed
DIAGNOSIS = 2**32 - 12  # everything that `iso.diagnose` draws
VERIFICATION = 2**32 - 13  # the rows on which the arithmetic of a run is checked
VALIDATION = 2**32 - 11  # the order of rows in `isotherm validate`


def chain_keys(key: Key[Array, ""], num_chains: int) -> Key[Array, " chains"]:
    """Return the keys of chains 0, 1, ... of a run."""
    return keys_of(key, jnp.arange(num_chains))


def keys_of(key: Key[Array, ""], chains: Int[Array, " chains"]) -> Key[Array, " chains"]:
    """Return the keys of the chains of a run that have these numbers."""
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(chains)


def several(key: Key[Array, ""], count: int) -> list[Key[Array, ""]]:
    """Return `count` keys made from one, by a program that is compiled once, whatever the count and the precision."""
    with jax.enable_x64(False):
        return [jax.random.fold_in(key, i) for i in range(count)]


def as_key(seed: Any) -> Key[Array, ""]:
    """Return a typed key made from an integer or a key."""
    if isinstance(seed, jax.Array) and not isinstance(seed, jax.core.Tracer) and seed.is_deleted():
        raise ValueError("`seed` must be an integer or a key in memory; got a key that was deleted.")
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        if seed.ndim:
            raise must(
                "seed", "one key", seed, "Pass one of them; the keys of all chains are derived from it."
            )
        return seed
    if isinstance(seed, jax.Array | np.ndarray) and seed.dtype == np.uint32 and seed.shape == (2,):
        return jax.random.wrap_key_data(jnp.asarray(seed))
    number = check_count("seed", seed, minimum=0)
    # A key is seeded by 32 bits. Higher bits are folded in, so that no two seeds below 2^64 share a chain.
    key = jax.random.key(number % 2**32)
    return key if number < 2**32 else jax.random.fold_in(key, (number >> 32) % 2**32)
