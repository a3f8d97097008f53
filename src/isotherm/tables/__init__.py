"""Regression from tables: formulas, families, forecasts and effects."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotherm.tables.criticism.by_column import checks_by as checks_by
    from isotherm.tables.criticism.comparing import compare as compare
    from isotherm.tables.criticism.leave_one_out import loo as loo
    from isotherm.tables.criticism.variance import r_squared as r_squared
    from isotherm.tables.forecasting import forecast as forecast
    from isotherm.tables.marginal.along import effects as effects
    from isotherm.tables.marginal.curves import curve as curve
    from isotherm.tables.marginal.levels import group_effects as group_effects
    from isotherm.tables.marginal.slopes import slopes as slopes
    from isotherm.tables.priors.predictive import prior_predictive as prior_predictive
    from isotherm.tables.regressions import regression as regression

_LATER = {
    "checks_by": "isotherm.tables.criticism.by_column",
    "compare": "isotherm.tables.criticism.comparing",
    "curve": "isotherm.tables.marginal.curves",
    "effects": "isotherm.tables.marginal.along",
    "forecast": "isotherm.tables.forecasting",
    "group_effects": "isotherm.tables.marginal.levels",
    "loo": "isotherm.tables.criticism.leave_one_out",
    "prior_predictive": "isotherm.tables.priors.predictive",
    "r_squared": "isotherm.tables.criticism.variance",
    "regression": "isotherm.tables.regressions",
    "slopes": "isotherm.tables.marginal.slopes",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'isotherm.tables' has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
