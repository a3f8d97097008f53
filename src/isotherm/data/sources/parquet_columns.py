"""Which columns of Parquet files make a row, and their conversion to arrays."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Int64, PyTree

from isotherm.errors import must
from isotherm.text import visible

if TYPE_CHECKING:
    import pyarrow as pa

_TILE = 2048  # rows that are transposed together: pieces of all columns stay in the processor's cache
_EXACT = 2**53  # integers up to this are exact in float64


class Selection:
    """The columns that make a row: `names` to read, `row`, and the conversion of tables."""

    def __init__(self, columns: PyTree | None, schemas: Sequence["pa.Schema"], paths: Sequence[str]) -> None:
        first = schemas[0]
        if columns is None or _is_names(columns):
            chosen = list(first.names) if columns is None else columns
            if not chosen:
                raise must("columns", "the names of at least one column", columns)
            columns = {name: name for name in chosen}
        leaves, self._structure = jax.tree.flatten(columns, is_leaf=_is_names)
        if not leaves or not all(isinstance(x, str) or (_is_names(x) and x) for x in leaves):
            raise must("columns", "a pytree of column names and of lists of them", columns, error=TypeError)
        self._leaves: list[str | list[str]] = leaves
        self.names = list(dict.fromkeys(name for x in leaves for name in ([x] if isinstance(x, str) else x)))
        check_schemas(self.names, schemas, paths)
        dtypes = {name: _dtype(first.field(name), paths[0]) for name in self.names}
        self._dtypes = [
            dtypes[x] if isinstance(x, str) else _common(x, [dtypes[name] for name in x]) for x in leaves
        ]
        shapes = [() if isinstance(x, str) else (len(x),) for x in leaves]
        structs = [jax.ShapeDtypeStruct(s, d) for s, d in zip(shapes, self._dtypes, strict=True)]
        self.row: PyTree[jax.ShapeDtypeStruct] = jax.tree.unflatten(self._structure, structs)

    def arrays(self, table: "pa.Table", numbers: Int64[np.ndarray, " n"]) -> PyTree[np.ndarray]:
        """Return the rows of a table as arrays. `numbers` are those of its rows, for errors."""
        columns = {name: _column(table.column(name), name, numbers) for name in self.names}
        parts = []
        for leaf, dtype in zip(self._leaves, self._dtypes, strict=True):
            if isinstance(leaf, str):
                parts.append(columns[leaf])
            else:
                parts.append(_matrix([(name, columns[name]) for name in leaf], dtype, numbers))
        return jax.tree.unflatten(self._structure, parts)


def check_schemas(names: Sequence[str], schemas: Sequence["pa.Schema"], paths: Sequence[str]) -> None:
    """Raise unless every file has the columns `names`, once each and of the same types as in the first file."""
    for schema, path in zip(schemas, paths, strict=True):
        _check_names(names, schema, path)
        _check_same(names, schemas[0], schema, paths[0], path)


def _is_names(columns: Any) -> bool:
    return isinstance(columns, list) and all(isinstance(name, str) for name in columns)


def _check_names(names: Sequence[str], schema: "pa.Schema", path: str) -> None:
    for name in names:
        count = schema.names.count(name)
        if count != 1:
            problem = f"{count} columns" if count else "no column"
            raise ValueError(
                f"{path} has {problem} named {name!r}; it has {visible(', '.join(schema.names))}."
            )


def _check_same(
    names: Sequence[str], first: "pa.Schema", other: "pa.Schema", path: str, other_path: str
) -> None:
    for name in names:
        types = first.field(name).type, other.field(name).type
        if types[0] != types[1]:
            raise ValueError(
                f"Column {name!r} is {types[0]} in {path}, and {types[1]} in {other_path}. Convert one of them, so "
                "that all files have the same types."
            )


def _dtype(field: "pa.Field", path: str) -> np.dtype:
    from pyarrow import types

    kind = field.type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    repair = "Convert it to numbers"
    if types.is_decimal(kind):
        repair = "Convert it to float64"
    elif types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        repair = "Encode its values as integers"
    elif types.is_temporal(kind):
        repair = "Convert it to a number, such as days since a date"
    raise TypeError(
        f"Column {field.name!r} of {path} holds {kind}, and a source must hold numbers. {repair}, or leave it out by "
        "`columns`."
    )


def _common(names: list[str], dtypes: list[np.dtype]) -> np.dtype:
    common = np.result_type(*dtypes)
    if common.kind == "f" and all(dtype.kind in "biu" for dtype in dtypes):
        raise must(f"columns {names}", "of types that one integer type holds", [d.name for d in dtypes])
    return common


def _column(column: "pa.ChunkedArray", name: str, numbers: Int64[np.ndarray, " n"]) -> np.ndarray:
    if column.null_count:
        row = numbers[int(np.argmax(column.is_null().to_numpy()))]
        raise ValueError(
            f"Column {name!r} must not have nulls; row {row} of the data set does. Drop such rows, or fill in their "
            "values."
        )
    parts = [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _matrix(
    columns: list[tuple[str, np.ndarray]], dtype: np.dtype, numbers: Int64[np.ndarray, " n"]
) -> np.ndarray:
    for name, x in columns:
        if dtype.kind == "f" and x.dtype.kind in "iu" and x.dtype.itemsize == 8:
            inexact = (x > _EXACT) | (x < -_EXACT)
            if inexact.any():
                row = numbers[int(np.argmax(inexact))]
                raise ValueError(
                    f"Column {name!r} has an integer above 2^53 in row {row} of the data set, which {dtype} cannot "
                    "hold. Select the column alone, outside of the list."
                )
    block = np.empty((len(numbers), len(columns)), dtype)
    for begin in range(0, len(block), _TILE):
        for j, (_, x) in enumerate(columns):
            block[begin : begin + _TILE, j] = x[begin : begin + _TILE]
    return block
