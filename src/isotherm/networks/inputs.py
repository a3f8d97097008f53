"""What `fit` is given: a module, and rows to train with and to hold out."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm.data.rows import checked_rows
from isotherm.errors import must
from isotherm.interop.networks import Network

_HELD_OUT, _FEWEST_HELD_OUT = 2000, 20


def network_of(module: Any, likelihood: Any) -> Network:
    """Return the network of a module, or the one that was given."""
    if isinstance(module, Network):
        if likelihood is not None:
            raise must("likelihood", "None if `module` is a network, which has one", likelihood)
        return module
    if likelihood is None:
        raise must("likelihood", "a name such as 'categorical', or a function", None)
    if isinstance(module, eqx.Module):
        from isotherm.interop import equinox

        return equinox.posterior(module, likelihood)
    from isotherm.interop import flax

    return flax.posterior(module, likelihood)


def split(
    x: PyTree, y: Any, share: float | None, key: Key[Array, ""]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return rows to train and sample with, and rows that are held out."""
    if share is not None and (not isinstance(share, int | float) or not 0 < share <= 0.5):
        raise must(
            "held_out",
            "a number above 0 and at most 0.5",
            share,
            "Leave it out to hold out a tenth or a fifth.",
        )
    rows = checked(x, y)
    N = len(rows["y"])
    share = min(0.2, max(0.1, _HELD_OUT / N)) if share is None else share
    count = int(share * N)
    if count < _FEWEST_HELD_OUT:
        repair = f"Raise `held_out`: {count} of {N} rows would be held out."
        raise must("held_out", f"a share of at least {_FEWEST_HELD_OUT} rows", share, repair)
    order = np.asarray(jax.random.permutation(key, N))
    part = lambda index: jax.tree.map(lambda leaf: jnp.asarray(leaf[index]), rows)
    return part(order[count:]), part(order[:count])


def checked(x: PyTree, y: Any) -> dict[str, Any]:
    """Return rows of a network on the host. Raises unless x and y hold numbers, in equally many rows."""
    given, outcomes = checked_rows(x, argument="x"), checked_rows(y, argument="y")
    if given.num_data != outcomes.num_data:
        rule = f"arrays of {outcomes.num_data} rows, as many as `y` has"
        raise must("x", rule, f"{given.num_data} rows")
    return jax.tree.map(np.asarray, {"x": given.arrays, "y": outcomes.arrays})
