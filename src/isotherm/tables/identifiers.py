"""Columns of new rows that are copied beside their predictions, such as identifiers."""

from collections.abc import Sequence
from pathlib import Path

from isotherm.errors import must
from isotherm.tables.checks import check_column, check_one_value
from isotherm.tables.csv_file import CsvFormat
from isotherm.tables.fitted import Fitted
from isotherm.tables.reader import is_csv
from isotherm.tables.table import MemoryTable, Table


def check_kept(names: Sequence[str], table: Table, model: Fitted) -> None:
    """Refuse names that are not columns with one value in a row, or that a column of the predictions has."""
    probabilities = [f"probability_{name}" for name in model.classes]
    made = {"mean", "mean_low", "mean_high", "low", "high", "probability", "predicted", *probabilities}
    for name in names:
        check_column("keep", name, table.kinds)
        check_one_value("keep", name, table.shapes)
        if name in made:
            raise must("keep", "columns that are not named like a prediction", name, "Rename the column.")
        if names.count(name) > 1:
            raise must("keep", "different columns", name)


def table_as_written(table: Table, path: str, form: CsvFormat, names: Sequence[str]) -> Table:
    """Return the table from which columns are kept: of a CSV file their text, so that 007 does not become 7."""
    if not is_csv(path) or not names:
        return table
    import pandas as pd

    for name in names:
        check_column("keep", name, table.kinds)
    options = form.options(Path(path)) | {"dtype": str, "keep_default_na": False, "index_col": False}
    frame = pd.read_csv(path, usecols=lambda name: name.strip() in names, **options)
    frame.columns = frame.columns.str.strip()
    columns = {name: frame[name].to_numpy(object, copy=True) for name in names}
    for values in columns.values():
        values[values == ""] = None
    return MemoryTable(columns)
