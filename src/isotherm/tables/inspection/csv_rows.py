"""The rows of a CSV file of any size, some at a time."""

import contextlib
import gzip
import re
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from isotherm.progress import Progress
from isotherm.tables.inspection.findings import Finding, Places, found
from isotherm.tables.inspection.text_file import TextFile
from isotherm.tables.parquet_table import column_values

_ROWS, _NUMBERS = 2**16, 2**22  # rows that are parsed at once at most, and numbers in them
_FEWEST_ROWS = 2**10
_SKIPPED = re.compile(r"Skipping line (\d+): expected \d+ fields, saw \d+")


class CsvRows:
    """Yields rows with their numbers. Rows that have too many fields are passed over and, at the end, reported."""

    def __init__(self, path: Path, text: TextFile) -> None:
        self._path, self._text, self._skipped = path, text, Places()

    @property
    def findings(self) -> list[Finding]:
        """Rows that were passed over."""
        if not self._skipped.count:
            return []
        fault = f"Rows have more fields than the first line, which has {len(self._text.names)}."
        repair = "Look for text with a separator in it that needs quotes."
        return [found(None, "fields", fault, repair, self._skipped, blocks=True)]

    def chunks(self, *, show: bool) -> Generator[tuple[Int64[np.ndarray, " n"], dict[str, np.ndarray]]]:
        """Yield the rows in order. A terminal shows how far the file is read."""
        first, size = 0, self._path.stat().st_size
        with contextlib.ExitStack() as stack:
            raw = stack.enter_context(open(self._path, "rb"))
            bar = stack.enter_context(Progress("reading the table", size, show=show))
            file: Any = gzip.GzipFile(fileobj=raw) if self._path.suffix.lower() == ".gz" else raw
            reader = stack.enter_context(self._reader(file))
            while (frame := self._next(reader, first)) is not None:
                yield (
                    np.arange(first, first + len(frame)),
                    {str(name): column_values(frame[name]) for name in frame.columns},
                )
                first += len(frame)
                bar.advance(raw.tell() - bar.done)

    def _reader(self, file: Any) -> Any:
        import pandas as pd

        names = list(self._text.names)
        return pd.read_csv(
            file,
            header=0 if self._text.has_header else None,
            names=names,
            index_col=False,
            low_memory=False,
            chunksize=max(_FEWEST_ROWS, min(_ROWS, _NUMBERS // len(names))),
            on_bad_lines="warn",
            **self._text.form.options(self._path),
        )

    def _next(self, reader: Any, first: int) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frame = next(reader, None)
        for warning in caught:
            lines = [int(line) for line in _SKIPPED.findall(str(warning.message))]
            rows = [line - 1 - self._text.has_header for line in lines]
            self._skipped.add(rows, len(rows))
        return frame
