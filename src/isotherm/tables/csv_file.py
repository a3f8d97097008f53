"""CSV files: how their text is read, and their columns in memory."""

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from isotherm.errors import must
from isotherm.tables.parquet_table import column_values
from isotherm.text import visible

CSV_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclasses.dataclass(frozen=True)
class CsvFormat:
    """How the text of a CSV file is read.

    - `separator`: the character between two fields; by default a comma, or a tab if the file ends in `.tsv`.
    - `decimal`: the decimal mark of numbers, a point or a comma.
    - `encoding`: a name that Python knows, such as `"cp1252"`.
    """

    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise must("decimal", 'the decimal mark, "." or ","', self.decimal)
        s = self.separator
        if s is not None and (len(s) != 1 or s.isalnum() or s in "\"'.\n\r+-" or s == self.decimal):
            rule = "one character between two fields, such as ; or a tab, other than the decimal mark"
            raise must("separator", rule, s)
        try:
            "a".encode(self.encoding)  # refuses codecs that are not of text
        except (LookupError, ValueError) as error:
            rule = 'the name of an encoding of text, such as "utf-8" or "cp1252"'
            raise must("encoding", rule, self.encoding) from error

    def separator_of(self, path: Path) -> str:
        """Return the character between two fields of a file."""
        if self.separator is not None:
            return self.separator
        if path.name.lower().endswith((".tsv", ".tsv.gz")):
            return "\t"
        if self.decimal == ",":
            raise must("separator", "given if the decimal mark is a comma, such as ;", self.separator)
        return ","

    def options(self, path: Path) -> dict[str, Any]:
        """Return the arguments of `pandas.read_csv` for a file."""
        return {
            "sep": self.separator_of(path),
            "decimal": self.decimal,
            "encoding": self.encoding,
            "skipinitialspace": True,
        }


def read_csv(path: Path, form: CsvFormat) -> dict[str, np.ndarray]:
    """Return the columns of a CSV file, whose first line names them."""
    import pandas as pd

    options, names = form.options(path), []
    try:
        # pandas would rename a second column of the same name, and number one without a name.
        header = pd.read_csv(path, nrows=1, header=None, dtype=str, na_filter=False, **options)
        names = [str(name).strip() for name in header.iloc[0]]
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # Read in one chunk: in several, a column may be numbers in one and text in the next.
            frame = pd.read_csv(path, index_col=False, low_memory=False, **options)
    except pd.errors.ParserWarning as error:
        raise ValueError(
            f"every line must have as many fields as the first, {len(names)}; some have more. Look for a "
            "comma at the end of a line, or a column without a name."
        ) from error
    except UnicodeError as error:
        raise ValueError(
            f'its text is not in the encoding "{form.encoding}". Name the right one as `encoding`, such as '
            '"cp1252" or "utf-16".'
        ) from error
    if len(set(names)) < len(names) or "" in names:
        raise ValueError(
            f"its first line must give every column a different name; got {visible(', '.join(names))}"
        )
    return {str(name).strip(): column_values(frame[name]) for name in frame.columns}
