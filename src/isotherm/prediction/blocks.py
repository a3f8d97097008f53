"""Evaluate a function of parameters and rows at every draw, one block of rows at a time."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from isotherm import tree
from isotherm.data.opening import checked_blocks
from isotherm.data.sources.base import Source, row_of
from isotherm.data.stream import padded, read_ahead
from isotherm.draws import Draws, Moments
from isotherm.errors import check_count, must
from isotherm.sums import precision
from isotherm.sums.fold import RowFunction, each, num_rows

_VALUES = 2**24  # in a block: draws times rows times values per row
_PARAMETERS = 2**26  # numbers in the draws that are on the device at once
# Numbers in the rows of a block, times draws, that are computed side by side.
_SIDE_BY_SIDE = {"cpu": 2**18}
_SIDE_BY_SIDE_ELSEWHERE = 2**22
_TERMS = 16  # that are added one after the other in single precision


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

    With a `key`, `f` takes one as a third argument: a different key for each draw and block. The values of a row at
    all draws are contiguous in memory, which makes sorting them several times faster.
    """
    for rows, pieces in ahead(evaluated(_Values, f, params, x, rows_at_once=rows_at_once, key=key)):
        values = pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=-1)
        yield rows, np.moveaxis(np.asarray(values)[: rows.stop - rows.start], -1, 0)


def log_means(
    f: Callable[..., Array],
    params: PyTree[np.ndarray],
    x: PyTree,
    *,
    rows_at_once: int | None = None,
) -> Iterator[tuple[slice, Float[np.ndarray, " row"]]]:
    """Yield a slice of rows and, for each, the log of the mean over draws of exp(f); NaN if f is NaN at a draw.

    `f` returns one value per row. Its values at all draws are never in memory at once.
    """
    for rows, pieces in ahead(evaluated(_MeanExp, f, params, x, rows_at_once=rows_at_once)):
        yield rows, log_mean(pieces)[: rows.stop - rows.start]


def log_mean(pieces: Sequence[PyTree]) -> Float[np.ndarray, " row"]:
    """The log of the mean over all draws, from what `mean_exp` returns for each piece of them."""
    levels, means, counts = (np.asarray(leaf, np.float64) for leaf in zip(*pieces, strict=True))
    level = levels.max(axis=0)
    with np.errstate(divide="ignore"):
        return level + np.log(np.sum(counts * means * np.exp(levels - level), axis=0) / counts.sum(axis=0))


def evaluated(
    kind: Callable[..., RowFunction],
    f: Callable[..., Array],
    params: PyTree[np.ndarray],
    x: PyTree,
    *,
    rows_at_once: int | None = None,
    key: Key[Array, ""] | None = None,
) -> Iterator[tuple[slice, list[PyTree[Array]]]]:
    """Yield a slice of rows and what `kind` makes of `f` for them, by the engine of `sums/`, for each piece of draws.

    The rows stay on the host, and so do draws that are too many for the device. The last rows may be repeated: see
    `_piece`. A host loop over slices of the rows lets Ctrl-C stop it.
    """
    x = x if isinstance(x, Source) else jax.tree.map(np.asarray, x)
    like = x.row if isinstance(x, Source) else row_of(x)
    N, num_draws = x.num_rows if isinstance(x, Source) else num_rows(x), num_rows(params)
    # Draws in float64 are those that float32 does not hold.
    wide = any(np.asarray(leaf).dtype == np.float64 for leaf in jax.tree.leaves(params))
    with precision.float64(wide):
        width = _output_size(f, params, like, N, key)
    at_once = max(1, min(num_draws, _PARAMETERS * num_draws // tree.size(params)))
    length = min(N, rows_at_once or max(1, _VALUES // (num_draws * width)))
    row_width = max(width, sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(like)))
    # Rows that the user limits, or whose random outcomes follow from one key, are one block. So are those of a
    # network: its parameters are read again for every block.
    is_network = tree.size(params) // num_draws > 2 * row_width
    whole = key is not None or rows_at_once is not None or is_network
    if at_once == num_draws:
        with precision.float64(wide):
            params = jax.device_put(params)
    for start, rows in zip(range(0, N, length), _pieces(x, length), strict=True):
        keys = None if key is None else jax.random.split(jax.random.fold_in(key, start), num_draws)
        pieces = []
        for first in range(0, num_draws, at_once):
            draws = jax.tree.map(lambda leaf, i=first: leaf[i : i + at_once], (params, keys))
            with precision.float64(wide):
                values = each(
                    kind(f, row_width),
                    rows,
                    draws,
                    numbers_per_row=min(at_once, num_draws) * width,
                    block_length=length if whole else None,
                    work=N * num_draws * row_width,
                )
            # Wait for a piece before the next one is moved to the device.
            pieces.append(values if at_once == num_draws else jax.tree.map(np.asarray, values))
        yield slice(start, min(start + length, N)), pieces


def ahead(results: Iterator[Any]) -> Iterator[Any]:
    """Yield each result after the next one was begun, so that the device computes while the host reads."""
    previous = next(results)
    for result in results:
        yield previous
        previous = result
    yield previous


def _pieces(x: PyTree | Source, length: int) -> Iterator[PyTree]:
    """Yield `length` rows at a time. The last one is repeated if needed, so that all pieces have one shape.

    A thread reads the rows of a source ahead. Raises for a row with NaN there; arrays were checked before.
    """
    if isinstance(x, Source):
        return (padded(block, length) for block in read_ahead(checked_blocks(x, length, argument="x")))
    N = num_rows(x)
    cut = lambda i: jax.tree.map(lambda leaf: leaf[i : i + length], x)
    return (padded(x if length == N else cut(i), length) for i in range(0, N, length))


def _at(f: Callable[..., Any], params: PyTree, rows: PyTree, key: Key[Array, ""] | None) -> Any:
    return f(params, rows) if key is None else f(params, rows, key)


class _Values(eqx.Module):
    """The values of `f` for a block of rows: (row, ..., draw)."""

    f: Callable[..., Array]
    row_width: int = eqx.field(static=True)

    def __call__(self, rows: PyTree, draws: tuple[PyTree, Key[Array, " m"] | None]) -> Array:
        return jnp.moveaxis(_at_draws(self.f, rows, draws, self.row_width), 0, -1)


class _MeanExp(eqx.Module):
    """What `mean_exp` returns, for each row of a block."""

    f: Callable[..., Array]
    row_width: int = eqx.field(static=True)

    def __call__(
        self, rows: PyTree, draws: tuple[PyTree, None]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"], Float[Array, " n"]]:
        return mean_exp(_at_draws(self.f, rows, draws, self.row_width))


def mean_exp(
    values: Float[Array, "draw n"],
) -> tuple[Float[Array, " n"], Float[Array, " n"], Float[Array, " n"]]:
    """Level and mean of exp(values - level) over the draws, for each row, and the number of draws.

    The level is the largest value, or 0 if that is infinite. Terms are added in groups of 16, then the sums of 16
    groups, and so on, so that rounding does not grow with the number of draws.
    """
    values = values.astype(jnp.promote_types(values.dtype, jnp.float32))
    top = jnp.max(values, axis=0)
    level = jnp.where(jnp.isinf(top), 0, top)  # a row may have zero likelihood at every draw
    terms, count = jnp.exp(values - level[None]), len(values)
    while len(terms) > 1:
        filled = jnp.pad(terms, ((0, -len(terms) % _TERMS), (0, 0)))
        terms = jnp.sum(filled.reshape(-1, _TERMS, filled.shape[1]), axis=1)
    return level, terms[0] / count, jnp.full_like(level, count)


@precision.exact
def _at_draws(
    f: Callable[..., Array], rows: PyTree, draws: tuple[PyTree, Key[Array, " m"] | None], row_width: int
) -> Array:
    """The values of `f` for a block of rows, (draw, row, ...), computed for some draws side by side."""

    def one(draw: tuple[PyTree, Key[Array, ""] | None]) -> Array:
        params, key = draw
        # With keys, all rows are one block: the loop over blocks uses each key once.
        value = _at(f, params, rows, None if key is None else jax.random.clone(key))
        return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(float)

    numbers = _SIDE_BY_SIDE.get(jax.default_backend(), _SIDE_BY_SIDE_ELSEWHERE)
    side_by_side = max(1, numbers // (num_rows(rows) * row_width))
    return jax.lax.map(one, draws, batch_size=min(side_by_side, num_rows(draws)))


def _output_size(
    f: Callable[..., Array], params: PyTree, like: PyTree, N: int, key: Key[Array, ""] | None
) -> int:
    """The number of values per row, from shapes alone. Raises if `f` returns no array with an axis of rows.

    `like` has the shapes and dtypes of a row, of which there are N.
    """
    rows = min(2, N)
    one = jax.tree.map(lambda a: jnp.asarray(a[0]), params)
    dtype = jax.dtypes.canonicalize_dtype
    few = jax.tree.map(lambda a: jax.ShapeDtypeStruct((rows, *a.shape), dtype(a.dtype)), like)
    try:
        out = eqx.filter_eval_shape(_at, f, one, few, key)
    except Exception as error:  # the user's function may raise anything
        error.add_note(
            f"This was raised with the parameters of one draw ({tree.shapes(one, 'params')}) and {rows} rows "
            f"({tree.shapes(few, 'x')})."
        )
        raise
    if not isinstance(out, jax.ShapeDtypeStruct) or out.shape[:1] != (rows,):
        got = out.shape if isinstance(out, jax.ShapeDtypeStruct) else f"a {type(out).__name__}"
        raise ValueError(
            "`f(params, x)` must return an array whose first axis is the rows of `x`; "
            f"for {rows} rows it returned {got}."
        )
    return max(1, math.prod(out.shape[1:]))
