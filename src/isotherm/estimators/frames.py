"""Data frames of pandas, polars and Arrow: their columns as arrays, and results as frames of the same kind."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from isotherm.errors import check_choice, missing_extra
from isotherm.tables.parquet_table import column_values

PANDAS, POLARS, ARROW = "pandas", "polars", "pyarrow"


def kind_of_frame(X: Any) -> str | None:
    """Return which library's data frame this is; `None` for anything else, such as an array."""
    if not hasattr(X, "columns"):
        return None
    if hasattr(X, "iloc"):
        return PANDAS
    if not hasattr(X, "__arrow_c_stream__"):
        return None
    return POLARS if type(X).__module__.partition(".")[0] == POLARS else ARROW


def columns_of(X: Any) -> list[np.ndarray]:
    """Return the columns of a data frame, in which NaN or, among objects, `None` is a missing value."""
    if kind_of_frame(X) != PANDAS:
        try:
            import pyarrow as pa
        except ImportError as error:
            raise missing_extra(f"a data frame of {kind_of_frame(X)}", "parquet") from error
        return [column_values(column.to_pandas()) for column in pa.table(X).columns]
    return [column_values(X.iloc[:, i]) for i in range(X.shape[1])]


def make_frame(kind: str, columns: Mapping[str, np.ndarray], like: Any = None) -> Any:
    """Return a data frame with these columns. In pandas its rows have the labels of `like`, if that has some."""
    check_choice("transform", kind, (PANDAS, POLARS, ARROW))
    if kind == PANDAS:
        import pandas as pd

        return pd.DataFrame(dict(columns), index=like.index if kind_of_frame(like) == PANDAS else None)
    if kind == POLARS:
        import polars as pl  # pyrefly: ignore

        return pl.DataFrame(dict(columns))
    import pyarrow as pa

    return pa.table(dict(columns))
