"""The first pass over a source: every row is checked, and a random sample of the rows is kept."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from isotherm import processes, tree
from isotherm.data.checks import InfiniteRows, is_finite_on_device
from isotherm.data.fingerprint import of_source
from isotherm.data.sources.arrays import arrays
from isotherm.data.sources.base import Source, check_unchanged, exact_blocks
from isotherm.data.sparse import is_sparse
from isotherm.data.stream import (
    Stream,
    block_length_of,
    host_rows,
    narrowed,
    num_rows,
    put,
    read_ahead,
    sample_size,
)
from isotherm.errors import must
from isotherm.text import visible

_MOST_ROWS = 4096  # rows with infinite values that are kept


@dataclasses.dataclass(frozen=True, eq=False)
class Opened:
    """A source that was read once: a sample of its rows in its own dtypes, and which rows are infinite."""

    source: Source
    state: str
    sample: PyTree[np.ndarray]
    sample_index: np.ndarray
    infinite: tuple[InfiniteRows, ...]
    fingerprint: str
    argument: str = "data"

    @property
    def labelled(self) -> list[tuple[str, np.ndarray]]:
        """The leaves of the sample, with the names that errors use."""
        return list(zip(_labels(self.source, self.argument), jax.tree.leaves(self.sample), strict=True))

    def stream(self) -> Stream:
        """Return the rows in the dtypes that JAX gives them in its present mode."""
        dtypes = tuple(_dtype(x.dtype) for x in jax.tree.leaves(self.source.row))
        sample = jax.tree.map(put, narrowed(self.sample, dtypes))
        length = block_length_of(self.source)
        return Stream(self.source, self.state, dtypes, length, sample, self.sample_index, self.fingerprint)


def opened(source: Source, *, argument: str = "data") -> Opened:
    """Read all rows of a source once. Raises for rows that cannot be used; errors refer to it as `argument`."""
    labels = _labels(source, argument)
    N, state = source.num_rows, source.state()
    index = _random_rows(N, sample_size(source), np.random.default_rng(0))
    checks = [_Check(label) for label in labels]
    parts = processes.gathered(lambda: _read(source, state, index, checks), f"read {argument}")
    for process, part in enumerate(parts):
        if part.num_rows != N:
            rule = f"the same source in all processes; it has {N} rows here and {part.num_rows} in process {process}"
            raise ValueError(f"`{argument}` must be {rule}. Give all processes the same files.")
    # Rows that are all in the sample stay in order, since they become arrays.
    order = np.random.default_rng(1).permutation(len(index)) if len(index) < N else slice(None)
    sample = [np.concatenate(x)[order] for x in zip(*(part.rows for part in parts), strict=True)]
    structured = jax.tree.unflatten(jax.tree.structure(source.row), sample)
    found = zip(labels, zip(*(part.infinite for part in parts), strict=True), strict=True)
    infinite = tuple(x for label, same in found if (x := _together(label, same)) is not None)
    return Opened(source, state, structured, index[order], infinite, of_source(source), argument)


class _Part(NamedTuple):
    """What a process has read: the number of rows of the source, and rows of the sample in order.

    `infinite` holds, for each leaf, some numbers of rows with infinite values, and how many there are.
    """

    num_rows: int
    rows: list[np.ndarray]
    infinite: list[tuple[np.ndarray, int]]


def _read(source: Source, state: str, index: np.ndarray, checks: "list[_Check]") -> _Part:
    """Read the rows that are this process's to read: all of them, if there is only one."""
    N, length, pieces = source.num_rows, block_length_of(source), []
    first, last = processes.own_range(-(-N // length))
    begin, end = first * length, min(last * length, N)
    place = begin
    for block in read_ahead(_seen(source, length, checks, begin, end)):
        low, high = np.searchsorted(index, [place, place + num_rows(block)])
        pieces.append(jax.tree.leaves(host_rows(block, index[low:high] - place)))
        place += num_rows(block)
    check_unchanged(source, state)
    rows = [np.concatenate(x) for x in zip(*pieces, strict=True)]
    none = [np.empty((0, *x.shape), x.dtype) for x in jax.tree.leaves(source.row)]
    return _Part(N, rows or none, [(np.concatenate(check.kept), check.count) for check in checks])


def brought(data: PyTree | Source | Opened) -> PyTree | Opened:
    """Return arrays as they are, few rows of a source as arrays, and many as an opened source.

    Memory maps of NumPy count as a source.
    """
    if isinstance(data, Opened):
        return data
    source = as_source(data)
    if source is None:
        return data
    read = opened(source)
    if len(read.sample_index) < source.num_rows:
        return read
    return read.sample


def as_source(data: PyTree | Source) -> Source | None:
    """Return `data` as a source, if it is one or holds memory maps of NumPy."""
    if isinstance(data, Source):
        return data
    mapped = any(isinstance(x, np.memmap) for x in jax.tree.leaves(data, is_leaf=is_sparse))
    return arrays(data) if mapped else None


def checked_blocks(source: Source, length: int, *, argument: str) -> Iterator[PyTree[Any]]:
    """Yield the blocks of a source. Raises for a row that cannot be used; errors refer to the rows as `argument`."""
    return _seen(source, length, [_Check(label) for label in _labels(source, argument)])


def _seen(
    source: Source, length: int, checks: "list[_Check]", begin: int = 0, end: int | None = None
) -> Iterator[PyTree[Any]]:
    for block in exact_blocks(source, length, begin, end):
        for check, x in zip(checks, jax.tree.leaves(block), strict=True):
            if not is_finite_on_device(x):
                check.see(np.asarray(x), begin)
        begin += num_rows(block)
        yield block


def _labels(source: Source, argument: str) -> list[str]:
    """Return what errors call each leaf of a row. Raises for a source without rows or numbers."""
    named = tree.named_leaves(source.row)
    if not named:
        raise ValueError(f"`{argument}` must have at least one array in a row; got an empty pytree.")
    if source.num_rows < 1:
        raise ValueError(f"`{argument}` must have at least one row; got a source with none.")
    labels = [f"{argument}.{visible(name)}" if name else argument for name, _ in named]
    for label, (_, x) in zip(labels, named, strict=True):
        if np.dtype(x.dtype).kind not in "biufc" and not jnp.issubdtype(x.dtype, jnp.floating):
            raise must(
                label, "numeric", x.dtype, "Encode text, dates and objects as numbers.", error=TypeError
            )
        if 0 in x.shape:
            rule = "at least one number in each row"
            raise ValueError(f"`{label}` must hold {rule}; its rows have the shape {x.shape}. Leave it out.")
    return labels


def _random_rows(N: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return `count` distinct random numbers below N, in order, without a table of N."""
    if count >= N:
        return np.arange(N, dtype=np.int64)
    if 2 * count >= N:
        return np.sort(rng.permutation(N)[:count])
    index = np.unique(rng.integers(N, size=count))
    while len(index) < count:
        index = np.unique(np.append(index, rng.integers(N, size=count)))
    return np.sort(rng.permutation(index)[:count])


def _dtype(dtype: Any) -> np.dtype:
    """Return the dtype that rows have on the device."""
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def _together(label: str, parts: Sequence[tuple[np.ndarray, int]]) -> InfiniteRows | None:
    """Return the rows of a leaf with an infinite value, from those in each part of the source."""
    count = sum(int(count) for _, count in parts)
    if count == 0:
        return None
    return InfiniteRows(label, np.concatenate([index for index, _ in parts])[:_MOST_ROWS], count, False)


class _Check:
    """Checks one leaf, block by block."""

    def __init__(self, label: str) -> None:
        self.label, self.count, self.kept = label, 0, [np.empty(0, np.int64)]

    def see(self, x: np.ndarray, begin: int) -> None:
        """Check the rows from number `begin` on."""
        if x.dtype.kind in "iu":
            self._check_range(x, begin)
        elif jnp.issubdtype(x.dtype, jnp.inexact):
            self._check_finite(x, begin)

    def _check_range(self, x: np.ndarray, begin: int) -> None:
        if x.dtype.itemsize < 4 or jax.config.read("jax_enable_x64") or x.size == 0:
            return
        low, high = int(x.min()), int(x.max())
        if low < -(2**31) or high >= 2 ** (31 if x.dtype.kind == "i" else 32):
            value, repair = low if low < -(2**31) else high, "Set `JAX_ENABLE_X64=1`, or convert."
            raise must(
                self.label, f"an array that fits in 32-bit integers, from row {begin} on", value, repair
            )

    def _check_finite(self, x: np.ndarray, begin: int) -> None:
        with np.errstate(all="ignore"):
            # A sum is finite only if its terms are, and several times faster than a test of each.
            narrow = x.astype(_dtype(x.dtype), copy=False)
            if np.isfinite(narrow.sum()):
                return
            rows = narrow.reshape(len(x), -1)
        has_nan = np.isnan(rows).any(axis=1)
        if has_nan.any():
            raise ValueError(
                f"`{self.label}` must not contain NaN; row {begin + int(np.argmax(has_nan))} does. Drop such rows, "
                "or impute their missing values."
            )
        index = np.flatnonzero(np.isinf(rows).any(axis=1))
        self.count += len(index)
        self.kept.append(begin + index[:_MOST_ROWS])
