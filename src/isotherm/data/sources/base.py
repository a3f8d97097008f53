"""What a source of rows must provide, and the checks that all sources share."""

import abc
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Int64, PyTree

from isotherm import tree
from isotherm.data.checks import unmasked
from isotherm.errors import check_count, must
from isotherm.text import visible

_PASS_BYTES = 2**24  # of a block in a pass that picks rows


class Source(abc.ABC):
    """Rows that are read when they are needed, from a disk or computed, instead of arrays in memory.

    A subclass provides `num_rows`, `row` and `blocks`. Arrays that it has returned must not change later: JAX may
    use their memory without a copy.
    """

    random_access: ClassVar[bool] = False
    """Whether `take` costs about as much as the rows it returns, rather than a pass over all rows."""

    on_device: ClassVar[bool] = False
    """Whether blocks are computed on the device, where larger ones cost nothing to read."""

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """The number of rows, N."""

    @property
    @abc.abstractmethod
    def row(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Structure, shapes and NumPy dtypes of one row, without the leading axis, as `blocks` yields them."""

    @abc.abstractmethod
    def blocks(
        self, length: int, begin: int = 0, end: int | None = None
    ) -> Iterator[PyTree[np.ndarray | Array]]:
        """Yield the rows from `begin` to `end` in order, `length` at a time; the last item may be shorter."""

    def take(self, index: Int64[np.ndarray, " n"]) -> PyTree[np.ndarray | Array]:
        """Return the rows at `index`, which must be sorted and distinct.

        Unless a subclass can reach rows directly, this reads all rows from the first index to the last.
        """
        index = check_index(self, index)
        if len(index) == 0:
            return no_rows(self.row)
        length, position = max(1, _PASS_BYTES // row_bytes(self.row)), int(index[0])
        parts = []
        for block in exact_blocks(self, length, position, int(index[-1]) + 1):
            first, last = np.searchsorted(index, [position, position + length])
            if last > first:
                picked = index[first:last] - position
                parts.append(jax.tree.map(lambda x, picked=picked: np.asarray(x)[picked], block))
            position += length
        return joined(parts)

    def state(self) -> str:
        """Return a text that changes if the stored rows change, such as names, sizes and times of files.

        It has one line for each file, which begins with its name. It is empty if the rows cannot change.
        """
        return ""


@runtime_checkable
class HasState(Protocol):
    """Anything with a `state`, as of a source."""

    def state(self) -> str:
        """Return a text that changes if what is stored changes."""
        ...


def exact_blocks(
    source: Source, length: int, begin: int = 0, end: int | None = None
) -> Iterator[PyTree[np.ndarray | Array]]:
    """Yield what `source.blocks` does, as plain arrays. Raises unless each block has the form that it should have."""
    end = source.num_rows if end is None else end
    structure, shapes = jax.tree.structure(source.row), [x.shape for x in jax.tree.leaves(source.row)]
    where = f"`{type(source).__name__}.blocks`"
    for block in source.blocks(length, begin, end) if begin < end else ():
        leaves, found = jax.tree.flatten(block)
        if found != structure:
            raise ValueError(
                f"{where} must yield arrays as `row` describes them, {structure}; it yielded {found}."
            )
        count = min(length, end - begin)
        plain = [x if isinstance(x, jax.Array) else np.asarray(unmasked("data", x)) for x in leaves]
        for x, shape in zip(plain, shapes, strict=True):
            if x.shape != (count, *shape):
                rule = f"{count} rows of shape {shape} from row {begin} on"
                raise ValueError(f"{where} must yield {rule}; it yielded an array of shape {x.shape}.")
        yield structure.unflatten(plain)
        begin += count
    if begin < end:
        raise ValueError(f"{where} must yield all rows up to {end}; it ended before row {begin}.")


def check_unchanged(source: HasState, state: str) -> None:
    """Raise `ValueError` unless `source.state()` still equals `state`, which it returned before."""
    now = source.state()
    if now == state:
        return
    before, after = (text.splitlines() for text in (state, now))
    changed = next((line for line in (*before, *after) if line not in after or line not in before), "a file")
    name = changed.split("\t")[0]
    raise ValueError(
        f"{name} has changed since its rows were first read, so that results would mix two data sets. Start again, "
        "on files that nothing else writes to."
    )


def check_range(source: Source, length: int, begin: int, end: int | None) -> tuple[int, int]:
    """Return `begin` and `end` of a pass as integers. Raises unless they are rows of `source`."""
    check_count("length", length, minimum=1)
    begin = check_count("begin", begin, minimum=0)
    end = source.num_rows if end is None else check_count("end", end, minimum=0)
    if not begin <= end <= source.num_rows:
        raise must("begin, end", f"an interval of the rows 0 to {source.num_rows}", (begin, end))
    return begin, end


def check_index(source: Source, index: np.ndarray) -> Int64[np.ndarray, " n"]:
    """Return `index` as int64. Raises unless it holds row numbers of `source`, sorted and distinct."""
    index = np.asarray(index)
    if index.ndim != 1 or (index.dtype.kind not in "iu" and index.size):
        raise must("index", "a vector of row numbers", index)
    index = index.astype(np.int64, copy=False)
    if len(index) and not (index[0] >= 0 and index[-1] < source.num_rows and np.all(np.diff(index) > 0)):
        rule = f"sorted and distinct numbers of at least 0 and less than {source.num_rows}"
        raise must("index", rule, index, "Use `np.unique(index)`.")
    return index


def check_lengths(arrays: Sequence[tuple[str, Any]]) -> int:
    """Return the common length of named arrays. Raises if their lengths differ, or are zero."""
    if not arrays:
        raise ValueError("A source must hold at least one array; got an empty pytree.")
    length = arrays[0][1].shape[0]
    for name, x in arrays:
        if x.shape[0] != length:
            raise ValueError(
                f"All arrays of a source must have the same number of rows; {arrays[0][0]} has {length}, and "
                f"{name} has {x.shape[0]}."
            )
    if length == 0:
        raise ValueError(f"{arrays[0][0]} has no rows; a source must have at least one.")
    return length


def check_numeric(name: str, dtype: np.dtype) -> None:
    """Raise unless arrays of `dtype` hold booleans or numbers."""
    if dtype.kind in "OUSTMm" or dtype.names is not None:
        raise TypeError(
            f"{name} holds {dtype}, and a source must hold numbers. Encode text, dates and objects as numbers."
        )


def named(arrays: PyTree, prefix: str) -> list[tuple[str, Any]]:
    """Return the leaves with names for error messages, `prefix.name`."""
    return [
        (f"`{prefix}.{visible(name)}`" if name else f"`{prefix}`", x) for name, x in tree.named_leaves(arrays)
    ]


def row_of(arrays: PyTree) -> PyTree[jax.ShapeDtypeStruct]:
    """Return shapes and dtypes of one row of arrays with a leading axis, in the byte order of this machine."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype.newbyteorder("=")), arrays)


def row_bytes(row: PyTree[jax.ShapeDtypeStruct]) -> int:
    """Return the size of a row in bytes, at least 1."""
    return max(1, sum(math.prod(x.shape) * np.dtype(x.dtype).itemsize for x in jax.tree.leaves(row)))


def no_rows(row: PyTree[jax.ShapeDtypeStruct]) -> PyTree[np.ndarray]:
    """Return arrays of length 0 of the form of `row`."""
    return jax.tree.map(lambda x: np.empty((0, *x.shape), x.dtype), row)


def joined(parts: Sequence[PyTree[np.ndarray]]) -> PyTree[np.ndarray]:
    """Return consecutive parts as one, without a copy if there is only one."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *xs: np.concatenate(xs), *parts)
