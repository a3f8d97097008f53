"""The same columns as tables in memory and on a disk."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isotherm.tables.npy_table import NpyTable
from isotherm.tables.parquet_table import ParquetTable
from isotherm.tables.reader import read_table
from isotherm.tables.table import MemoryTable


def arrow(columns):
    """Return a table of Arrow; NaN is a null, and an integer with `None` among objects stays an integer."""
    return pa.table({name: pa.array(list(x), from_pandas=True) for name, x in columns.items()})


def parquet(folder, columns, *, group=97):
    """Return a table in one file with row groups of odd lengths."""
    pq.write_table(arrow(columns), folder / "table.parquet", row_group_size=group)
    return ParquetTable(folder / "table.parquet")


def parts(folder, columns, *, cuts=(0, 1, 313, 313)):
    """Return a table in several files, one of them without rows."""
    whole = arrow(columns)
    (folder / "parts").mkdir()
    for i, (begin, end) in enumerate(zip(cuts, (*cuts[1:], len(whole)), strict=True)):
        pq.write_table(whole.slice(begin, end - begin), folder / "parts" / f"{i}.parquet", row_group_size=211)
    return ParquetTable(str(folder / "parts"))


def loaded(folder, columns):
    """Return the table of `parquet` with its columns in memory."""
    parquet(folder, columns)
    return read_table(folder / "table.parquet")


def npy(folder, columns):
    """Return a table in a structured `.npy` file, without the columns of text."""
    numeric = {name: x for name, x in columns.items() if x.dtype != object}
    records = np.empty(
        len(next(iter(numeric.values()))), [(n, x.dtype, x.shape[1:]) for n, x in numeric.items()]
    )
    for name, x in numeric.items():
        records[name] = x
    np.save(folder / "table.npy", records)
    return NpyTable(folder / "table.npy")


def memory(folder, columns):
    """Return the table in memory."""
    del folder
    return MemoryTable(columns)
