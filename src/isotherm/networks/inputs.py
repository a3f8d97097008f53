"""What `fit` is given: a module, and rows to train with and to hold out."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm.data.rows import checked_rows
from isotherm.errors import must
from isotherm.interop.likelihoods import bernoulli, categorical, poisson
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


def check_outcomes(net: Network, rows: dict[str, Any]) -> None:
    """Raise if an outcome is not one that the likelihood knows, such as a class beyond the outputs of the module."""
    y, density = np.asarray(rows["y"]), net.likelihood.density
    if density is categorical and np.issubdtype(y.dtype, np.integer):
        one = jax.tree.map(lambda leaf: leaf[:1], rows["x"])
        classes = jax.eval_shape(net.apply, net.init, one).shape[-1]
        wrong, rule = (
            (y < 0) | (y >= classes),
            f"a class from 0 to {classes - 1}, as the module has {classes} outputs",
        )
        repair = "Number the classes from 0, or give the module an output for each."
    elif density is bernoulli:
        wrong, rule, repair = (y != 0) & (y != 1), "0 or 1", "Write `y > 0` for classes -1 and 1."
    elif density is poisson:
        wrong, rule, repair = (y < 0) | (y != np.round(y)), "a count", "Counts are whole numbers from 0."
    else:
        return
    if wrong.any():
        raise must("y", f"{rule}, in every row", y[wrong].ravel()[0], repair)


def checked(x: PyTree, y: Any) -> dict[str, Any]:
    """Return rows of a network on the host. Raises unless x and y hold numbers, in equally many rows."""
    given, outcomes = checked_rows(x, argument="x"), checked_rows(y, argument="y")
    if given.num_data != outcomes.num_data:
        rule = f"arrays of {outcomes.num_data} rows, as many as `y` has"
        raise must("x", rule, f"{given.num_data} rows")
    return jax.tree.map(np.asarray, {"x": given.arrays, "y": outcomes.arrays})
