"""Writing predictions to a file, some rows at a time."""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # what a cell with a formula begins with
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SPECIAL = re.compile('[",;\\s]')  # separators of other countries are among them

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    from isotherm.tables.forecasting import Forecast
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


def write_columns(path: Path, columns: "Mapping[str, np.ndarray]") -> list[str]:
    """Write columns of numbers, the whole file or nothing, and return their names."""
    import pandas as pd

    from isotherm.storage import replacing

    with replacing(path) as file:
        write, close = (_csv if path.suffix == ".csv" else _parquet)(file)
        try:
            write(pd.DataFrame(dict(columns)))
        finally:
            close()
    return list(columns)


Writer = tuple[Callable[["pd.DataFrame"], None], Callable[[], None]]


def _csv(file: IO[bytes]) -> Writer:
    is_first = True

    def write(frame: Any) -> None:
        nonlocal is_first
        header = [tuple(_field(str(name)) for name in frame.columns)] if is_first else []
        lines = itertools.chain(header, zip(*(_fields(x) for _, x in frame.items()), strict=True))
        # Half of a pair of surrogates, which has no bytes in UTF-8, is written as an escape.
        file.write("".join(f"{','.join(line)}\n" for line in lines).encode("utf-8", "backslashreplace"))
        is_first = False

    return write, lambda: None


def _fields(column: Any) -> list[str]:
    if column.dtype == "float32":  # all of its digits
        return ["" if math.isnan(x) else f"{x:.7g}" for x in column.tolist()]
    if column.dtype.kind in "fiub":
        return ["" if x != x else repr(x) for x in column.tolist()]
    return ["" if x is None or x != x else _field(str(x)) for x in column.tolist()]


def _field(text: str) -> str:
    """Return text as a field, in quotes if a reader might otherwise take a part of it for the end of the field."""
    text = as_cell(text)
    return '"' + text.replace('"', '""') + '"' if text == "" or _SPECIAL.search(text) else text


def as_cell(text: str) -> str:
    """Return text that a spreadsheet shows as it is: an apostrophe goes before what it would take for a formula."""
    is_formula = text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _parquet(file: IO[bytes]) -> Writer:
    from isotherm.errors import missing_extra

    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("a .parquet file for --out", "parquet") from error
    writer: Any = None

    def write(frame: Any) -> None:
        nonlocal writer
        # Types are given, since a part whose rows all have no prediction does not show that classes are text. Later
        # parts have the types of the first.
        if writer is None:
            schema = pa.schema([(str(name), _type(x.dtype)) for name, x in frame.items()])
            writer = pq.ParquetWriter(file, schema)
        schema = writer.schema
        for name, column in frame.items():
            if schema.field(str(name)).type == pa.string():
                frame[name] = _as_text(column)
        table = pa.Table.from_pandas(frame, schema, preserve_index=False)
        writer.write_table(table.replace_schema_metadata(None))

    return write, lambda: None if writer is None else writer.close()


def _type(dtype: Any) -> "pa.DataType":
    import pyarrow as pa

    return pa.from_numpy_dtype(dtype) if dtype.kind in "fiubM" else pa.string()


def _as_text(column: Any) -> Any:
    """Return a column whose values are text or `None`: kept columns may hold decimals or dates."""
    return column.map(lambda x: x if isinstance(x, str) else None if x is None or x != x else str(x))
