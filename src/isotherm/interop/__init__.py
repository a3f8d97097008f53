"""Models of other libraries as posteriors. Each module needs its library and is loaded on first use."""

import importlib
from typing import Any

_MODULES = ("numpyro", "flax", "equinox")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'isotherm.interop' has no attribute {name!r}")
    return importlib.import_module(f"isotherm.interop.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
