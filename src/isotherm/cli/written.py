"""Writing predictions to a file, some rows at a time."""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "＝",
    "＋",
    "－",
    "＠",
)  # what a cell with a formula begins with
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from isotherm.tables.forecast import Forecast
    from isotherm.tables.scored import Scored


def write_predictions(path: Path, parts: "Iterator[Forecast]", scored: "Scored") -> tuple[list[str], int]:
    """Write the whole file or nothing; return the names of its columns, and the number of draws.

    The first part is made before the file is opened, so that bad input leaves nothing behind. `scored` sums the
    parts up.
    """
    import pandas as pd

    from isotherm.storage import replacing

    first = next(parts)
    with replacing(path) as file:
        write, close = (_csv if path.suffix == ".csv" else _parquet)(file)
        try:
            for part in itertools.chain([first], parts):
                scored.add(part)
                write(pd.DataFrame(part.columns))
        finally:
            close()
    return list(first.columns), first.expected.num_draws


Writer = tuple[Callable[["pd.DataFrame"], None], Callable[[], None]]


def _csv(file: IO[bytes]) -> Writer:
    is_first = True

    def write(frame: "pd.DataFrame") -> None:
        nonlocal is_first
        frame = frame.rename(columns=as_cell).apply(_as_cells)
        # All the digits of a 32-bit float.
        frame.to_csv(file, index=False, header=is_first, float_format="%.7g", errors="backslashreplace")
        is_first = False

    return write, lambda: None


def as_cell(text: Any) -> Any:
    """Return text that a spreadsheet shows as it is: an apostrophe goes before what it would take for a formula."""
    is_formula = isinstance(text, str) and text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _as_cells(column: "pd.Series") -> "pd.Series":
    return column if column.dtype.kind == "f" else column.map(as_cell)


def _parquet(file: IO[bytes]) -> Writer:
    from isotherm.errors import missing_extra

    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("a .parquet file for --out", "parquet") from error
    writer: Any = None

    def write(frame: "pd.DataFrame") -> None:
        nonlocal writer
        # Types are given, since a part whose rows all have no prediction does not show that classes are text.
        schema = pa.schema([(str(name), _type(x.dtype)) for name, x in frame.items()])
        writer = pq.ParquetWriter(file, schema) if writer is None else writer
        table = pa.Table.from_pandas(frame, schema, preserve_index=False)
        writer.write_table(table.replace_schema_metadata(None))

    return write, lambda: None if writer is None else writer.close()


def _type(dtype: Any) -> "pa.DataType":
    import pyarrow as pa

    return pa.from_numpy_dtype(dtype) if dtype.kind == "f" else pa.string()
