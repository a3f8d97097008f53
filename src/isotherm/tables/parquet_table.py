"""Tables in Parquet files, folders and object stores, read a row group at a time."""

import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int64

from isotherm.data.sources.parquet_columns import check_schemas
from isotherm.data.sources.parquet_groups import RowGroups
from isotherm.data.sources.streams import ahead
from isotherm.errors import missing_extra
from isotherm.tables.table import BOOLEANS, DATES, NUMBERS, OTHER, TEXT, Table, joined

if TYPE_CHECKING:
    import pyarrow as pa

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class ParquetTable(Table):
    """The columns of Parquet files. Integers with missing values are floats, and decimals are text."""

    def __init__(self, path: str | Path | Sequence[str | Path], *, filesystem: Any = None) -> None:
        try:
            import pyarrow as pa  # noqa: F401
        except ImportError as error:
            raise missing_extra(str(path), "parquet") from error
        self._groups = RowGroups(path, filesystem)
        schema = self._groups.schemas[0]
        kinds = {name: _kind(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
        # Names as the files have them, without the row labels of pandas.
        self._stored = {name.strip(): name for name in kinds if not _PANDAS_INDEX.fullmatch(name)}
        self._file = Path(str(path)).name if isinstance(path, str | Path) else self._groups.paths[0]
        self.kinds = {name: kinds[stored] for name, stored in self._stored.items()}
        self.shapes = dict.fromkeys(self.kinds, ())

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._groups.num_rows

    def pieces(
        self, names: Sequence[str], begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the rows. Row groups are decoded ahead on a thread, and those before `begin` are not read."""
        end = self.num_rows if end is None else end
        if begin == end:
            return
        for start, table in ahead(self._tables(self._groups.between(begin, end), names)):
            low, high = max(begin - start, 0), min(end - start, len(table))
            if low < high:
                yield start + low, self._columns(table.slice(low, high - low), names)

    def take(self, names: Sequence[str], index: Int64[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return the rows at `index`, from the row groups that hold them. There must be at least one."""
        parts = []
        for first, table in ahead(self._tables(self._groups.holding(index), names)):
            begin, end = np.searchsorted(index, [first, first + len(table)])
            if begin < end:
                parts.append(self._columns(table.take(index[begin:end] - first), names))
        return joined(parts)

    def state(self) -> str:
        """Return names, sizes and times of the files, as far as the file system reports them."""
        return self._groups.state()

    def describe(self) -> dict[str, Any]:
        """Return sizes, times and the SHA-256 of the footers of the files. Their rows are not read."""
        identity = self._groups.describe()
        return {"file": self._file, **identity, "rows": self.num_rows, "columns": len(self.kinds)}

    def file_bytes(self, names: Sequence[str]) -> int:
        """Return how many bytes of the files these columns take."""
        return self._groups.compressed_bytes([self._stored[name] for name in names])

    def memory_bytes(self) -> int:
        """Return about how much memory all columns would take."""
        return self._groups.decoded_bytes(list(self._stored.values()))

    def _tables(
        self, groups: Int64[np.ndarray, " g"], names: Sequence[str]
    ) -> Generator[tuple[int, "pa.Table"]]:
        stored = [self._stored[name] for name in names]
        check_schemas(stored, self._groups.schemas, self._groups.paths)
        row_bytes = self._groups.decoded_bytes(stored) // self.num_rows
        return self._groups.tables(groups, stored, max(row_bytes, 8 * len(stored)))

    def _columns(self, table: "pa.Table", names: Sequence[str]) -> dict[str, np.ndarray]:
        return {name: column_values(table.column(self._stored[name]).to_pandas()) for name in names}


def column_values(series: Any) -> np.ndarray:
    """Return a series of pandas as an array, in which NaN or, among objects, `None` is a missing value."""
    import pandas as pd

    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f":
        return series.to_numpy()
    if pd.api.types.is_bool_dtype(series.dtype) and not series.isna().any():
        return series.to_numpy(bool)
    if pd.api.types.is_numeric_dtype(series.dtype):
        return series.to_numpy(np.float64, na_value=np.nan) if series.isna().any() else series.to_numpy()
    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return series.to_numpy()
    return series.astype(object).where(series.notna(), None).to_numpy()


def _kind(kind: "pa.DataType") -> str:
    from pyarrow import types

    if types.is_boolean(kind) or types.is_null(kind):
        return BOOLEANS
    if types.is_integer(kind) or types.is_floating(kind):
        return NUMBERS
    if types.is_timestamp(kind) or types.is_date(kind):
        return DATES
    if types.is_nested(kind) or types.is_duration(kind):
        return OTHER
    return TEXT
