"""`warmup`: settings for a posterior, found by looking at it."""

import dataclasses

import jax
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.chains.progress import Stage
from isotherm.data.rows import as_rows
from isotherm.errors import check_count, must
from isotherm.posterior import Posterior
from isotherm.sampling import checks
from isotherm.sampling.latents import refuse_row_latents
from isotherm.tuning.explore import explore
from isotherm.tuning.newton import NotNormalError
from isotherm.tuning.normal import choose
from isotherm.tuning.record import Warmup, fingerprint

_LARGEST = 1000  # parameters whose Hessian is not too large
_WARMUP = 2**32 - 8  # a fold of the run's key apart from those of its chains


def warmup(
    posterior: Posterior,
    data: PyTree,
    init: PyTree,
    *,
    batch_size: int | None = None,
    seed: int | Key[Array, ""] = 0,
    progress: bool = True,
) -> Warmup:
    """Find the mode, coordinates in which the posterior is round, and settings for them; print it to see why.

    Where the posterior is not nearly normal around one mode, or has more than a thousand parameters, chains start
    from four different places and plain minibatches are used.

    `iso.sample` calls it where no sampler is given. To look first, or to sample several times, pass what it returns
    as `init`: `tuned = iso.warmup(posterior, data, init); draws = iso.sample(posterior, data, tuned)`.

    **Arguments:**

    - `init`: one pytree of parameters, anywhere inside the support.
    - `batch_size`: rows in a minibatch; chosen where `None`.
    - `progress`: say what it is at, on a terminal or in a notebook.
    - others as for `iso.sample`.
    """
    key = checks.as_key(seed)
    rows, num_data = as_rows(data)
    given = posterior
    if num_data < 2:
        raise must("data", "at least 2 rows", num_data)
    if batch_size is not None and check_count("batch_size", batch_size, minimum=2) > num_data:
        raise must("batch_size", f"at most the number of rows, {num_data}", batch_size)
    free = checks.freed(init, posterior)
    refuse_row_latents(posterior, free, rows, num_chains=1, init_per_chain=False)
    position, posterior = checks.in_32_bits(free, posterior.unconstrained)
    starts = checks.per_chain(
        position, posterior, rows, num_chains=1, init_scale=0.0, init_per_chain=False, key=key
    )
    start = jax.tree.map(lambda x: x[0], starts)
    keys, size = jax.random.split(jax.random.fold_in(key, _WARMUP)), tree.size(start)
    with Stage(show=progress) as tell:
        try:
            if size > _LARGEST:
                raise NotNormalError(f"{size} parameters are too many for a Hessian")
            found = choose(posterior, rows, start, key=keys[0], batch_size=batch_size, tell=tell)
        except NotNormalError as error:
            why = str(error)
            found = explore(posterior, rows, start, why, key=keys[1], batch_size=batch_size, tell=tell)
    return dataclasses.replace(found, posterior=given, fingerprint=fingerprint(rows))
