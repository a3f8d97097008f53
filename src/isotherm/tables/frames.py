"""Data frames of pandas, polars and Arrow as columns by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from isotherm.errors import must
from isotherm.tables.parquet_table import column_values


def columns_of(columns: Any) -> Mapping[str, Any]:
    """Return arrays by name from a dictionary or a data frame, without a copy where the types allow it."""
    if isinstance(columns, Mapping):
        return columns
    kind = type(columns).__module__.split(".")[0]
    if kind == "pandas" and hasattr(columns, "columns"):
        if not columns.columns.is_unique:
            repeated = columns.columns[columns.columns.duplicated()][0]
            raise must("columns", "a data frame whose columns have different names", repeated)
        return {str(name): _values(columns[name]) for name in columns.columns}
    if kind == "polars" and hasattr(columns, "collect"):
        columns = columns.collect()
    if kind == "polars" and hasattr(columns, "get_columns"):
        return {series.name: _values(series.to_pandas()) for series in columns.get_columns()}
    if kind == "pyarrow" and hasattr(columns, "column_names"):
        return {name: _values(columns.column(name).to_pandas()) for name in columns.column_names}
    rule = "a dictionary of arrays, a data frame of pandas, polars or Arrow, or the path of a table"
    raise must("columns", rule, columns, error=TypeError)


def _values(series: Any) -> np.ndarray:
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):  # numbers too: a category is not a quantity
        return series.astype(object).map(str, na_action="ignore").where(series.notna(), None).to_numpy(object)
    return column_values(series)
