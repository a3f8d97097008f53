"""Files of NumPy, read a block at a time."""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
from isotherm.data.sources.paths import checked_path, file_state, readable
from isotherm.errors import must

_MAGIC = b"\x93NUMPY"


def npy(paths: PyTree, *, columns: Mapping[str, slice | list[int] | int] | None = None) -> Source:
    """Return a source whose rows are those of one or more `.npy` files, which are not loaded into memory.

    `paths` is one path or a pytree of them. The arrays have the same length, and a row has the structure of `paths`.
    A file of a structured dtype becomes a dict of its fields. `columns` splits the matrix of a single file by the
    names of its parts, as in `columns={"x": slice(0, 10), "y": 10}`: a slice or a list of column numbers gives a
    vector per row, a number gives a scalar.
    """
    return Npy(paths, columns)


class Npy(Source):
    """Rows of `.npy` files."""

    random_access = True

    def __init__(self, paths: PyTree, columns: Mapping[str, slice | list[int] | int] | None) -> None:
        leaves, self._structure = jax.tree.flatten(paths)
        self._files = [_File(checked_path("paths", leaf)) for leaf in leaves]
        self._num_rows = check_lengths([(str(file.path), file) for file in self._files])
        self._columns = None if columns is None else _checked_columns(columns, self._files)
        self._row = row_of(self._parts([np.empty((0, *f.shape[1:]), f.dtype) for f in self._files]))

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._num_rows

    @property
    def row(self) -> PyTree[jax.ShapeDtypeStruct]:
        """Shapes and dtypes of one row."""
        return self._row

    def blocks(self, length: int, begin: int = 0, end: int | None = None) -> Iterator[PyTree[np.ndarray]]:
        """Yield rows, read from the files in order."""
        begin, end = check_range(self, length, begin, end)
        return self._read(length, begin, end)

    def take(self, index: Int64[np.ndarray, " n"]) -> PyTree[np.ndarray]:
        """Return the rows at `index`, through a memory map."""
        index = check_index(self, index)
        return self._parts([file.mapped()[index] for file in self._files])

    def state(self) -> str:
        """Return names, sizes and times of the files."""
        return file_state(file.path for file in self._files)

    def _read(self, length: int, begin: int, end: int) -> Iterator[PyTree[np.ndarray]]:
        streams = [file.open(begin) for file in self._files]
        try:
            for i in range(begin, end, length):
                count = min(length, end - i)
                pairs = zip(self._files, streams, strict=True)
                yield self._parts([file.next(stream, count) for file, stream in pairs])
        finally:
            for stream in streams:
                stream.close()

    def _parts(self, arrays: list[np.ndarray]) -> PyTree[np.ndarray]:
        """Return a block as the user sees it: fields and columns by name, in the byte order of this machine."""
        if self._columns is not None:
            (x,) = arrays
            return {name: _native(x[:, where]) for name, where in self._columns.items()}
        return jax.tree.unflatten(self._structure, [_fields(x) for x in arrays])


class _File:
    """The header of one `.npy` file, and ways to read it."""

    def __init__(self, path: Path) -> None:
        with readable(path), open(path, "rb") as stream:
            if stream.read(len(_MAGIC)) != _MAGIC:
                raise ValueError(f"{path} is not an .npy file. Write it with `np.save`.")
        try:
            with readable(path):
                array = np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            if "Python objects" in str(error):
                raise ValueError(
                    f"{path} holds Python objects, which are not read. Save an array of numbers instead."
                ) from None
            raise ValueError(f"{path} is truncated or damaged ({error}). Write it again.") from None
        if array.ndim == 0:
            raise ValueError(f"{path} holds a single number; a source needs an array with an axis of rows.")
        if not array.flags.c_contiguous:
            raise ValueError(
                f"{path} is in Fortran order, in which a row is spread over the whole file. Save "
                "`np.ascontiguousarray(x)` instead."
            )
        if array.nbytes == 0:
            raise ValueError(f"{path} has no rows or no columns; its shape is {array.shape}.")
        _check_fields(str(path), array.dtype)
        self.path, self.dtype, self.shape = path, array.dtype, array.shape
        self._offset = array.offset
        self._row_bytes = array.nbytes // len(array)

    def mapped(self) -> np.ndarray:
        with readable(self.path):
            try:
                return np.memmap(self.path, self.dtype, "r", self._offset, self.shape)
            except ValueError:
                raise self._cut_short() from None

    def open(self, begin: int) -> io.FileIO:
        with readable(self.path):
            stream = io.FileIO(self.path)
        stream.seek(self._offset + begin * self._row_bytes)
        return stream

    def next(self, stream: io.FileIO, count: int) -> np.ndarray:
        # Reading into a new buffer, rather than slicing a memory map, keeps the process small, and a file that is
        # cut short while it is read gives an error here, where a memory map ends the process with SIGBUS.
        block = np.empty((count, *self.shape[1:]), self.dtype)
        left = block.reshape(-1).view(np.uint8).data
        while left:
            size = stream.readinto(left)  # a call reads 2 GB at most
            if not size:
                raise self._cut_short()
            left = left[size:]
        return block

    def _cut_short(self) -> ValueError:
        return ValueError(
            f"{self.path} has become shorter since it was opened. Write it again, and start again."
        )


def _check_fields(name: str, dtype: np.dtype) -> None:
    if dtype.names is None:
        check_numeric(name, dtype.base)
    else:
        for field in dtype.names:
            _check_fields(f"Field {field!r} of {name}", dtype[field].base)


def _fields(x: np.ndarray) -> PyTree[np.ndarray]:
    if x.dtype.names is None:
        return _native(x)
    return {name: _fields(x[name]) for name in x.dtype.names}


def _native(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)  # a memory map of rows that were copied is an array
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def _checked_columns(columns: Mapping[str, Any], files: list[_File]) -> dict[str, Any]:
    if len(files) != 1 or len(files[0].shape) != 2 or files[0].dtype.names is not None:
        shapes = [file.shape for file in files]
        raise must("columns", "left out unless `paths` is one file with a matrix of numbers", shapes)
    (file,), width = files, files[0].shape[1]
    for name, where in columns.items():
        numbers = np.arange(width)[where] if isinstance(where, slice) else np.asarray(where)
        valid = isinstance(where, slice | list | int) and numbers.dtype.kind == "i"
        if not valid or numbers.size == 0 or numbers.min() < -width or numbers.max() >= width:
            rule = f"a number, list or slice of the {width} columns of {file.path}"
            raise must(f"columns[{name!r}]", rule, where)
    return dict(columns)
