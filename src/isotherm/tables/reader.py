"""Reading tables from CSV, Parquet, `.npz` and `.npy` files, as columns by name."""

import dataclasses
import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from isotherm.errors import missing_extra, must

_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".npz", ".npy")


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length by name. Text is stored as objects; a missing value is `None` or NaN.

    `file` and `sha256` identify the file. Arrays of an `.npz` file may have further axes after the rows. The array of
    an `.npy` file without field names is called `x`.
    """

    columns: dict[str, np.ndarray]
    file: str
    sha256: str

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def describe(self) -> dict[str, Any]:
        """Return what identifies the data, as plain JSON values."""
        return {"file": self.file, "rows": self.rows, "columns": len(self.columns), "sha256": self.sha256}


def read_table(path: str | os.PathLike[str]) -> Table:
    """Return the table in a file, whose suffix gives the format. The first line of a CSV file names the columns."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    suffix = next((s for s in _SUFFIXES if path.name.lower().endswith(s)), None)
    if suffix is None:
        raise must("path", f"a file that ends in {', '.join(_SUFFIXES)}", str(path))
    try:
        columns = _read(path, suffix)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    lengths = {len(x) if x.ndim else 0 for x in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise must("path", "a table with at least one row, and as many rows in every column", str(path))
    return Table(columns, path.name, fingerprint(path))


def fingerprint(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path, suffix: str) -> dict[str, np.ndarray]:
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    if suffix == ".npy":
        array = np.load(path, allow_pickle=False)
        return {n: array[n] for n in array.dtype.names} if array.dtype.names else {"x": array}
    import pandas as pd

    if suffix == ".parquet":
        try:
            frame = pd.read_parquet(path)
        except ImportError as error:
            raise missing_extra(path.name, "parquet") from error
    else:
        options = {"sep": "\t" if suffix.startswith(".tsv") else ",", "skipinitialspace": True}
        # pandas would rename a second column of the same name, and number one without a name.
        header = pd.read_csv(path, nrows=1, header=None, dtype=str, na_filter=False, **options)
        names = [str(name).strip() for name in header.iloc[0]]
        # Read in one chunk: in several, a column may be numbers in one and text in the next.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(path, index_col=False, low_memory=False, **options)
        except pd.errors.ParserWarning as error:
            raise ValueError(
                f"every line must have as many fields as the first, {len(names)}; some have more. Look for a "
                "comma at the end of a line, or a column without a name."
            ) from error
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(
                f"its first line must give every column a different name; got {', '.join(names)}"
            )
    return {str(name).strip(): _column(frame[name]) for name in frame.columns}


def _column(series: Any) -> np.ndarray:
    import pandas as pd

    if pd.api.types.is_bool_dtype(series.dtype) and not series.isna().any():
        return series.to_numpy(bool)
    if pd.api.types.is_numeric_dtype(series.dtype):
        return series.to_numpy(np.float64, na_value=np.nan) if series.isna().any() else series.to_numpy()
    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return series.to_numpy()
    return series.astype(object).where(series.notna(), None).to_numpy()
