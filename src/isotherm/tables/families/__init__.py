"""The families of regressions: what distribution the target has, in one file each."""

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Auxiliary": "base",
    "Effect": "base",
    "Facts": "base",
    "Family": "base",
    "Link": "base",
    "LocationFamily": "base",
    "Target": "base",
    "Together": "base",
    "Law": "laws",
    "Likelihood": "likelihood",
    "LogPrior": "likelihood",
    "Prior": "prior",
    "MODELS": "registry",
    "family_of": "registry",
    "register": "registry",
}
if TYPE_CHECKING:
    from isotherm.tables.families.base import Auxiliary as Auxiliary
    from isotherm.tables.families.base import Effect as Effect
    from isotherm.tables.families.base import Facts as Facts
    from isotherm.tables.families.base import Family as Family
    from isotherm.tables.families.base import Link as Link
    from isotherm.tables.families.base import LocationFamily as LocationFamily
    from isotherm.tables.families.base import Target as Target
    from isotherm.tables.families.base import Together as Together
    from isotherm.tables.families.laws import Law as Law
    from isotherm.tables.families.likelihood import Likelihood as Likelihood
    from isotherm.tables.families.likelihood import LogPrior as LogPrior
    from isotherm.tables.families.prior import Prior as Prior
    from isotherm.tables.families.registry import MODELS as MODELS
    from isotherm.tables.families.registry import family_of as family_of
    from isotherm.tables.families.registry import register as register


def __getattr__(name: str) -> Any:
    """Import what is asked for: the names of the families are known without it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
