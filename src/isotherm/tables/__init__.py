"""Regression from tables: formulas, families, forecasts and effects."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotherm.tables.forecasting import forecast as forecast
    from isotherm.tables.regressions import regression as regression

_LATER = {
    "forecast": "isotherm.tables.forecasting",
    "regression": "isotherm.tables.regressions",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'isotherm.tables' has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
