"""A function of parameters and rows at every draw, one block of rows after the other."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from isotherm import tree
from isotherm.draws import Draws, Moments
from isotherm.errors import check_count, must

_VALUES = 2**24  # of a block: draws times rows times values of a row
_PARAMETERS = 2**26  # numbers in the draws that are on the device at a time
_SIDE_BY_SIDE = 2**20  # numbers of the rows times draws that are computed at once


def chosen(draws: Draws, draws_used: int | None = None) -> Draws:
    """The chains that did not fail; of each equally many draws, evenly spaced, `draws_used` in all at most."""
    if not isinstance(draws, Draws):
        raise must("draws", "an `iso.Draws`", draws, error=TypeError)
    chains = np.flatnonzero(draws.complete)
    if len(chains) == 0:
        told = "; ".join(dict.fromkeys(draws.status))
        raise ValueError(f"`draws` must have a chain that did not fail; got: {told}.")
    count = draws.num_draws
    if count == 0:
        raise ValueError(
            f"`draws` must have at least one draw; got none: {'; '.join(dict.fromkeys(draws.status))}."
        )
    if draws_used is not None:
        check_count("draws_used", draws_used, minimum=len(chains), repair="Take one of each chain at least.")
        count = min(count, draws_used // len(chains))
    if count == draws.num_draws and len(chains) == draws.num_chains:
        return draws
    index = np.ix_(chains, np.linspace(0, draws.num_draws - 1, count).round().astype(int))
    own = lambda x: np.asarray(x)[chains]
    moments = {f.name: getattr(draws.moments, f.name) for f in dataclasses.fields(Moments)}
    return dataclasses.replace(
        draws,
        posterior=jax.tree.map(lambda x: np.asarray(x)[index], draws.posterior),
        stats={name: x[index] if x.ndim == 2 else x[chains] for name, x in draws.stats.items()},
        moments=Moments(**{name: jax.tree.map(own, x) for name, x in moments.items()}),
        status=tuple(draws.status[i] for i in chains),
        lengths=np.full(len(chains), count),
        complete=own(draws.complete),
        setup=None,
        derived={name: np.asarray(x)[index] for name, x in draws.derived.items()},
    )


def in_a_row(draws: Draws) -> PyTree[np.ndarray]:
    """The parameters of all chains end to end: leaves (draw, ...)."""
    return jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), draws.posterior)


def blocks(
    f: Callable[..., Array],
    params: PyTree[np.ndarray],
    x: PyTree,
    *,
    rows_at_once: int | None = None,
    key: Key[Array, ""] | None = None,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Which rows, and `f` of them at every draw: (draw, row, ...). Memory is bounded by the size of a block.

    With a key, `f` takes one as well: its own for each draw and block.
    """
    x = jax.tree.map(np.asarray, x)
    num_rows, num_draws = _count(x), _count(params)
    width = _output_size(f, params, x, key)
    length = min(num_rows, rows_at_once or max(1, _VALUES // (num_draws * width)))
    at_once = max(1, min(num_draws, _PARAMETERS * num_draws // tree.size(params)))
    row_width = max(width, tree.size(x) // num_rows)
    side_by_side = max(1, min(at_once, _SIDE_BY_SIDE // (length * row_width)))
    if at_once == num_draws:
        params = jax.device_put(params)
    for begin in range(0, num_rows, length):
        rows = _piece(x, begin, length)
        keys = None if key is None else jax.random.split(jax.random.fold_in(key, begin), num_draws)
        values = [
            _values(f, _piece((params, keys), first, at_once), rows, side_by_side)
            for first in range(0, num_draws, at_once)
        ]
        used = min(length, num_rows - begin)
        block = np.concatenate([np.asarray(v)[:, :used] for v in values])[:num_draws]
        yield slice(begin, begin + used), block


def _count(arrays: PyTree) -> int:
    return jax.tree.leaves(arrays)[0].shape[0]


def _piece(arrays: PyTree, begin: int, length: int) -> PyTree:
    """This many from here on, the last repeated where there are not enough: one program serves all pieces."""
    count = _count(arrays)
    if length == count:
        return arrays
    index = np.minimum(np.arange(begin, begin + length), count - 1)
    return jax.tree.map(lambda x: x[begin : begin + length] if index[-1] < count - 1 else x[index], arrays)


def _at(f: Callable[..., Any], params: PyTree, rows: PyTree, key: Key[Array, ""] | None) -> Any:
    return f(params, rows) if key is None else f(params, rows, key)


@eqx.filter_jit
def _values(
    f: Callable[..., Array],
    draws: tuple[PyTree, Key[Array, " m"] | None],
    rows: PyTree,
    side_by_side: int,
) -> Array:
    def one(draw: tuple[PyTree, Key[Array, ""] | None]) -> Array:
        value = _at(f, draw[0], rows, draw[1])
        return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(float)

    return jax.lax.map(one, draws, batch_size=side_by_side)


def _output_size(f: Callable[..., Array], params: PyTree, x: PyTree, key: Key[Array, ""] | None) -> int:
    """Values of a row, by shapes alone. Refuses what is not an array with an axis of rows."""
    rows = min(2, _count(x))
    one = jax.tree.map(lambda a: jnp.asarray(a[0]), params)
    few = jax.tree.map(lambda a: jnp.asarray(a[:rows]), x)
    out = eqx.filter_eval_shape(_at, f, one, few, key)
    if not isinstance(out, jax.ShapeDtypeStruct) or out.shape[:1] != (rows,):
        got = out.shape if isinstance(out, jax.ShapeDtypeStruct) else f"a {type(out).__name__}"
        raise ValueError(
            f"`f(params, x)` must return an array whose first axis is the rows of `x`; of {rows} rows it gave {got}."
        )
    return max(1, math.prod(out.shape[1:]))
