"""Opening and reading tables: CSV, Parquet, `.npz` and `.npy` files, as columns by name."""

import hashlib
import os
from pathlib import Path

import numpy as np

from isotherm.errors import must
from isotherm.tables.convert import text_bytes
from isotherm.tables.csv_file import CSV_SUFFIXES, CsvFormat, read_csv
from isotherm.tables.npy_table import NpyTable
from isotherm.tables.parquet_table import ParquetTable
from isotherm.tables.table import MemoryTable, Table
from isotherm.text import visible

_PARQUET = (".parquet", ".parq", ".pq")
_SUFFIXES = (*CSV_SUFFIXES, *_PARQUET, ".npz", ".npy")
_LARGE_BYTES = 2**26  # of an `.npy` file that is not loaded


def open_table(path: str | os.PathLike[str], csv: CsvFormat | None = None) -> Table:
    """Return the table in a file, a folder of Parquet files, or an object store such as `s3://bucket/folder`.

    Parquet files and large `.npy` files are read when their rows are needed. Others are loaded, as by `read_table`.
    """
    path = os.fspath(path)
    _check_is_csv(path, csv)
    if "://" in path or Path(path).is_dir() or path.lower().endswith(_PARQUET):
        return ParquetTable(path)
    if path.lower().endswith(".npy") and Path(path).is_file() and Path(path).stat().st_size > _LARGE_BYTES:
        return NpyTable(Path(path))
    return read_table(path, csv)


def read_table(path: str | os.PathLike[str], csv: CsvFormat | None = None) -> MemoryTable:
    """Return the table in a file, with all of its columns in memory, by name in `columns`.

    The suffix gives the format. The first line of a CSV file names the columns, and `csv` says how its text is read.
    Arrays of an `.npz` file may have further axes after the rows. The array of an `.npy` file without field names is
    called `x`.
    """
    path = os.fspath(path)
    _check_is_csv(path, csv)
    if "://" in path or Path(path).is_dir() or path.lower().endswith(_PARQUET):
        return _loaded(ParquetTable(path), path)
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {visible(str(path))}")
    suffix = next((s for s in _SUFFIXES if path.name.lower().endswith(s)), None)
    if suffix is None:
        raise must("path", f"a folder, or a file that ends in {', '.join(_SUFFIXES)}", str(path))
    try:
        columns = _read(path, suffix, CsvFormat() if csv is None else csv)
    except ValueError as error:
        raise ValueError(f"{visible(str(path))} cannot be read: {visible(str(error))}") from error
    lengths = {len(x) if x.ndim else 0 for x in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise must("path", "a table with at least one row, and as many rows in every column", str(path))
    return MemoryTable(columns, {"file": path.name, "sha256": fingerprint(path)})


def fingerprint(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path, suffix: str, form: CsvFormat) -> dict[str, np.ndarray]:
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    if suffix == ".npy":
        array = np.load(path, allow_pickle=False)
        return {n: array[n] for n in array.dtype.names} if array.dtype.names else {"x": array}
    _check_fits(path)
    return read_csv(path, form)


def _loaded(table: ParquetTable, path: str) -> MemoryTable:
    size, available = table.memory_bytes(), available_bytes()
    if available is not None and size > available / 2:
        raise ValueError(
            f"{path} would take {size / 1e9:.3g} GB, more than half of the {available / 1e9:.3g} GB of memory that "
            "are available. Read its rows by `iso.data.parquet` instead."
        )
    names = list(table.kinds)
    (columns,) = (columns for _, columns in table.chunks(names, table.num_rows))
    return MemoryTable(columns, table.describe())


def is_csv(path: str) -> bool:
    """Return whether a path names a CSV file."""
    return "://" not in path and path.lower().endswith(CSV_SUFFIXES)


def _check_is_csv(path: str, csv: CsvFormat | None) -> None:
    """Refuse the format of a CSV file for a file of another kind."""
    if csv is None or is_csv(path):
        return
    for name in ("separator", "encoding"):
        value = getattr(csv, name)
        if value != getattr(CsvFormat(), name):
            raise must(name, "left out except for CSV files", value, f"The table is {visible(path)}.")


def _check_fits(path: Path) -> None:
    size, available = text_bytes(path), available_bytes()
    if available is not None and size > available / 2:
        raise ValueError(
            f"it has {size / 1e9:.3g} GB of text, more than half of the {available / 1e9:.3g} GB of memory that are "
            f"available. Convert it once, by `isotherm data convert {path.name} {path.name.split('.')[0]}.parquet`: "
            "Parquet files are not loaded."
        )


def available_bytes() -> int | None:
    """Return how much memory is available, as Linux reports it; `None` on other systems."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    entries = dict(line.split(":", 1) for line in lines)
    return 1024 * int(entries["MemAvailable"].split()[0]) if "MemAvailable" in entries else None
