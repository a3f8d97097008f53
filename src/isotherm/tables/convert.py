"""CSV files as Parquet files, in one pass and bounded memory, with the rows in random order if asked for."""

import contextlib
import re
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.errors import missing_extra
from isotherm.storage import replacing
from isotherm.tables.csv_file import CsvFormat
from isotherm.text import visible

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_BYTES = 2**24  # of text that is parsed at once; types are inferred from the first block
_GROUP_ROWS = 2**17  # of a row group
_BUCKET_BYTES = 2**26  # of text whose rows are shuffled in memory together
_MOST_BUCKETS = 512  # files that are open at the same time
_MISFIT = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to \S+: invalid value '(.*)'"
)


def convert(source: Path, target: Path, *, shuffle: int | None = None, form: CsvFormat | None = None) -> int:
    """Write the rows of the CSV file `source` to the Parquet file `target`, and return their number.

    `form` says how the text is read. `shuffle` is the seed of a permutation that is uniform over all orders.
    Types are those of the first 16 MB. A column of integers there that holds other numbers later becomes one of
    float64, and the pass starts again. Anything else that does not fit is an error with its column and line.
    `target` is replaced completely or not at all.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise missing_extra("isotherm data convert", "parquet") from error
    if not source.is_file():
        raise FileNotFoundError(f"There is no file {source}. Check the path.")
    types: dict[str, Any] = {}
    while True:
        try:
            return _one_pass(source, target, types, shuffle, CsvFormat() if form is None else form)
        except _Widen as widened:
            types[widened.column] = widened.type


class _Widen(Exception):  # noqa: N818, not an error
    def __init__(self, column: str, kind: "pa.DataType") -> None:
        self.column, self.type = column, kind


def _one_pass(source: Path, target: Path, types: dict[str, Any], shuffle: int | None, form: CsvFormat) -> int:
    import pyarrow.parquet as pq

    with contextlib.closing(_batches(source, types, form)) as batches:
        first = next(batches)
        with replacing(target) as file, pq.ParquetWriter(file, first.schema) as writer:
            if shuffle is None:
                return _write_in_order(first, batches, writer)
            buckets = min(_MOST_BUCKETS, 1 + text_bytes(source) // _BUCKET_BYTES)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
                return _write_shuffled(first, batches, writer, Path(folder), buckets, shuffle)


def _write_in_order(first: "pa.RecordBatch", batches: Iterator["pa.RecordBatch"], writer: Any) -> int:
    import pyarrow as pa

    rows, waiting = 0, [first]
    for batch in batches:
        if sum(map(len, waiting)) >= _GROUP_ROWS:
            rows += sum(map(len, waiting))
            writer.write_table(pa.Table.from_batches(waiting), row_group_size=_GROUP_ROWS)
            waiting = []
        waiting.append(batch)
    writer.write_table(pa.Table.from_batches(waiting), row_group_size=_GROUP_ROWS)
    return rows + sum(map(len, waiting))


def _write_shuffled(
    first: "pa.RecordBatch",
    batches: Iterator["pa.RecordBatch"],
    writer: Any,
    folder: Path,
    buckets: int,
    seed: int,
) -> int:
    """Scatter rows over files at random, then shuffle each file in memory: all orders are equally probable."""
    import pyarrow as pa

    rng, paths = np.random.default_rng(seed), [folder / str(b) for b in range(buckets)]
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(pa.ipc.new_stream(str(path), first.schema)) for path in paths]
        for batch in _with(first, batches):
            bucket = rng.integers(buckets, size=len(batch))
            order, ends = np.argsort(bucket, kind="stable"), np.bincount(bucket, minlength=buckets).cumsum()
            for stream, index in zip(streams, np.split(order, ends[:-1]), strict=True):
                if len(index):
                    stream.write_batch(batch.take(pa.array(index)))
    rows = 0
    for path in paths:
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_stream(file).read_all()
        rows += len(table)
        if len(table):
            writer.write_table(table.take(pa.array(rng.permutation(len(table)))), row_group_size=_GROUP_ROWS)
        path.unlink()
    return rows


def _with(first: "pa.RecordBatch", rest: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    yield first
    yield from rest


def _batches(source: Path, types: dict[str, Any], form: CsvFormat) -> Generator["pa.RecordBatch"]:
    """Yield the rows. Errors name the file, the column and the line."""
    import pyarrow as pa
    from pyarrow import csv

    reading = {
        # Only without threads does an error have the number of its line.
        "read_options": csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False, encoding=form.encoding),
        "parse_options": csv.ParseOptions(delimiter=form.separator_of(source)),
    }
    names, rows = [], 0
    try:
        numbers = csv.ConvertOptions(decimal_point=form.decimal)
        with csv.open_csv(source, convert_options=numbers, **reading) as probe:
            names = probe.schema.names
            # Columns that are empty in all of the first block may hold numbers later.
            empty = {field.name: pa.float64() for field in probe.schema if pa.types.is_null(field.type)}
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(
                f"The first line of {visible(str(source))} must give every column a different name; it has "
                f"{visible(', '.join(names))}."
            )
        conversion = csv.ConvertOptions(column_types=empty | types, decimal_point=form.decimal)
        with csv.open_csv(source, convert_options=conversion, **reading) as reader:
            for batch in reader:
                rows += len(batch)
                yield batch
    except pa.ArrowInvalid as error:
        raise _explained(source, names, types, str(error)) from None
    if rows == 0:
        raise ValueError(f"{source} has no rows after its first line.")


def _explained(source: Path, names: list[str], types: dict[str, Any], text: str) -> Exception:
    import pyarrow as pa

    misfit = _MISFIT.search(text)
    if misfit is None:
        return ValueError(f"{source} cannot be read as CSV ({text.splitlines()[0]}).")
    column, line, value = names[int(misfit.group(1))], misfit.group(2), misfit.group(3)
    if " to int64:" in text and column not in types and _is_number(value):
        return _Widen(column, pa.float64())
    where = f"line {line}" if line else "a later line"
    return ValueError(
        f"Column {column!r} of {source} holds {value!r} in {where}, and numbers or other values of one type before. "
        "Correct that line, or leave its field empty if the value is missing."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def text_bytes(source: Path) -> int:
    """Return about how many bytes of text a CSV file holds, which may be compressed."""
    compressed = source.suffix in (".gz", ".bz2", ".zst", ".xz")
    return source.stat().st_size * (8 if compressed else 1)
