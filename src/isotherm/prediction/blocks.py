"""Evaluate a function of parameters and rows at every draw, one block of rows at a time."""

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
from isotherm.sums import precision

_VALUES = 2**24  # in a block: draws times rows times values per row
_PARAMETERS = 2**26  # numbers in the draws that are on the device at once
_SIDE_BY_SIDE = 2**20  # numbers in the rows, times draws, that are computed at once


def chosen(draws: Draws, draws_used: int | None = None) -> Draws:
    """The draws of the chains that did not fail: at most `draws_used`, evenly spaced, equally many per chain."""
    if not isinstance(draws, Draws):
        raise must("draws", "an `iso.Draws`", draws, error=TypeError)
    chains = np.flatnonzero(draws.complete)
    if len(chains) == 0:
        reasons = "; ".join(dict.fromkeys(draws.status))
        raise ValueError(f"`draws` must have a chain that did not fail; got: {reasons}.")
    count = draws.num_draws
    if count == 0:
        raise ValueError(
            f"`draws` must have at least one draw; got none: {'; '.join(dict.fromkeys(draws.status))}."
        )
    if draws_used is not None:
        check_count("draws_used", draws_used, minimum=len(chains), repair="Take at least one draw per chain.")
        count = min(count, draws_used // len(chains))
    if count == draws.num_draws and len(chains) == draws.num_chains:
        return draws
    index = np.ix_(chains, np.linspace(0, draws.num_draws - 1, count).round().astype(int))
    of_chains = lambda x: np.asarray(x)[chains]
    moments = {f.name: getattr(draws.moments, f.name) for f in dataclasses.fields(Moments)}
    return dataclasses.replace(
        draws,
        posterior=jax.tree.map(lambda x: np.asarray(x)[index], draws.posterior),
        stats={name: x[index] if x.ndim == 2 else x[chains] for name, x in draws.stats.items()},
        moments=Moments(**{name: jax.tree.map(of_chains, x) for name, x in moments.items()}),
        status=tuple(draws.status[i] for i in chains),
        lengths=np.full(len(chains), count),
        complete=of_chains(draws.complete),
        setup=None,
        derived={name: np.asarray(x)[index] for name, x in draws.derived.items()},
    )


def in_a_row(draws: Draws) -> PyTree[np.ndarray]:
    """The parameters of all chains, concatenated: leaves (draw, ...)."""
    return jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), draws.posterior)


def blocks(
    f: Callable[..., Array],
    params: PyTree[np.ndarray],
    x: PyTree,
    *,
    rows_at_once: int | None = None,
    key: Key[Array, ""] | None = None,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield a slice of rows and the values of `f` for them, (draw, row, ...). The block size bounds the memory used.

    With a `key`, `f` takes one as a third argument: a different key for each draw and block.
    """
    x = jax.tree.map(np.asarray, x)
    num_rows, num_draws = _count(x), _count(params)
    # Draws in float64 are those that float32 does not hold.
    wide = any(np.asarray(leaf).dtype == np.float64 for leaf in jax.tree.leaves(params))
    with precision.float64(wide):
        width = _output_size(f, params, x, key)
    length = min(num_rows, rows_at_once or max(1, _VALUES // (num_draws * width)))
    at_once = max(1, min(num_draws, _PARAMETERS * num_draws // tree.size(params)))
    row_width = max(width, tree.size(x) // num_rows)
    side_by_side = max(1, min(at_once, _SIDE_BY_SIDE // (length * row_width)))
    if at_once == num_draws:
        with precision.float64(wide):
            params = jax.device_put(params)
    for start in range(0, num_rows, length):
        rows = _piece(x, start, length)
        keys = None if key is None else jax.random.split(jax.random.fold_in(key, start), num_draws)
        with precision.float64(wide):
            values = [
                _values(f, _piece((params, keys), first, at_once), rows, side_by_side)
                for first in range(0, num_draws, at_once)
            ]
        used = min(length, num_rows - start)
        block = np.concatenate([np.asarray(v)[:, :used] for v in values])[:num_draws]
        yield slice(start, start + used), block


def _count(arrays: PyTree) -> int:
    return jax.tree.leaves(arrays)[0].shape[0]


def _piece(arrays: PyTree, start: int, length: int) -> PyTree:
    """`length` entries from `start` on. The last one is repeated if needed, so that all pieces have one shape."""
    count = _count(arrays)
    if length == count:
        return arrays
    index = np.minimum(np.arange(start, start + length), count - 1)
    return jax.tree.map(lambda x: x[start : start + length] if index[-1] < count - 1 else x[index], arrays)


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
    """The number of values per row, from shapes alone. Raises if `f` returns no array with an axis of rows."""
    rows = min(2, _count(x))
    one = jax.tree.map(lambda a: jnp.asarray(a[0]), params)
    few = jax.tree.map(lambda a: jnp.asarray(a[:rows]), x)
    out = eqx.filter_eval_shape(_at, f, one, few, key)
    if not isinstance(out, jax.ShapeDtypeStruct) or out.shape[:1] != (rows,):
        got = out.shape if isinstance(out, jax.ShapeDtypeStruct) else f"a {type(out).__name__}"
        raise ValueError(
            "`f(params, x)` must return an array whose first axis is the rows of `x`; "
            f"for {rows} rows it returned {got}."
        )
    return max(1, math.prod(out.shape[1:]))
