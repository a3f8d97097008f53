"""Zarr arrays and groups, read some chunks at a time."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Int64, PyTree

from isotherm.data.sources.base import (
    Source,
    check_index,
    check_lengths,
    check_numeric,
    check_range,
    row_of,
)
from isotherm.data.sources.paths import readable
from isotherm.data.sources.streams import ahead, regrouped
from isotherm.errors import missing_extra, must

if TYPE_CHECKING:
    import zarr as z


def zarr(stores: PyTree) -> Source:
    """Return a source whose rows are those of Zarr arrays along their first axis. Needs the extra `zarr`.

    `stores` is an array or a group of the package `zarr`, a path, a URI or a store of one, or a pytree of these. A
    group becomes a dict of its arrays. All arrays must have the same length.

    Chunks that are missing from a store hold the fill value of the array, as everywhere in Zarr.
    """
    try:
        import zarr as z  # noqa: F401
    except ImportError as error:
        raise missing_extra("iso.data.zarr", "zarr") from error
    return Zarr(stores)


class Zarr(Source):
    """Rows of Zarr arrays."""

    def __init__(self, stores: PyTree) -> None:
        self._arrays = jax.tree.map(_arrays, stores)
        leaves: list[z.Array] = jax.tree.leaves(self._arrays)
        for array in leaves:
            check_numeric(_name(array), array.dtype)
            if array.ndim == 0:
                raise ValueError(
                    f"{_name(array)} is a single number; a source needs an array with an axis of rows."
                )
        self._num_rows = check_lengths([(_name(array), array) for array in leaves])
        self._row = row_of(self._arrays)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._num_rows

    @property
    def row(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Shapes and dtypes of one row."""
        return self._row

    def blocks(self, length: int, begin: int = 0, end: int | None = None) -> Iterator[PyTree[np.ndarray]]:
        """Yield rows. Chunks are decoded ahead on a thread, each of them once."""
        begin, end = check_range(self, length, begin, end)
        return ahead(self._blocks(length, begin, end))

    def take(self, index: Int64[np.ndarray, " n"]) -> PyTree[np.ndarray]:
        """Return the rows at `index`, from the chunks that hold them."""
        index = check_index(self, index)

        def pick(array: "z.Array") -> np.ndarray:
            if len(index) == 0:
                return np.empty((0, *array.shape[1:]), array.dtype.newbyteorder("="))
            return _read(array, index)

        return jax.tree.map(pick, self._arrays)

    def state(self) -> str:
        """Return the number of files of each array, their size and the time of the last change.

        It is empty for arrays that are neither in a folder nor in a zip file.
        """
        return "\n".join(filter(None, map(_state, jax.tree.leaves(self._arrays))))

    def _blocks(self, length: int, begin: int, end: int) -> Generator[PyTree[np.ndarray]]:
        arrays, structure = jax.tree.flatten(self._arrays)
        streams = [regrouped(_pieces(array, length, begin, end), length) for array in arrays]
        for parts in zip(*streams, strict=True):
            yield jax.tree.unflatten(structure, parts)


def _arrays(store: Any) -> PyTree:
    """Return the array in a store, or the arrays of a group by name."""
    import zarr as z

    if not isinstance(store, z.Array | z.Group):
        if not isinstance(store, str | os.PathLike | z.abc.store.Store):
            raise must(
                "stores", "a Zarr array or group, a path, or a pytree of these", store, error=TypeError
            )
        try:
            with readable(store):
                store = z.open(Path(store) if isinstance(store, os.PathLike) else store, mode="r")
        except FileNotFoundError:
            raise FileNotFoundError(f"There is no Zarr array or group at {store}. Check the path.") from None
        except PermissionError:
            raise
        except OSError as error:
            raise OSError(
                f"{store} cannot be reached ({error}). Check the address and the network."
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{store} is truncated or damaged ({error}). Write it again.") from None
    if isinstance(store, z.Array):
        return store
    members = {name: _arrays(member) for name, member in store.members()}
    if not members:
        raise ValueError(f"{_name(store)} is a group without arrays.")
    return members


def _name(node: "z.Array | z.Group") -> str:
    return str(node.store_path).removeprefix("file://")


def _pieces(array: "z.Array", length: int, begin: int, end: int) -> Iterator[np.ndarray]:
    """Yield rows in pieces that begin and end where chunks do, so that each chunk is decoded once."""
    chunk = array.chunks[0]
    step = max(1, length // chunk) * chunk
    low = begin
    while low < end:
        high = min(end, (low // chunk) * chunk + step)
        yield _read(array, slice(low, high))
        low = high


def _read(array: "z.Array", rows: slice | np.ndarray) -> np.ndarray:
    name = _name(array)
    try:
        with readable(name):
            found = np.asarray(array[rows] if isinstance(rows, slice) else array.oindex[rows])
    except (RuntimeError, ValueError, TypeError) as error:
        where = (rows.start, rows.stop) if isinstance(rows, slice) else (rows[0], rows[-1] + 1)
        raise ValueError(
            f"{name} is truncated or damaged between rows {where[0]} and {where[1]} ({error}). Write it again."
        ) from None
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))


def _state(array: "z.Array") -> str:
    from zarr.storage import LocalStore, ZipStore

    if isinstance(array.store, ZipStore):
        files = [Path(array.store.path)]
    elif isinstance(array.store, LocalStore):
        folder = Path(array.store.root) / array.path
        files = [Path(place) / name for place, _, names in os.walk(folder) for name in names]
    else:
        return ""
    statuses = [file.stat() for file in files if file.exists()]
    size, last = sum(s.st_size for s in statuses), max((s.st_mtime_ns for s in statuses), default=0)
    return f"{_name(array)}\t{len(statuses)}\t{size}\t{last}"
